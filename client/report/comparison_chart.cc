// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>
#include <map>

#include "absl/strings/str_cat.h"
#include "client/report/comparison_view.h"
#include "client/report/format.h"

namespace tune::client {
namespace {

double SweptValue(const v1::Comparison& comparison, const v1::ComparedProblem& problem) {
  for (const v1::DimValue& dim : problem.problem().dims()) {
    if (dim.name() == comparison.sweep_dim()) return static_cast<double>(dim.value());
  }
  return 0;
}

// Longer times are lower rates: the interval's ends change places.
ChartBand::Range IntervalAt(const WorkRate& rate, const v1::ComparedProblem& problem,
                            const v1::ComparedKernel& kernel, double x) {
  return {.x = x,
          .low = rate.Of(problem, kernel.measurement().latency_ns_high()),
          .high = rate.Of(problem, kernel.measurement().latency_ns_low())};
}

void AddPoint(const WorkRate& rate, const v1::ComparedProblem& problem,
              const v1::ComparedKernel& kernel, double x, ChartPoints& points) {
  const double median = kernel.measurement().latency_ns_median();
  points.points.push_back(
      {.x = x,
       .y = rate.Of(problem, median),
       .title = absl::StrCat(kernel.label(), ": ", LatencyText(median)),
       .hollow = kernel.outcome() != v1::OUTCOME_OK || kernel.agreement() != v1::OUTCOME_OK});
}

// A line for each kernel over the swept dim.
void AddLines(const v1::Comparison& comparison, const WorkRate& rate, SvgChart& chart) {
  std::map<std::string, size_t> places;
  ChartLine roof{.name = "roof", .series = kNeutral, .dashed = true};
  for (const v1::ComparedProblem& problem : comparison.problems()) {
    const double x = SweptValue(comparison, problem);
    if (problem.floor_ns() > 0) roof.points.push_back({x, rate.Of(problem, problem.floor_ns())});
    for (const v1::ComparedKernel& kernel : problem.kernels()) {
      const auto [place, is_new] = places.emplace(kernel.label(), places.size());
      const auto series = static_cast<Series>(place->second % 8);
      if (is_new) {
        chart.bands.push_back({.name = "", .series = series});
        chart.lines.push_back({.name = kernel.label(), .series = series});
        chart.points.push_back({.name = "", .series = series, .radius = 3});
      }
      if (kernel.rounds() == 0) continue;
      chart.bands[place->second].points.push_back(IntervalAt(rate, problem, kernel, x));
      AddPoint(rate, problem, kernel, x, chart.points[place->second]);
      const ChartPoints::Point& point = chart.points[place->second].points.back();
      chart.lines[place->second].points.push_back({point.x, point.y});
    }
  }
  if (!roof.points.empty()) chart.lines.push_back(std::move(roof));
}

// A point for each kernel, of one problem.
void AddPoints(const v1::Comparison& comparison, const WorkRate& rate, SvgChart& chart) {
  if (comparison.problems().empty()) return;
  const v1::ComparedProblem& problem = comparison.problems(0);
  for (int i = 0; i < problem.kernels_size(); ++i) {
    const v1::ComparedKernel& kernel = problem.kernels(i);
    chart.x.categories.push_back(kernel.label());
    if (kernel.rounds() == 0) continue;
    const ChartBand::Range range = IntervalAt(rate, problem, kernel, i);
    chart.lines.push_back(
        {.name = "", .series = i % 8, .points = {{range.x, range.low}, {range.x, range.high}}});
    AddPoint(rate, problem, kernel, i, chart.points.emplace_back(ChartPoints{.series = i % 8}));
  }
  if (problem.floor_ns() > 0) {
    chart.references.push_back({.value = rate.Of(problem, problem.floor_ns()), .label = "roof"});
  }
}

// A linear axis up to the roof would have the slowest on its floor.
constexpr double kLowestOnLinear = 0.05;  // of the highest

bool LiesOnTheFloor(const SvgChart& chart) {
  double low = std::numeric_limits<double>::infinity();
  double high = 0;
  const auto take = [&](double y) {
    low = std::min(low, y);
    high = std::max(high, y);
  };
  for (const ChartPoints& points : chart.points) {
    for (const ChartPoints::Point& point : points.points) take(point.y);
  }
  for (const ChartLine& line : chart.lines) {
    for (const XY& point : line.points) take(point.y);
  }
  for (const ChartReference& reference : chart.references) take(reference.value);
  return low > 0 && low < kLowestOnLinear * high;
}

}  // namespace

SvgChart ComparisonChart(const v1::Comparison& comparison) {
  const WorkRate rate = RateOf(comparison);
  SvgChart chart{.title = comparison.subject(),
                 .subtitle = absl::StrCat(comparison.device_name(), ", driver ",
                                          comparison.driver(), ", comparison ", comparison.id()),
                 .y = {.label = "rate of the declared work", .unit = rate.unit, .min = 0}};
  chart.description = absl::StrCat("Rates of ", comparison.subject(), "; higher is faster.");
  if (comparison.sweep_dim().empty()) {
    AddPoints(comparison, rate, chart);
  } else {
    chart.x = {.label = comparison.sweep_dim(), .scale = Scale::kLog};
    for (const v1::ComparedProblem& problem : comparison.problems()) {
      chart.x.ticks.push_back(SweptValue(comparison, problem));
    }
    AddLines(comparison, rate, chart);
  }
  if (LiesOnTheFloor(chart)) {
    chart.y.scale = Scale::kLog;
    chart.y.min.reset();
  }
  return chart;
}

}  // namespace tune::client
