// SPDX-License-Identifier: Apache-2.0
// For training jobs: fetches tuned configs from a daemon at start-up. Never throws, never tunes,
// never waits longer than the timeout; a dead daemon is an error status and the job takes its
// defaults.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace tune::client {

// A tuned config: what to pass to the kernel's compiler as macros, and how well it fits.
struct TunedConfig {
  std::map<std::string, std::string> params;  // "BLOCK_M" -> "64"
  std::string match;             // "exact", "bucketed", "nearest", "other_device", "default"
  std::string reason;            // one sentence
  double latency_ns_median = 0;  // of the record; 0 for a default
  int64_t snapshot_id = 0;

  // The integer value of a param, or `fallback` if there is none of that name.
  int64_t Integer(const std::string& param, int64_t fallback) const;
};

struct LookupOptions {
  std::string address;  // empty: the host's daemon (client/address.h)
  // For TCP addresses, which are TLS: the daemon's authority; our certificate and key, or a token.
  // Without them the environment's (client/credentials.h).
  std::string ca_file;
  std::string certificate_file;
  std::string key_file;
  std::string token_file;
  // At a unix socket only a daemon of our own user, of root or of this one is asked, by name or
  // number; empty: $TUNE_DAEMON_USER.
  std::string daemon_user;
  std::chrono::milliseconds timeout = std::chrono::milliseconds(200);
};

// Thread-safe. One connection, opened lazily, and again when the daemon has been restarted.
class LookupClient {
 public:
  static absl::StatusOr<std::unique_ptr<LookupClient>> Create(const LookupOptions& options);
  virtual ~LookupClient() = default;

  // Dims not given take the kernel's defaults; an empty dtype or device likewise. UNAVAILABLE or
  // DEADLINE_EXCEEDED: no answer in time, or none that is trusted; NOT_FOUND: no such kernel;
  // INVALID_ARGUMENT: no such dim.
  virtual absl::StatusOr<TunedConfig> Lookup(const std::string& kernel,
                                             const std::map<std::string, int64_t>& dims,
                                             const std::string& dtype = "",
                                             const std::string& device = "") = 0;
};

}  // namespace tune::client
