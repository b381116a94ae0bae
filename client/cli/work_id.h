// SPDX-License-Identifier: Apache-2.0
// Jobs and sweeps have numbers of their own: sweep 7 may be job 9. Commands that take one take the
// other as well, where it is named: "sweep:7", "job:9".
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "client/cli/connection.h"

namespace tune::client {

inline constexpr char kJobIdHelp[] = "Job, as in `tunectl job list`; or sweep:ID";
inline constexpr char kSweepIdHelp[] = "Sweep, as in `tunectl sweep list`; or job:ID";

// INVALID_ARGUMENT: no number; NOT_FOUND: no such sweep or job, or the job is no sweep.
absl::StatusOr<int64_t> JobIdOf(Connection& connection, const std::string& text);
absl::StatusOr<int64_t> SweepIdOf(Connection& connection, const std::string& text);

}  // namespace tune::client
