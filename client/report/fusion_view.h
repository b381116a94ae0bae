// SPDX-License-Identifier: Apache-2.0
// A report of fusions for people. Pure.
#pragma once

#include <string>

#include "client/report/svg_chart.h"
#include "tune/v1/fusion.pb.h"

namespace tune::client {

std::string TerminalText(const v1::FusionReport& report);
// `image`: a link to the picture; empty: none.
std::string MarkdownText(const v1::FusionReport& report, const std::string& image);
// How much longer each sequence takes than its fused kernel, and how many more bytes it moves.
SvgChart FusionChart(const v1::FusionReport& report);

}  // namespace tune::client
