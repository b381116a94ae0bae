// SPDX-License-Identifier: Apache-2.0
#include "tuner/counters/calibration.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"

namespace tune {
namespace {

constexpr double kMultiplierMax = 8;

void JudgeExact(CalibrationEntry& entry) {
  for (double factor = 1 / kMultiplierMax; factor <= kMultiplierMax; factor *= 2) {
    if (entry.counted * factor == entry.expected) entry.passed = true;
  }
  if (entry.passed) return;
  entry.message =
      absl::StrCat("no power of two makes ", entry.counted, " the known ", entry.expected);
}

void JudgeClose(CalibrationEntry& entry) {
  entry.passed = std::abs(entry.multiplier - 1) <= entry.tolerance;
  if (entry.passed) return;
  entry.message = absl::StrCat("off by ", 100 * (1 / entry.multiplier - 1), " %, more than ",
                               100 * entry.tolerance, " %");
}

}  // namespace

void JudgeCalibration(std::vector<CalibrationEntry>& entries, const Multipliers& known) {
  Multipliers agreed = known;
  for (CalibrationEntry& entry : entries) {
    entry.passed = false;
    if (!entry.message.empty()) continue;  // it was not read at all
    if (!(entry.counted > 0)) {
      entry.message = "nothing was counted";
      continue;
    }
    entry.multiplier = entry.expected / entry.counted;
    if (entry.tolerance > 0) {
      JudgeClose(entry);
      continue;
    }
    JudgeExact(entry);
    if (!entry.passed) continue;
    const auto [it, is_first] = agreed.emplace(entry.quantity, entry.multiplier);
    if (is_first || it->second == entry.multiplier) continue;
    entry.passed = false;
    entry.message = absl::StrCat("counts of ", entry.quantity, " are multiplied by ", it->second,
                                 " on this chip, and this kernel wants ", entry.multiplier);
  }
}

bool AllPassed(const std::vector<CalibrationEntry>& entries) {
  return std::all_of(entries.begin(), entries.end(),
                     [](const CalibrationEntry& entry) { return entry.passed; });
}

Multipliers MultipliersOf(const std::vector<CalibrationEntry>& entries) {
  Multipliers multipliers;
  for (const CalibrationEntry& entry : entries) {
    if (entry.passed && entry.tolerance == 0) multipliers[entry.quantity] = entry.multiplier;
  }
  return multipliers;
}

}  // namespace tune
