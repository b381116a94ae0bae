// SPDX-License-Identifier: Apache-2.0
// A snapshot that was found once, and what it answers.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/library/resolve.h"
#include "client/library/sources.h"

namespace tune::library {

struct OpenOptions {
  std::optional<std::string> snapshot;  // nothing: TUNE_SNAPSHOT's
  std::string address;                  // empty: TUNE_ADDRESS's, else the host's
  std::chrono::milliseconds timeout = std::chrono::milliseconds(250);  // of the daemon
};

// Thread-safe. A forked child goes on with it.
class JobClient {
 public:
  // INVALID_ARGUMENT: a digest that cannot be one. FAILED_PRECONDITION: WORLD_SIZE is above one,
  // and nothing is pinned.
  static absl::StatusOr<std::unique_ptr<JobClient>> Open(const OpenOptions& options);

  const Snapshot* snapshot() const { return found_.snapshot.get(); }  // null: there is none
  const std::string& source() const { return found_.source; }
  const std::vector<std::string>& notes() const { return found_.notes; }

  // INVALID_ARGUMENT: a mistake of the caller.
  absl::StatusOr<Answer> Best(const Question& question) const;
  // NOT_FOUND.
  absl::StatusOr<std::string> Artifact(const std::string& digest) const;

 private:
  JobClient(Found found, Daemon daemon) : found_(std::move(found)), daemon_(std::move(daemon)) {}

  const Found found_;
  const Daemon daemon_;
};

}  // namespace tune::library
