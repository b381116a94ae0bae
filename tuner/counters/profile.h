// SPDX-License-Identifier: Apache-2.0
// A profile: what the hardware counters say of a config, next to its time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tuner/config.h"
#include "tuner/counters/calibration.h"
#include "tuner/counters/counting.h"
#include "tuner/plan.h"
#include "tuner/trial.h"

namespace tune {

struct Profile {
  int64_t id = 0;        // given by the store
  int64_t trial_id = 0;  // whose time it is; 0: timed for this profile
  int64_t sweep_id = 0;  // of the trial
  Config config;
  MetricSet set = MetricSet::kDefault;
  int64_t profiled_unix_ms = 0;
  Outcome outcome = Outcome::kOk;
  std::string message;  // why it is not ok, or why there are no counters, and what to do
  bool counted = false;
  std::string chip;
  int pass_count = 0;
  int reading_count = 0;
  uint64_t sample_count = 0;  // of the measurement, whose samples are not kept here
  Measurement measurement;    // from launches that were not counted
  Resources resources;
  WorkPlan work;           // declared
  Quantities quantities;   // multipliers applied
  std::vector<CounterReading> counters;
  double write_back_debt_bytes = 0;
  std::vector<std::string> notes;
};

// What is known of a problem on a device besides the counters.
struct ProfileScene {
  double written_bytes = 0;  // declared, by all outputs
  double l2_bytes = 0;
  bool uses_tensor_maps = false;
  Multipliers multipliers;  // of the chip
};

// Takes the counts over: applies multipliers, and notes what weakens the figures.
void ApplyCounts(const CountReport& report, const ProfileScene& scene, Profile& profile);

// Does a quantity count operations: "f32", "tensor_bf16"?
bool IsFlopQuantity(const std::string& quantity);

// The FLOPs of all precisions together; a negative number if none were counted.
double CountedFlops(const Profile& profile);

// Bytes that passed a level: "dram" (both directions), "l2", "l1", "shared"; negative if not
// counted.
double LevelBytes(const Profile& profile, const std::string& level);

}  // namespace tune
