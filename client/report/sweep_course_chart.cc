// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "base/plural.h"
#include "client/report/format.h"
#include "client/report/roofline_view.h"
#include "client/report/svg_style.h"
#include "client/report/sweep_report_view.h"

namespace tune::client {
namespace {

constexpr Series kCourseBest = 0;
constexpr Series kCourseTie = 2;
constexpr Series kCourseFailed = 7;

struct Latencies {
  double low = 0;  // 0: nothing was timed
  double high = 0;
};

// The latencies that the chart shows: of the fastest trials alone if the view says so.
Latencies ShownOf(const v1::SweepCourse& course, double fastest_share) {
  std::vector<double> timed;
  for (const v1::CoursePoint& point : course.points()) {
    if (point.latency_ns() > 0) timed.push_back(point.latency_ns() * kSecondsPerNs);
  }
  if (timed.empty()) return {};
  std::sort(timed.begin(), timed.end());
  const double last = std::ceil(fastest_share * static_cast<double>(timed.size())) - 1;
  const size_t index = static_cast<size_t>(std::clamp(last, 0.0, timed.size() - 1.0));
  return {.low = timed.front(), .high = std::max(timed[index], timed.front() * 1.01)};
}

std::set<int64_t> TiesOf(const v1::Sweep& sweep) {
  std::set<int64_t> ties;
  for (const v1::Trial& tie : sweep.result().ties()) ties.insert(tie.id());
  return ties;
}

// A trial that was not ok lies in a band of its own below the others: it has no latency.
void AddFailures(const v1::SweepCourse& course, const Latencies& shown, SvgChart& chart) {
  const double span = shown.low > 0 ? shown.high / shown.low : 10;
  const double least = shown.low > 0 ? shown.low : 1e-6;
  const auto below = [&](double share) { return least / std::pow(std::max(span, 1.5), share); };
  ChartPoints failed{
      .name = "not ok", .series = kCourseFailed, .shape = Shape::kCross, .radius = 2.5};
  for (const v1::CoursePoint& point : course.points()) {
    if (point.outcome() == v1::OUTCOME_OK) continue;
    failed.points.push_back(
        {.x = static_cast<double>(point.trial_number()),
         .y = below(0.09),
         .title = fmt::format("trial {}: {}", point.trial_id(), ToText(point.outcome()))});
  }
  if (failed.points.empty()) return;
  chart.bands.push_back({.series = kCourseFailed,
                         .points = {{1, below(0.14), below(0.04)},
                                    {static_cast<double>(std::max<uint64_t>(course.trials(), 2)),
                                     below(0.14), below(0.04)}}});
  chart.y.min = below(0.16);
  chart.points.push_back(std::move(failed));
}

void AddTimed(const v1::SweepCourse& course, SvgChart& chart) {
  const std::set<int64_t> ties = TiesOf(course.sweep());
  constexpr int kFewPoints = 300;
  ChartPoints search{
      .name = "trials", .series = kNeutral, .radius = course.points_size() < kFewPoints ? 3.5 : 2};
  ChartPoints again{.name = "measured again", .series = kNeutral, .shape = Shape::kSquare};
  ChartPoints tied{
      .name = "cannot be told from the best", .series = kCourseTie, .shape = Shape::kDiamond};
  ChartPoints winner{.name = "best", .series = kCourseBest, .shape = Shape::kSquare, .radius = 5};
  ChartLine best{.name = "best so far", .series = kCourseBest, .step = true};
  for (const v1::CoursePoint& point : course.points()) {
    if (!(point.latency_ns() > 0)) continue;
    const bool searched = point.purpose() != v1::TRIAL_PURPOSE_CONFIRM;
    const XY at{static_cast<double>(point.trial_number()), point.latency_ns() * kSecondsPerNs};
    if (point.improves()) best.points.push_back(at);
    const bool won = course.sweep().result().best().id() == point.trial_id();
    ChartPoints& group = won                            ? winner
                         : ties.count(point.trial_id()) ? tied
                         : searched                     ? search
                                                        : again;
    group.points.push_back(
        {.x = at.x,
         .y = at.y,
         .title = fmt::format("trial {}: {} ({} to {}), after {}", point.trial_id(),
                              LatencyText(point.latency_ns()), LatencyText(point.latency_ns_low()),
                              LatencyText(point.latency_ns_high()), DurationText(point.seconds())),
         .hollow = !won && !searched});
  }
  if (!best.points.empty()) {
    best.points.push_back({static_cast<double>(course.trials()), best.points.back().y});
    chart.lines.push_back(std::move(best));
  }
  for (ChartPoints* points : {&search, &again, &tied, &winner}) {
    if (!points->points.empty()) chart.points.push_back(std::move(*points));
  }
}

// The interval of the best across the whole search: trials inside it are ties to the eye.
void AddNoiseBand(const v1::SweepCourse& course, SvgChart& chart) {
  double low = course.sweep().result().best().measurement().latency_ns_low();
  double high = course.sweep().result().best().measurement().latency_ns_high();
  for (const v1::CoursePoint& point : course.points()) {
    if (course.sweep().has_result() || !point.improves()) continue;
    low = point.latency_ns_low();
    high = point.latency_ns_high();
  }
  if (!(low > 0) || !(high >= low)) return;
  low *= kSecondsPerNs;
  high *= kSecondsPerNs;
  const double last = static_cast<double>(std::max<uint64_t>(course.trials(), 2));
  chart.bands.push_back({.name = "95 % interval of the best",
                         .series = kCourseBest,
                         .points = {{1, low, high}, {last, low, high}}});
}

}  // namespace

SvgChart CourseChart(const v1::SweepCourse& course, const CourseView& view) {
  const uint64_t shown = static_cast<uint64_t>(course.points_size());
  SvgChart chart{.title = "Trials in the order of the search",
                 .subtitle = Counted(course.trials(), "trial"),
                 .x = {.label = "trial", .whole = true},
                 .y = {.unit = "s", .scale = view.scale},
                 .height = 420};
  if (shown < course.trials()) {
    chart.subtitle += fmt::format(
        "; drawn are {}: the improvements, and of each stretch the fastest, the slowest and a "
        "failure",
        shown);
  }
  const Latencies latencies = ShownOf(course, view.fastest_share);
  if (view.fastest_share < 1) {
    chart.subtitle += fmt::format("; the fastest {}", PercentText(view.fastest_share));
    chart.y.max = latencies.high * 1.02;
  }
  AddNoiseBand(course, chart);
  AddFailures(course, latencies, chart);
  AddTimed(course, chart);
  if (latencies.low > 0) {
    chart.description =
        fmt::format("{}; the fastest took {}.", chart.subtitle, LatencyText(latencies.low * 1e9));
  }
  return chart;
}

}  // namespace tune::client
