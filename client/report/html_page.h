// SPDX-License-Identifier: Apache-2.0
// Reports as one HTML file that needs nothing else: data, style, script and Chart.js are in it.
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
