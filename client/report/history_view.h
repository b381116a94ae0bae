// SPDX-License-Identifier: Apache-2.0
// The history of a kernel, in a terminal and as a picture.
#pragma once

#include <string>

#include "tune/v1/gate.pb.h"

namespace tune::client {

std::string HistoryText(const v1::HistorySeries& series);
// A self-contained SVG with a chart for each series: a point a measurement, the band of its
// slowest and fastest rounds, the levels between changes, and what changed by how much at which
// label.
std::string HistorySvg(const v1::GetHistoryResponse& history);

}  // namespace tune::client
