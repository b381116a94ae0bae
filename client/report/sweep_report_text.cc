// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/report/format.h"
#include "client/report/markdown.h"
#include "client/report/roofline_view.h"
#include "client/report/sweep_report_view.h"
#include "client/report/terminal.h"

namespace tune::client {
namespace {

using Rows = std::vector<std::vector<std::string>>;

const std::vector<std::string> kEffectTitles = {"param",  "explains",    "spread",
                                                "winner", "best median", "values"};

std::string ValuesText(const v1::ParamEffect& param) {
  std::vector<std::string> parts;
  for (const v1::ParamValue& value : param.values()) {
    parts.push_back(
        absl::StrCat(ToText(value.value()), ": ", LatencyText(value.latency_ns_median())));
    if (parts.size() == 8 && param.values_size() > 8) {
      parts.push_back("...");
      break;
    }
  }
  return absl::StrJoin(parts, ", ");
}

Rows EffectRows(const v1::SweepReport& report) {
  Rows rows;
  for (const v1::ParamEffect& param : report.params()) {
    rows.push_back({param.param(), PercentText(param.explained_share()),
                    fmt::format("{:.2f}x", param.spread()), ToText(param.winner_value()),
                    ToText(param.best_value()), ValuesText(param)});
  }
  return rows;
}

Rows HeatmapRows(const v1::Heatmap& map) {
  Rows rows;
  for (int row = 0; row < map.rows_size(); ++row) {
    rows.push_back({absl::StrCat(map.row_param(), "=", ToText(map.rows(row)))});
    for (int column = 0; column < map.columns_size(); ++column) {
      const v1::HeatmapCell& cell = map.cells(row * map.columns_size() + column);
      rows.back().push_back(cell.configs() > 0 ? LatencyText(cell.latency_ns_best()) : "");
    }
  }
  return rows;
}

std::vector<std::string> HeatmapTitles(const v1::Heatmap& map) {
  std::vector<std::string> titles = {absl::StrCat(map.column_param(), " ->")};
  for (const v1::Value& value : map.columns()) titles.push_back(ToText(value));
  return titles;
}

Rows TimelineRows(const v1::SweepReport& report) {
  Rows rows;
  double best_ns = 0;
  for (const v1::TimelinePoint& point : report.timeline()) {
    // The last one says where the search ended, and may be no improvement.
    if (point.best_latency_ns() == best_ns) continue;
    best_ns = point.best_latency_ns();
    rows.push_back({absl::StrCat(point.trial_number()), DurationText(point.seconds()),
                    LatencyText(point.best_latency_ns())});
  }
  return rows;
}

Rows OutcomeRows(const v1::SweepReport& report) {
  Rows rows;
  for (const v1::OutcomeSummary& outcome : report.outcomes()) {
    rows.push_back({ToText(outcome.outcome()), absl::StrCat(outcome.count()),
                    outcome.examples().empty() ? "" : ExampleText(outcome.examples(0))});
    for (int i = 1; i < outcome.examples_size(); ++i) {
      rows.push_back({"", "", ExampleText(outcome.examples(i))});
    }
  }
  return rows;
}

std::string TableText(const std::vector<std::string>& titles, Rows rows) {
  Table table(titles);
  for (std::vector<std::string>& row : rows) table.Add(std::move(row));
  return table.Text() + "\n";
}

// The note on a sweep that did not end well, with the reason.
std::string EndText(const v1::Sweep& sweep) {
  if (sweep.state() == v1::JOB_STATE_DONE && sweep.message().empty()) return "";
  return absl::StrCat(StateText(sweep), sweep.message().empty() ? "" : ": ", sweep.message());
}

std::string WinnerText(const v1::SweepReport& report) {
  if (!report.sweep().has_result()) {
    return report.sweep().progress().done() > 0 ? "none: no config was ok"
                                                : "none: no config was tried";
  }
  const v1::SweepResult& result = report.sweep().result();
  std::string text =
      absl::StrCat(LatencyText(result.best().measurement().latency_ns_median()), "  ",
                   ToText(result.best().config(), report.sweep().fixed_params()));
  std::vector<std::string> remarks;
  if (result.too_noisy()) remarks.push_back(TooNoisyText(result.best().measurement()));
  if (result.default_standing() == v1::DEFAULT_STANDING_SAME) {
    remarks.push_back("the default config");
  } else if (!result.default_verdict().empty()) {
    remarks.push_back(absl::StrCat(
        "default ", LatencyText(result.default_trial().measurement().latency_ns_median()), ": ",
        result.default_verdict()));
  }
  if (!remarks.empty()) absl::StrAppend(&text, "  (", absl::StrJoin(remarks, "; "), ")");
  return text;
}

// Not known of a sweep that ended before its first trial.
std::string MadeBy(const v1::SweepReport& report) {
  if (report.driver().empty()) return "";
  return absl::StrCat(", driver ", report.driver(), ", ", report.compiler());
}

}  // namespace

std::string ExampleText(const v1::OutcomeExample& example) {
  return absl::StrCat(example.count(), " like trial ", example.trial_id(), " (",
                      ToText(example.config()), "): ", TellingLine(example.message()));
}

std::string TerminalText(const v1::SweepReport& report) {
  const v1::Sweep& sweep = report.sweep();
  std::string text = fmt::format("{}  on {} ({}){}, sweep {}, {}\n\n", Bold(SubjectText(sweep)),
                                 sweep.device_name(), sweep.target(), MadeBy(report), sweep.id(),
                                 sweep.strategy());
  const std::string state = EndText(sweep);
  if (!state.empty()) absl::StrAppend(&text, "state     ", state, "\n");
  text += fmt::format("best      {}\nspace     {} configs, {} of them ok here\n\n",
                      WinnerText(report), sweep.progress().space_size(), report.configs_ok());
  if (!report.params().empty()) {
    text += fmt::format(
        "Parameters, by the share of the spread of log latency that each explains "
        "({} together):\n",
        PercentText(report.explained_share()));
    text += TableText(kEffectTitles, EffectRows(report));
  }
  if (report.has_heatmap()) {
    text += fmt::format("{} against {}, fastest of each pair (interaction {}):\n",
                        report.heatmap().row_param(), report.heatmap().column_param(),
                        PercentText(report.heatmap().interaction_share()));
    text += TableText(HeatmapTitles(report.heatmap()), HeatmapRows(report.heatmap()));
  }
  if (!report.timeline().empty()) {
    text += "Search, each improvement:\n";
    text += TableText({"trial", "after", "best so far"}, TimelineRows(report));
  }
  text += TableText({"outcome", "count", "example"}, OutcomeRows(report));
  for (const std::string& note : report.notes()) text += Dim("note: " + note) + "\n";
  return text;
}

std::string MarkdownText(const v1::SweepReport& report, const std::string& image) {
  const v1::Sweep& sweep = report.sweep();
  std::string text = fmt::format("## {}\n\n", MarkdownCell(SubjectText(sweep)));
  if (!image.empty()) absl::StrAppend(&text, "![Sweep](", image, ")\n\n");
  const std::string state = EndText(sweep);
  if (!state.empty()) text += fmt::format("State: {}\n\n", MarkdownCell(state));
  text += fmt::format("Best: {}\n\n", MarkdownCell(WinnerText(report)));
  if (!report.params().empty()) {
    text += MarkdownTable(kEffectTitles, EffectRows(report));
    text += fmt::format("\nShares of the spread of log latency; {} together.\n\n",
                        PercentText(report.explained_share()));
  }
  if (report.has_heatmap()) {
    text += MarkdownTable(HeatmapTitles(report.heatmap()), HeatmapRows(report.heatmap()));
    text += "\nFastest config of each pair.\n\n";
  }
  if (!report.outcomes().empty()) {
    text += MarkdownTable({"outcome", "count", "example"}, OutcomeRows(report));
  }
  text += fmt::format("\nSweep {} on {} ({}), {}, {} of {} configs ok{}.\n", sweep.id(),
                      MarkdownCell(sweep.device_name()), sweep.target(), sweep.strategy(),
                      report.configs_ok(), sweep.progress().space_size(),
                      MarkdownCell(MadeBy(report)));
  for (const std::string& note : report.notes()) text += "\n> " + note + "\n";
  return text;
}

}  // namespace tune::client
