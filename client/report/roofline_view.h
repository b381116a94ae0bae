// SPDX-License-Identifier: Apache-2.0
// A roofline report for people: pictures, Markdown, terminal text. Pure.
#pragma once

#include <string>
#include <vector>

#include "client/report/svg_chart.h"
#include "tune/v1/report.pb.h"

namespace tune::client {

// "well used", "memory-bound", ...
std::string ToText(v1::RooflineResource resource);  // "dram"
std::string ToText(v1::RooflineVerdict verdict);

// Null if the sweep has no such point.
const v1::RooflinePoint* FindPoint(const v1::Roofline& roofline, int64_t trial_id);

// "softmax rows=8192 cols=4096 bf16".
std::string SubjectText(const v1::Sweep& sweep);

// Every trial against the roofs; arithmetic intensity across, rate upwards. A kernel without FLOPs
// is drawn by bandwidth.
SvgChart RooflineChart(const v1::Roofline& roofline);

// The chart of one sweep, or the best of each of several, for the first one's device.
SvgChart ReportChart(const v1::RooflineReport& report);

std::string TerminalText(const v1::RooflineReport& report);

// Tables and sentences for a CI comment; `image` is a link to the SVG, if there is one.
std::string MarkdownText(const v1::RooflineReport& report, const std::string& image);

}  // namespace tune::client
