// SPDX-License-Identifier: Apache-2.0
// Multipliers from hardware counts to operations and bytes, learnt from kernels whose counts are
// known.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tuner/counters/counting.h"

namespace tune {

using Multipliers = std::map<std::string, double>;  // by quantity

// Sets multiplier, passed and message of each entry. An exact entry (tolerance 0) passes if a power
// of two between 1/8 and 8 makes its count the known one exactly, and the multiplier is the one
// that `known` has for its quantity, and that of every other entry of the quantity. An entry with
// a tolerance passes if its count is that close.
void JudgeCalibration(std::vector<CalibrationEntry>& entries, const Multipliers& known);

bool AllPassed(const std::vector<CalibrationEntry>& entries);

// The multipliers of the exact entries that passed.
Multipliers MultipliersOf(const std::vector<CalibrationEntry>& entries);

}  // namespace tune
