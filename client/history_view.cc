// SPDX-License-Identifier: Apache-2.0
#include "client/history_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "client/format.h"
#include "client/terminal.h"

namespace tune::client {
namespace {

constexpr size_t kLabelShown = 12;
constexpr int kPanelWidth = 860;  // pixels
constexpr int kPanelHeight = 240;
constexpr int kLeft = 80;
constexpr int kRight = 20;
constexpr int kTop = 40;
constexpr int kBottom = 50;
constexpr size_t kBarWidest = 24;  // characters

std::string Title(const v1::HistorySeries& series) {
  return absl::StrCat(series.kernel_name(), "  ", ToText(series.problem()), "  on ",
                      series.device_name());
}

std::string ChangeText(const v1::HistorySeries& series, const v1::HistoryChange& change) {
  const double percent = 100 * (change.after_ns() / change.before_ns() - 1);
  return fmt::format("{} {:+.1f} % at {} ({} -> {}, p {:.1g})",
                     percent > 0 ? "slower" : "faster", percent,
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

std::string SvgText(const std::string& text) {
  return absl::StrReplaceAll(text, {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}});
}

// Maps points of a series to pixels of its panel.
class Panel {
 public:
  Panel(const v1::HistorySeries& series, int top)
      : series_(series), range_(RangeOf(series)), top_(top + kTop) {}

  std::string Svg() const {
    std::string svg = fmt::format("<text class=\"title\" x=\"{}\" y=\"{}\">{}</text>\n", kLeft,
                                  top_ - 18, SvgText(Title(series_)));
    AddAxis(svg);
    AddLevels(svg);
    AddPoints(svg);
    AddChanges(svg);
    return svg;
  }

 private:
  double X(double index) const {
    const int count = std::max(1, series_.points_size() - 1);
    return kLeft + 10 + (kPanelWidth - kLeft - kRight - 20) * index / count;
  }
  double Y(double ns) const {
    const int height = kPanelHeight - kTop - kBottom;
    return top_ + height * (range_.high - ns) / (range_.high - range_.low);
  }

  void AddAxis(std::string& svg) const {
    for (int i = 0; i <= 4; ++i) {
      const double ns = range_.low + (range_.high - range_.low) * i / 4;
      absl::StrAppend(&svg, fmt::format("<line class=\"grid\" x1=\"{}\" x2=\"{}\" y1=\"{:.1f}\" "
                                        "y2=\"{:.1f}\"/><text class=\"tick\" x=\"{}\" "
                                        "y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n",
                                        kLeft, kPanelWidth - kRight, Y(ns), Y(ns), kLeft - 6,
                                        Y(ns) + 4, LatencyText(ns)));
    }
    const int last = series_.points_size() - 1;
    for (const int index : std::set<int>{0, last}) {
      absl::StrAppend(
          &svg, fmt::format("<text class=\"tick\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{} "
                            "{}</text>\n",
                            X(index), Y(range_.low) + 18, index == 0 ? "start" : "end",
                            SvgText(series_.points(index).label().substr(0, kLabelShown)),
                            TimeText(series_.points(index).started_unix_ms())));
    }
  }

  // A line at the mean of each level.
  void AddLevels(std::string& svg) const {
    int begin = 0;
    for (int i = 0; i <= series_.changes_size(); ++i) {
      const int end = i < series_.changes_size() ? static_cast<int>(series_.changes(i).index())
                                                 : series_.points_size();
      double sum = 0;
      for (int j = begin; j < end; ++j) sum += series_.points(j).latency_ns();
      const double y = Y(sum / std::max(1, end - begin));
      absl::StrAppend(&svg, fmt::format("<line class=\"level\" x1=\"{:.1f}\" x2=\"{:.1f}\" "
                                        "y1=\"{:.1f}\" y2=\"{:.1f}\"/>\n",
                                        X(begin), X(end - 1), y, y));
      begin = end;
    }
  }

  void AddPoints(std::string& svg) const {
    for (int i = 0; i < series_.points_size(); ++i) {
      const v1::HistoryPoint& point = series_.points(i);
      absl::StrAppend(
          &svg,
          fmt::format("<line class=\"spread\" x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1:.1f}\" "
                      "y2=\"{2:.1f}\"/><circle class=\"point\" cx=\"{0:.1f}\" cy=\"{3:.1f}\" "
                      "r=\"3.5\"><title>{4}: {5}, run {6}, {7} rounds</title></circle>\n",
                      X(i), Y(point.latency_ns_low()), Y(point.latency_ns_high()),
                      Y(point.latency_ns()), SvgText(point.label()),
                      LatencyText(point.latency_ns()), point.run_id(), point.rounds()));
    }
  }

  void AddChanges(std::string& svg) const {
    for (const v1::HistoryChange& change : series_.changes()) {
      const double x = X(change.index() - 0.5);
      const char* kind = change.after_ns() > change.before_ns() ? "slower" : "faster";
      absl::StrAppend(
          &svg, fmt::format("<line class=\"change {0}\" x1=\"{1:.1f}\" x2=\"{1:.1f}\" y1=\"{2}\" "
                            "y2=\"{3:.1f}\"/><text class=\"mark {0}\" x=\"{4:.1f}\" y=\"{5}\">"
                            "{6:+.1f} %<title>{7}</title></text>\n",
                            kind, x, top_ - 4, Y(range_.low), x + 4, top_ + 8,
                            100 * (change.after_ns() / change.before_ns() - 1),
                            SvgText(ChangeText(series_, change))));
    }
  }

  const v1::HistorySeries& series_;
  const Range range_;
  const int top_;
};

constexpr char kStyle[] =
    "<style>\n"
    "svg{background:#fff;font:12px system-ui,sans-serif}\n"
    ".title{font-size:14px;font-weight:600;fill:#1a1a1a}.tick{fill:#666}.grid{stroke:#e4e4e4}\n"
    ".level{stroke:#888;stroke-dasharray:5 4}.spread{stroke:#9db8d9;stroke-width:2}\n"
    ".point{fill:#2563a8}.change{stroke-width:1.5}.slower{stroke:#b42318}\n"
    ".faster{stroke:#1a7f37}.mark{stroke:none}.mark.slower{fill:#b42318}\n"
    ".mark.faster{fill:#1a7f37}\n"
    "@media(prefers-color-scheme:dark){svg{background:#161616}.title{fill:#eee}.tick{fill:#aaa}\n"
    ".grid{stroke:#333}.spread{stroke:#3b5878}.point{fill:#6aa9ee}.slower{stroke:#ff7b6b}\n"
    ".mark.slower{fill:#ff7b6b}.faster{stroke:#5fd07a}.mark.faster{fill:#5fd07a}}\n"
    "</style>\n";

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
  if (series.changes().empty()) absl::StrAppend(&text, "no change found\n");
  return text;
}

std::string HistorySvg(const v1::GetHistoryResponse& history) {
  const int height = std::max(1, history.series_size()) * kPanelHeight;
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" "
      "height=\"{1}\" role=\"img\">\n{2}",
      kPanelWidth, height, kStyle);
  for (int i = 0; i < history.series_size(); ++i) {
    absl::StrAppend(&svg, Panel(history.series(i), i * kPanelHeight).Svg());
  }
  return absl::StrCat(svg, "</svg>\n");
}

}  // namespace tune::client
