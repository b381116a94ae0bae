// SPDX-License-Identifier: Apache-2.0
// The operator's rules for clients: roles, groups and quotas.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "db/token.h"

namespace tune::server {

struct ClientRules {
  // Roles by a name in a certificate; "*": of certificates that have none of the names.
  std::map<std::string, db::Role> certificates;
  bool anonymous_readers = false;  // who shows neither certificate nor token may read
  // The group, by name or number, whose members submit at a unix socket; empty: none.
  std::string submit_group;
  // Quotas of each submitter; operators have none.
  uint32_t jobs_per_principal = 64;                       // that wait or run
  int64_t kernel_bytes_per_principal = int64_t{1} << 30;  // of sources that its sweeps keep
  // The limit of all that its jobs keep on disk: sources, trials, samples, messages, artifacts.
  int64_t stored_bytes_per_principal = int64_t{8} << 30;
  uint32_t device_seconds_per_principal = 0;  // that its jobs have a device in a day; 0: any
  uint32_t job_seconds_per_principal = 3600;  // that one of its jobs has a device; 0: any
};

// Parses "ci=submitter" and "*=reader". INVALID_ARGUMENT names a text that does not parse.
absl::StatusOr<std::map<std::string, db::Role>> ParseCertificateRoles(
    const std::vector<std::string>& lines);

}  // namespace tune::server
