// SPDX-License-Identifier: Apache-2.0
// A round: one fresh process for each revision, the kernel timed in both by turns. Rounds are the
// gate's only evidence: launches within a process are no evidence about a revision, only about that
// process.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tuner/gate/rules.h"
#include "tuner/trial.h"

namespace tune::gate {

// Values are stored: do not renumber.
enum class Revision { kNone = 0, kBase = 1, kHead = 2 };  // kNone: the leg is not a gate's
enum class Stage { kScreen = 1, kConfirm = 2, kRecovery = 3 };

std::string ToText(Revision revision);
std::string ToText(Stage stage);

// The kernel timed once in one of the two processes.
struct Leg {
  Revision revision = Revision::kBase;
  std::vector<double> samples_ns;
  double median_ns = 0;  // of the samples
  Clock clock = Clock::kUnknown;
  Telemetry telemetry;
};
TUNE_FIELDS(Leg, revision, samples_ns, median_ns, clock, telemetry);

// NVML's clock event reasons that spoil a leg, and the one that explains a lower clock.
inline constexpr uint64_t kPowerCapBit = 0x4;
inline constexpr uint64_t kThrottleBits = 0x8 | 0x20 | 0x40 | 0x80;  // hardware, thermal, brake

// A round of one kernel, reduced to a ratio.
struct RoundResult {
  // Mean over head legs of log(median) less the same over base legs.
  double log_ratio = 0;
  // The ratio in cycles; nullopt if the device does not report its clock.
  std::optional<double> cycle_log_ratio;
  double base_log = 0;  // mean over base legs of log(median in ns)
  double head_log = 0;
  std::string invalid;  // why the round says nothing; empty if it does
};
TUNE_FIELDS(RoundResult, log_ratio, cycle_log_ratio, base_log, head_log, invalid);

// A round must have as many legs of the one as of the other, at least one each.
RoundResult Reduce(const std::vector<Leg>& legs, const Rules& rules);

}  // namespace tune::gate
