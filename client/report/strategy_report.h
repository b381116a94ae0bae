// SPDX-License-Identifier: Apache-2.0
// A comparison of strategies as people see it: a table, and a picture.
#pragma once

#include <string>

#include "tune/v1/replay.pb.h"

namespace tune::client {

// A row a strategy over all recordings; with several recordings, one table for each of them too.
std::string ComparisonText(const v1::StrategyComparison& comparison);

// Best so far over the optimum against evaluations, median and quartiles of each strategy: one
// chart a recording, as one SVG that follows the reader's light or dark theme.
std::string ComparisonSvg(const v1::StrategyComparison& comparison);

}  // namespace tune::client
