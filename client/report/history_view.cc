// SPDX-License-Identifier: Apache-2.0
#include "client/report/history_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "client/report/format.h"
#include "client/report/svg_chart.h"
#include "client/report/terminal.h"

namespace tune::client {
namespace {

constexpr size_t kLabelShown = 12;
constexpr int kPanelHeight = 300;  // pixels
constexpr int kPointsToTell = 4;   // fewer have no level on both sides
constexpr int kNamedPoints = 8;    // more have no room for their names
// Colours of the page's series.
constexpr Series kSlower = 7;
constexpr Series kFaster = 6;
constexpr size_t kBarWidest = 24;  // characters

std::string Title(const v1::HistorySeries& series) {
  return absl::StrCat(series.kernel_name(), "  ", ToText(series.problem()), "  on ",
                      series.device_name());
}

std::string ChangeText(const v1::HistorySeries& series, const v1::HistoryChange& change) {
  const double percent = 100 * (change.after_ns() / change.before_ns() - 1);
  return fmt::format("{} {:+.1f} % at {} ({} -> {}, p {:.1g})", percent > 0 ? "slower" : "faster",
                     percent,
                     series.points(static_cast<int>(change.index())).label().substr(0, kLabelShown),
                     LatencyText(change.before_ns()), LatencyText(change.after_ns()), change.p());
}

struct Range {
  double low = 0;
  double high = 1;
};

Range RangeOf(const v1::HistorySeries& series) {
  Range range{series.points(0).latency_ns_low(), series.points(0).latency_ns_high()};
  for (const v1::HistoryPoint& point : series.points()) {
    range.low = std::min(range.low, point.latency_ns_low());
    range.high = std::max(range.high, point.latency_ns_high());
  }
  // A quiet series must not look like a wild one.
  const double margin = std::max(0.02 * range.high, 0.08 * (range.high - range.low));
  return {std::max(0.0, range.low - margin), range.high + margin};
}

// The description of a panel, for readers who cannot see it.
std::string Description(const v1::HistorySeries& series) {
  if (series.changes().empty()) return "no change found";
  std::string text;
  for (const v1::HistoryChange& change : series.changes()) {
    absl::StrAppend(&text, text.empty() ? "" : "; ", ChangeText(series, change));
  }
  return text;
}

std::string PointText(const v1::HistoryPoint& point) {
  return absl::StrCat(point.label().substr(0, kLabelShown), ", ",
                      TimeText(point.started_unix_ms()));
}

// A line at the mean of each level between changes.
ChartLine Level(const v1::HistorySeries& series, int begin, int end) {
  double sum = 0;
  for (int i = begin; i < end; ++i) sum += series.points(i).latency_ns();
  const double mean = 1e-9 * sum / std::max(1, end - begin);
  return {.series = kNeutral, .points = {{double(begin), mean}, {end - 1.0, mean}}, .dashed = true};
}

// A point a measurement; its slowest and fastest round as a band.
SvgChart Panel(const v1::HistorySeries& series) {
  const Range range = RangeOf(series);
  const int count = series.points_size();
  SvgChart chart{
      .title = Title(series), .description = Description(series), .height = kPanelHeight};
  chart.x.label = absl::StrCat("from ", PointText(series.points(0)), " to ",
                               PointText(series.points(count - 1)));
  chart.x.min = -0.5;
  chart.x.max = count - 0.5;
  if (count <= kNamedPoints) {
    for (const v1::HistoryPoint& point : series.points()) {
      chart.x.categories.push_back(point.label().substr(0, kLabelShown));
    }
  }
  chart.y = {.unit = "s", .min = 1e-9 * range.low, .max = 1e-9 * range.high};
  ChartBand& spread = chart.bands.emplace_back();
  ChartPoints& points = chart.points.emplace_back(ChartPoints{.radius = 3.5});
  for (int i = 0; i < count; ++i) {
    const v1::HistoryPoint& point = series.points(i);
    spread.points.push_back(
        {double(i), 1e-9 * point.latency_ns_low(), 1e-9 * point.latency_ns_high()});
    points.points.push_back(
        {.x = double(i),
         .y = 1e-9 * point.latency_ns(),
         .title = fmt::format("{}: {}, run {}, {} rounds", point.label(),
                              LatencyText(point.latency_ns()), point.run_id(), point.rounds())});
  }
  int begin = 0;
  for (const v1::HistoryChange& change : series.changes()) {
    const int index = static_cast<int>(change.index());
    chart.lines.push_back(Level(series, begin, index));
    begin = index;
    const bool slower = change.after_ns() > change.before_ns();
    chart.references.push_back({.kind = ChartReference::Kind::kVertical,
                                .value = index - 0.5,
                                .label = ChangeText(series, change),
                                .series = slower ? kSlower : kFaster});
  }
  chart.lines.push_back(Level(series, begin, count));
  return chart;
}

}  // namespace

std::string HistoryText(const v1::HistorySeries& series) {
  std::string text = absl::StrCat(Bold(Title(series)), "\n\n");
  const Range range = RangeOf(series);
  Table table({"revision", "time", "", "rounds", "run", "measured"});
  size_t change = 0;
  for (int i = 0; i < series.points_size(); ++i) {
    const v1::HistoryPoint& point = series.points(i);
    const double share = (point.latency_ns() - range.low) / (range.high - range.low);
    std::string bar(1 + static_cast<size_t>(share * (kBarWidest - 1)), '#');
    if (change < static_cast<size_t>(series.changes_size()) &&
        series.changes(static_cast<int>(change)).index() == static_cast<uint32_t>(i)) {
      bar += " <-- change";
      ++change;
    }
    table.Add({point.label().substr(0, kLabelShown), LatencyText(point.latency_ns()), bar,
               absl::StrCat(point.rounds()), absl::StrCat(point.run_id()),
               TimeText(point.started_unix_ms())});
  }
  absl::StrAppend(&text, table.Text());
  for (const v1::HistoryChange& found : series.changes()) {
    absl::StrAppend(&text, ChangeText(series, found), "\n");
  }
  if (series.changes().empty()) {
    absl::StrAppend(&text, "no change found",
                    series.points_size() < kPointsToTell
                        ? "; between runs it takes two or more measurements on either side\n"
                        : "\n");
  }
  return text;
}

std::string HistorySvg(const v1::GetHistoryResponse& history) {
  constexpr char kFits[] = " style=\"max-width:100%;height:auto\"";
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" "
      "height=\"{1}\"{2}>\n",
      SvgChart().width, std::max(1, history.series_size()) * kPanelHeight, kFits);
  for (int i = 0; i < history.series_size(); ++i) {
    // Inside another picture the height would be taken from that one.
    const std::string panel = absl::StrReplaceAll(ToSvg(Panel(history.series(i))), {{kFits, ""}});
    absl::StrAppend(&svg, fmt::format("<g transform=\"translate(0 {})\">\n", i * kPanelHeight),
                    panel, "</g>\n");
  }
  return absl::StrCat(svg, "</svg>\n");
}

}  // namespace tune::client
