// SPDX-License-Identifier: Apache-2.0
// Jobs, sweeps and comparisons by id. Jobs and sweeps have numbers of their own: sweep 7 may be
// job 9. Commands that take one take the other as well, where it is named: "sweep:7", "job:9".
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "client/cli/connection.h"
#include "client/cli/session.h"
#include "tune/v1/comparison.pb.h"
#include "tune/v1/sweep.pb.h"

namespace tune::client {

inline constexpr char kJobIdHelp[] = "Job id, as in `tunectl job list`; or sweep:ID";
inline constexpr char kSweepIdHelp[] = "Sweep id, as in `tunectl sweep list`; or job:ID";

// INVALID_ARGUMENT: no number; NOT_FOUND: no such sweep or job, or the job is no sweep.
absl::StatusOr<int64_t> JobIdOf(Connection& connection, const std::string& text);
absl::StatusOr<int64_t> SweepIdOf(Connection& connection, const std::string& text);
absl::StatusOr<v1::Sweep> FindSweep(Connection& connection, const std::string& text);
absl::StatusOr<v1::Sweep> GetSweep(Connection& connection, int64_t sweep_id);
// NOT_FOUND: no comparison has this id.
absl::StatusOr<v1::Comparison> GetComparison(Session& session, int64_t id, bool with_rounds);

}  // namespace tune::client
