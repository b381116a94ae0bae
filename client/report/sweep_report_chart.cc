// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_replace.h"
#include "client/report/format.h"
#include "client/report/roofline_view.h"
#include "client/report/svg_style.h"
#include "client/report/sweep_report_view.h"

namespace tune::client {
namespace {

constexpr Series kValues = 0;
constexpr Series kWinner = 2;
constexpr size_t kValuesShown = 28;  // columns that can be read

}  // namespace

SvgChart EffectsChart(const v1::SweepReport& report) {
  SvgChart chart{.title = "What each parameter is worth",
                 .subtitle =
                     "median of the configs with a value, line from quartile to quartile, "
                     "hollow: the fastest one",
                 .description =
                     "Conditional medians of the latency for each value of the "
                     "parameters, most important parameter first.",
                 .y = {.unit = "s", .scale = Scale::kLog},
                 .height = 440};
  ChartPoints medians{.name = "median", .series = kValues, .radius = 5};
  ChartPoints winner{.name = "median of the winner's value", .series = kWinner, .radius = 5};
  ChartPoints best{.name = "fastest", .series = kNeutral, .radius = 3};
  for (const v1::ParamEffect& param : report.params()) {
    if (chart.x.categories.size() + param.values_size() > kValuesShown) break;
    for (const v1::ParamValue& value : param.values()) {
      const double x = static_cast<double>(chart.x.categories.size());
      chart.x.categories.push_back(fmt::format("{}={}", param.param(), ToText(value.value())));
      const bool wins = ToText(value.value()) == ToText(param.winner_value());
      const std::string title =
          fmt::format("{}={}: median {}, {} configs", param.param(), ToText(value.value()),
                      LatencyText(value.latency_ns_median()), value.configs());
      (wins ? winner : medians)
          .points.push_back(
              {.x = x, .y = value.latency_ns_median() * kSecondsPerNs, .title = title});
      best.points.push_back({.x = x, .y = value.latency_ns_best() * kSecondsPerNs, .hollow = true});
      chart.lines.push_back({.series = wins ? kWinner : kValues,
                             .points = {{x, value.latency_ns_low() * kSecondsPerNs},
                                        {x, value.latency_ns_high() * kSecondsPerNs}}});
    }
  }
  for (ChartPoints* points : {&medians, &winner, &best}) {
    if (!points->points.empty()) chart.points.push_back(std::move(*points));
  }
  return chart;
}

SvgChart TimelineChart(const v1::SweepReport& report, TimelineBy by) {
  const bool trials = by == TimelineBy::kTrials;
  SvgChart chart{.title = trials ? "How the search went" : "How the search went, over time",
                 .subtitle = "best latency so far",
                 .x = {.label = trials ? "trials" : "", .unit = trials ? "" : "s", .whole = trials},
                 .y = {.unit = "s", .scale = Scale::kLog},
                 .height = 340};
  ChartLine line{.series = kValues, .step = true};
  ChartPoints found{.series = kValues, .radius = 3.5};
  for (const v1::TimelinePoint& point : report.timeline()) {
    const double x = trials ? static_cast<double>(point.trial_number()) : point.seconds();
    const double y = point.best_latency_ns() * kSecondsPerNs;
    if (line.points.empty() || y < line.points.back().y) {
      found.points.push_back(
          {.x = x,
           .y = y,
           .title = fmt::format("trial {}: {} after {} trials, {}", point.trial_id(),
                                LatencyText(point.best_latency_ns()), point.trial_number(),
                                DurationText(point.seconds()))});
    }
    line.points.push_back({x, y});
  }
  if (!line.points.empty()) {
    chart.description =
        fmt::format("From {} to {}.", LatencyText(line.points.front().y / kSecondsPerNs),
                    LatencyText(line.points.back().y / kSecondsPerNs));
  }
  chart.lines.push_back(std::move(line));
  chart.points.push_back(std::move(found));
  return chart;
}

SvgHeatmap PairHeatmap(const v1::SweepReport& report) {
  const v1::Heatmap& map = report.heatmap();
  SvgHeatmap heatmap{
      .title = fmt::format("{} against {}", map.row_param(), map.column_param()),
      .subtitle = fmt::format("fastest config of each pair; together they explain {} more of the "
                              "spread than one by one",
                              PercentText(map.interaction_share())),
      .description = "The best latency for each pair of values.",
      .column_label = map.column_param(),
      .row_label = map.row_param()};
  for (const v1::Value& value : map.rows()) heatmap.rows.push_back(ToText(value));
  for (const v1::Value& value : map.columns()) heatmap.columns.push_back(ToText(value));
  const int columns = map.columns_size();
  for (int row = 0; row < map.rows_size(); ++row) {
    heatmap.cells.emplace_back();
    for (int column = 0; column < columns; ++column) {
      const v1::HeatmapCell& cell = map.cells(row * columns + column);
      const std::string where = fmt::format("{}={} {}={}", map.row_param(), heatmap.rows[row],
                                            map.column_param(), heatmap.columns[column]);
      heatmap.cells.back().push_back(
          {.known = cell.configs() > 0,
           .value = cell.latency_ns_best(),
           .text = cell.configs() > 0 ? LatencyText(cell.latency_ns_best()) : "",
           .title = cell.configs() > 0
                        ? fmt::format("{}: best {}, median {}, {} configs", where,
                                      LatencyText(cell.latency_ns_best()),
                                      LatencyText(cell.latency_ns_median()), cell.configs())
                        : where + ": no config that was ok"});
    }
  }
  return heatmap;
}

std::string SvgText(const v1::SweepReport& report) {
  std::vector<std::string> pictures;
  if (!report.params().empty()) pictures.push_back(ToSvg(EffectsChart(report)));
  if (report.has_heatmap()) pictures.push_back(ToSvg(PairHeatmap(report)));
  pictures.push_back(ToSvg(TimelineChart(report, TimelineBy::kTrials)));
  double y = 0;
  std::string body;
  for (std::string& picture : pictures) {
    // Each picture is an <svg> of its own, moved down the page.
    const size_t at = picture.find(" height=\"") + 9;
    const double height = std::atof(picture.c_str() + at);
    body += absl::StrReplaceAll(picture, {{kPictureSize, fmt::format(" y=\"{:.0f}\"", y)}});
    y += height + 12;
  }
  const std::string title =
      fmt::format("Sweep {}: {}", report.sweep().id(), SubjectText(report.sweep()));
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 860 {0:.0f}\" "
      "width=\"860\" height=\"{0:.0f}\"{1} role=\"img\">\n<title>{2}</title>\n{3}"
      "</svg>\n",
      y, kPictureSize, EscapeXml(title), body);
}

}  // namespace tune::client
