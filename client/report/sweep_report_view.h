// SPDX-License-Identifier: Apache-2.0
// A sweep report for people: pictures, Markdown, terminal text. Pure.
#pragma once

#include <string>

#include "client/report/svg_chart.h"
#include "tune/v1/report.pb.h"

namespace tune::client {

// How much each parameter explains, as bars of points.
SvgChart EffectsChart(const v1::SweepReport& report);
// The best latency so far, by trials or by seconds.
enum class TimelineBy { kTrials, kSeconds };
SvgChart TimelineChart(const v1::SweepReport& report, TimelineBy by);
// All trials in the order of the search: the best so far with its interval, ties, and the trials
// that were not ok in a band of their own.
struct CourseView {
  Scale scale = Scale::kLog;
  double fastest_share = 1;  // leaves out slower ones: outliers flatten the picture
};
SvgChart CourseChart(const v1::SweepCourse& course, const CourseView& view = {});
SvgHeatmap PairHeatmap(const v1::SweepReport& report);

// Effects, heat map and time line as one picture.
std::string SvgText(const v1::SweepReport& report);
// "3 like trial 17 (BLOCK=64): scale.cu(4): error: ...", in one line.
std::string ExampleText(const v1::OutcomeExample& example);
std::string TerminalText(const v1::SweepReport& report);
std::string MarkdownText(const v1::SweepReport& report, const std::string& image);

}  // namespace tune::client
