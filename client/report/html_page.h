// SPDX-License-Identifier: Apache-2.0
// Reports as one HTML file that needs nothing else: the pictures of svg_chart.h, the tables and
// sentences of the Markdown, style, and a script for hover, filters and sorting.
#pragma once

#include <string>

#include "tune/v1/comparison.pb.h"
#include "tune/v1/fusion.pb.h"
#include "tune/v1/report.pb.h"

namespace tune::client {

std::string HtmlPage(const v1::RooflineReport& report);
std::string HtmlPage(const v1::SweepReport& report);
std::string HtmlPage(const v1::Comparison& comparison);
std::string HtmlPage(const v1::FusionReport& report);

}  // namespace tune::client
