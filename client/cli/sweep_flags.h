// SPDX-License-Identifier: Apache-2.0
// The flags of tunectl sweep, shared by real sweeps and replayed ones.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cli/session.h"
#include "tune/v1/replay.pb.h"
#include "tune/v1/sweep.pb.h"

namespace tune::client {

struct SweepFlags {
  std::string kernel;
  std::string kernel_path;
  std::string dtype;
  std::string device;
  std::string strategy;
  std::string budget;
  uint64_t seed = 1;
  uint32_t stop_no_improvement = 0;
  double stop_chance = 0;
  std::vector<std::string> prior;  // recordings
  bool no_warm_start = false;
  std::string replay;  // a recording
  uint32_t in_flight = 1;
  bool warm = false;
  bool fresh = false;
  bool background = false;
  bool detach = false;
  bool json = false;
  bool verbose = false;
};

// "100" trials, or "30s", "5min", "1h".
absl::StatusOr<v1::Budget> ParseBudget(const std::string& text);
v1::StopRules StopRulesOf(const SweepFlags& flags);

// tunectl sweep --replay FILE
absl::Status ReplaySweep(Session& session, const SweepFlags& flags);

}  // namespace tune::client
