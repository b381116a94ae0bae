// SPDX-License-Identifier: Apache-2.0
// A profile: what the hardware counters say of a config, next to its time.
#pragma once

#include <cstdint>
#include <optional>
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
  Measurement measurement;  // from launches that were not counted; samples are not kept here
  Resources resources;
  WorkPlan work;          // declared
  Quantities quantities;  // multipliers applied
  std::vector<CounterReading> counters;
  double write_back_debt_bytes = 0;
  std::vector<std::string> notes;
};
TUNE_FIELDS(Profile, id, trial_id, sweep_id, config, set, profiled_unix_ms, outcome, message,
            counted, chip, pass_count, reading_count, measurement, resources, work, quantities,
            counters, write_back_debt_bytes, notes);

// Was it timed? One that is not ok was not.
inline bool WasTimed(const Profile& profile) { return profile.measurement.latency_ns_median > 0; }

// Why warps waited: warps in this state per issued instruction.
struct Stall {
  std::string reason;  // "long_scoreboard"
  double warps = 0;
  double share = 0;  // of all stalls, 0..1
};
TUNE_FIELDS(Stall, reason, warps, share);

// A profile's quantities by their meaning, and the figures that follow from them. tune.v1.Profile
// describes each. nullopt if it was not counted.
struct Figures {
  double declared_bytes = 0;
  double declared_flops = 0;
  std::string peak;
  std::optional<double> dram_read_bytes;
  std::optional<double> dram_write_bytes;
  std::optional<double> l2_bytes;
  std::optional<double> l1_bytes;
  std::optional<double> shared_bytes;
  std::optional<double> l2_hit_rate;
  std::optional<double> occupancy;
  std::optional<double> issue_active;
  std::optional<double> sm_clock_hz;
  std::optional<double> memory_clock_hz;
  std::optional<double> tensor_instructions;
  Quantities flops;  // by precision
  // FLOPs over bytes; FLOPs are those counted, or else those declared.
  std::optional<double> dram_intensity;
  std::optional<double> l2_intensity;
  std::optional<double> l1_intensity;
  std::optional<double> reread_factor;  // DRAM bytes over declared bytes
  std::vector<Stall> stalls;            // most frequent first
};
TUNE_FIELDS(Figures, declared_bytes, declared_flops, peak, dram_read_bytes, dram_write_bytes,
            l2_bytes, l1_bytes, shared_bytes, l2_hit_rate, occupancy, issue_active, sm_clock_hz,
            memory_clock_hz, tensor_instructions, flops, dram_intensity, l2_intensity, l1_intensity,
            reread_factor, stalls);

Figures FiguresOf(const Profile& profile);

// Facts about a problem on a device that counters do not give.
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
