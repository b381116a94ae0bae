// SPDX-License-Identifier: Apache-2.0
// A roofline report for people: pictures, Markdown, terminal text. Pure.
#pragma once

#include <cstdint>
#include <optional>
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
// In how many rounds a trial was measured, as LatencyIntervalText asks for it.
std::optional<uint32_t> RoundsOf(const v1::Sweep& sweep, const v1::Trial& trial);

std::string SubjectText(const v1::Sweep& sweep);

// Every trial against the roofs; arithmetic intensity across, rate upwards. A kernel without FLOPs
// is drawn by bandwidth.
// `level` is the memory whose bytes count; levels other than DRAM have only the trials whose bytes
// were counted there.
SvgChart RooflineChart(const v1::Roofline& roofline,
                       v1::RooflineResource level = v1::ROOFLINE_RESOURCE_DRAM);

// The latency of every trial in the order of the search, and the best's least time at the roof.
SvgChart LatencyChart(const v1::Roofline& roofline);

// The chart of one sweep, or the best of each of several, for the first one's device.
SvgChart ReportChart(const v1::RooflineReport& report);

std::string TerminalText(const v1::RooflineReport& report);

// Tables and sentences for a CI comment; `image` is a link to the SVG, if there is one.
std::string MarkdownText(const v1::RooflineReport& report, const std::string& image);
// Its parts: the table of several problems, the section of one, and what a trial uses.
std::string MarkdownOverview(const v1::RooflineReport& report, const std::string& image);
std::string MarkdownSection(const v1::Roofline& roofline);
std::string MarkdownUses(const v1::RooflinePoint& point);

}  // namespace tune::client
