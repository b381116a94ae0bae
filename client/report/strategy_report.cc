// SPDX-License-Identifier: Apache-2.0
#include "client/report/strategy_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "client/report/format.h"
#include "client/report/svg_chart.h"
#include "client/report/terminal.h"

namespace tune::client {
namespace {

constexpr int kChartWidth = 520;
constexpr int kChartHeight = 360;
constexpr int kColumnsMax = 3;

std::string RatioText(double ratio) {
  return std::isfinite(ratio) ? fmt::format("{:.3f}", ratio) : "-";
}

std::string ShareText(double share) { return fmt::format("{:.0f} %", 100 * share); }

bool HasScores(const v1::StrategyComparison& comparison) {
  return std::any_of(comparison.strategies().begin(), comparison.strategies().end(),
                     [](const v1::ComparedStrategy& strategy) { return strategy.score() != 0; });
}

std::vector<std::string> Titles(const v1::StrategyComparison& comparison) {
  std::vector<std::string> titles = {"strategy"};
  for (const uint32_t budget : comparison.budgets()) titles.push_back(absl::StrCat("at ", budget));
  titles.insert(titles.end(), {"within 5 %", "optimum hit", "us a trial"});
  if (HasScores(comparison)) titles.push_back("score");
  return titles;
}

// ComparedStrategy and ComparedRuns have the same figures.
template <typename Figures>
void AddRow(const std::string& name, const Figures& figures, bool with_score, Table& table) {
  std::vector<std::string> cells = {name};
  for (const double ratio : figures.ratios()) cells.push_back(RatioText(ratio));
  cells.push_back(ShareText(figures.within_5_percent()));
  cells.push_back(ShareText(figures.hit_optimum()));
  cells.push_back(fmt::format("{:.1f}", figures.overhead_us_median()));
  if (with_score) cells.push_back(fmt::format("{:.3f}", figures.score()));
  table.Add(std::move(cells));
}

void AddRandomRow(const std::vector<double>& ratios, Table& table) {
  std::vector<std::string> cells = {"(random, exact)"};
  for (const double ratio : ratios) cells.push_back(RatioText(ratio));
  table.Add(std::move(cells));
}

std::vector<double> RandomOverAll(const v1::StrategyComparison& comparison) {
  std::vector<double> means;
  for (int i = 0; i < comparison.budgets_size(); ++i) {
    double logs = 0;
    for (const v1::ComparedRecording& recording : comparison.recordings()) {
      logs += std::log(recording.random_ratios(i));
    }
    means.push_back(std::exp(logs / comparison.recordings_size()));
  }
  return means;
}

std::string RecordingLine(const v1::RecordingInfo& recording) {
  return fmt::format("{}  {} configs of {}{}", Bold(recording.name()), recording.configs(),
                     recording.device(), recording.sampled() ? ", a sample" : "");
}

// A step keeps its height: what repeats it need not be drawn.
bool IsFlat(const v1::ComparedRuns& runs, int k) {
  return k > 0 && k + 1 < runs.curve_median_size() && runs.curve_low(k) == runs.curve_low(k - 1) &&
         runs.curve_median(k) == runs.curve_median(k - 1) &&
         runs.curve_high(k) == runs.curve_high(k - 1);
}

SvgChart ChartOf(const v1::StrategyComparison& comparison, const v1::ComparedRecording& recording) {
  SvgChart chart{.title = recording.recording().name(),
                 .subtitle = recording.recording().device(),
                 .description = "Best latency found so far over the optimum, against evaluations",
                 .x = {.label = "evaluations", .whole = true},
                 .y = {.label = "best over optimum", .scale = Scale::kLog, .min = 1.0},
                 .width = kChartWidth,
                 .height = kChartHeight};
  for (int i = 0; i < recording.runs_size(); ++i) {
    const v1::ComparedRuns& runs = recording.runs(i);
    ChartBand band{.series = i, .step = true};
    ChartLine line{.name = comparison.strategies(i).name(), .series = i, .step = true};
    for (int k = 0; k < runs.curve_median_size(); ++k) {
      if (IsFlat(runs, k)) continue;
      const double x = k + 1;
      if (std::isfinite(runs.curve_high(k))) {
        band.points.push_back({.x = x, .low = runs.curve_low(k), .high = runs.curve_high(k)});
      }
      if (std::isfinite(runs.curve_median(k))) {
        line.points.push_back({.x = x, .y = runs.curve_median(k)});
      }
    }
    chart.bands.push_back(std::move(band));
    chart.lines.push_back(std::move(line));
  }
  return chart;
}

// An <svg> within another: its own place, and no width of its own to shrink to.
std::string Placed(const std::string& svg, int x, int y) {
  return absl::StrReplaceAll(
      svg, {{" style=\"max-width:100%;height:auto\"", fmt::format(" x=\"{}\" y=\"{}\"", x, y)}});
}

}  // namespace

std::string ComparisonText(const v1::StrategyComparison& comparison) {
  const bool with_score = HasScores(comparison);
  std::string text;
  if (comparison.recordings_size() > 1) {
    for (const v1::ComparedRecording& recording : comparison.recordings()) {
      Table table(Titles(comparison));
      for (int i = 0; i < recording.runs_size(); ++i) {
        AddRow(comparison.strategies(i).name(), recording.runs(i), with_score, table);
      }
      AddRandomRow({recording.random_ratios().begin(), recording.random_ratios().end()}, table);
      absl::StrAppend(&text, RecordingLine(recording.recording()), "\n", table.Text(), "\n");
    }
    absl::StrAppend(&text, Bold("all"), "  geometric means of the medians\n");
  } else {
    absl::StrAppend(&text, RecordingLine(comparison.recordings(0).recording()), "\n");
  }
  Table table(Titles(comparison));
  for (const v1::ComparedStrategy& strategy : comparison.strategies()) {
    AddRow(strategy.name(), strategy, with_score, table);
  }
  AddRandomRow(RandomOverAll(comparison), table);
  absl::StrAppend(&text, table.Text(), "\n",
                  fmt::format("Best latency over the optimum: medians of {} seeds, {} in flight.\n",
                              comparison.seeds(), comparison.in_flight()));
  if (!comparison.prior_sources().empty()) {
    absl::StrAppend(&text, "Warm-started from ", absl::StrJoin(comparison.prior_sources(), ", "),
                    ".\n");
  }
  return text;
}

std::string ComparisonSvg(const v1::StrategyComparison& comparison) {
  const int count = comparison.recordings_size();
  if (count == 1) return ToSvg(ChartOf(comparison, comparison.recordings(0)));
  const int columns = std::min(count, kColumnsMax);
  const int rows = (count + columns - 1) / columns;
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" "
      "height=\"{1}\" style=\"max-width:100%;height:auto\">\n",
      columns * kChartWidth, rows * kChartHeight);
  for (int i = 0; i < count; ++i) {
    svg += Placed(ToSvg(ChartOf(comparison, comparison.recordings(i))), i % columns * kChartWidth,
                  i / columns * kChartHeight);
  }
  return svg + "</svg>\n";
}

}  // namespace tune::client
