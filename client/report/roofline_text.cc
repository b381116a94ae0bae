// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "client/report/format.h"
#include "client/report/markdown.h"
#include "client/report/roofline_view.h"
#include "client/report/terminal.h"

namespace tune::client {
namespace {

constexpr size_t kRanked = 5;  // configs listed

std::string RateText(const v1::ResourceUse& use) {
  if (use.resource() == v1::ROOFLINE_RESOURCE_LAUNCH) return "-";
  const bool flops = use.resource() == v1::ROOFLINE_RESOURCE_COMPUTE;
  return flops ? FlopRateText(use.roof()) : BandwidthText(use.roof());
}

std::string AmountText(const v1::ResourceUse& use) {
  if (use.resource() == v1::ROOFLINE_RESOURCE_LAUNCH) return "-";
  if (use.resource() == v1::ROOFLINE_RESOURCE_COMPUTE) return SiText(use.amount(), "FLOP");
  return BytesText(use.amount());
}

std::string LatencyLine(const v1::Sweep& sweep, const v1::Trial& trial) {
  const v1::Measurement& m = trial.measurement();
  return fmt::format("{} ({}, {} samples, {} clock)", LatencyText(m.latency_ns_median()),
                     LatencyIntervalText(m, RoundsOf(sweep, trial)), m.sample_count(),
                     ToText(m.clock()));
}

// The fastest distinct configs; a winner counts by its confirmed time.
std::vector<const v1::RooflinePoint*> Fastest(const v1::Roofline& roofline) {
  std::map<std::string, const v1::RooflinePoint*> newest;
  for (const v1::RooflinePoint& point : roofline.points()) {
    if (point.trial().outcome() == v1::OUTCOME_OK) newest[ToText(point.trial().config())] = &point;
  }
  std::vector<const v1::RooflinePoint*> ranked;
  for (const auto& [config, point] : newest) ranked.push_back(point);
  std::stable_sort(ranked.begin(), ranked.end(), [](const auto* a, const auto* b) {
    return a->trial().measurement().latency_ns_median() <
           b->trial().measurement().latency_ns_median();
  });
  ranked.resize(std::min(ranked.size(), kRanked));
  return ranked;
}

std::string VerdictCounts(const v1::Roofline& roofline) {
  std::map<v1::RooflineVerdict, int> counts;
  int failed = 0;
  for (const v1::RooflinePoint& point : roofline.points()) {
    if (point.trial().outcome() == v1::OUTCOME_OK ||
        point.trial().outcome() == v1::OUTCOME_ABOVE_ROOF) {
      ++counts[point.verdict()];
    } else {
      ++failed;
    }
  }
  std::vector<std::string> parts;
  for (const auto& [verdict, count] : counts) {
    parts.push_back(absl::StrCat(count, " ", ToText(verdict)));
  }
  if (failed > 0) parts.push_back(absl::StrCat(failed, " not ok"));
  return absl::StrJoin(parts, ", ");
}

std::vector<std::vector<std::string>> UseRows(const v1::RooflinePoint& point) {
  std::vector<std::vector<std::string>> rows;
  for (const v1::ResourceUse& use : point.uses()) {
    rows.push_back({ToText(use.resource()), use.ceiling(), RateText(use), AmountText(use),
                    use.counted() ? "counted" : "declared", LatencyText(use.floor_ns()),
                    PercentText(use.utilisation())});
  }
  return rows;
}

const std::vector<std::string> kUseTitles = {"resource", "ceiling", "limit",      "work",
                                             "by",       "floor",   "of the time"};

std::string TitledLine(const char* title, const std::string& text) {
  return fmt::format("{:<10}{}\n", title, text);
}

std::string Section(const v1::Roofline& roofline) {
  const v1::Sweep& sweep = roofline.sweep();
  std::string text = fmt::format("{}  on {} ({}), driver {}, {}, sweep {}\n\n",
                                 Bold(SubjectText(sweep)), sweep.device_name(), sweep.target(),
                                 roofline.driver(), roofline.compiler(), sweep.id());
  const v1::RooflinePoint* best = FindPoint(roofline, roofline.best_trial_id());
  if (best == nullptr) return text + "no config was ok\n";
  text += TitledLine("best", ToText(best->trial().config(), sweep.fixed_params()));
  text += TitledLine("latency", LatencyLine(sweep, best->trial()));
  text += TitledLine("diagnosis", best->diagnosis());
  for (const std::string& note : best->notes()) text += TitledLine("", note);
  if (const auto* plain = FindPoint(roofline, roofline.default_trial_id());
      plain != nullptr && plain != best) {
    text += TitledLine(
        "default",
        fmt::format("{}: {}", LatencyText(plain->trial().measurement().latency_ns_median()),
                    plain->diagnosis()));
  }
  text += TitledLine("trials", VerdictCounts(roofline)) + "\n";
  Table uses(kUseTitles);
  for (std::vector<std::string>& row : UseRows(*best)) uses.Add(std::move(row));
  text += uses.Text() + "\n";
  Table fastest({"trial", "median", "of roof", "binds", "verdict", "config"});
  for (const v1::RooflinePoint* point : Fastest(roofline)) {
    fastest.Add({absl::StrCat(point->trial().id()),
                 LatencyText(point->trial().measurement().latency_ns_median()),
                 PercentText(point->efficiency()), ToText(point->binding()),
                 ToText(point->verdict()), ToText(point->trial().config(), sweep.fixed_params())});
  }
  text += fastest.Text();
  for (const std::string& note : roofline.notes()) text += Dim("note: " + note) + "\n";
  return text;
}

}  // namespace

std::string ToText(v1::RooflineResource resource) {
  if (resource == v1::ROOFLINE_RESOURCE_UNSPECIFIED) return "";
  return EnumText(*v1::RooflineResource_descriptor(), resource);
}

std::string ToText(v1::RooflineVerdict verdict) {
  if (verdict == v1::ROOFLINE_VERDICT_UNSPECIFIED) return "unknown";
  if (verdict == v1::ROOFLINE_VERDICT_INVALID_ROOF) return "above the roof";
  std::string text = EnumText(*v1::RooflineVerdict_descriptor(), verdict);
  const char* join = verdict == v1::ROOFLINE_VERDICT_WELL_USED ? " " : "-";
  return absl::StrReplaceAll(text, {{"_", join}});
}

const v1::RooflinePoint* FindPoint(const v1::Roofline& roofline, int64_t trial_id) {
  if (trial_id == 0) return nullptr;
  for (const v1::RooflinePoint& point : roofline.points()) {
    if (point.trial().id() == trial_id) return &point;
  }
  return nullptr;
}

std::optional<uint32_t> RoundsOf(const v1::Sweep& sweep, const v1::Trial& trial) {
  if (trial.purpose() != v1::TRIAL_PURPOSE_CONFIRM) return 0;
  const uint32_t rounds = sweep.result().confirm_rounds();
  if (rounds == 0 || trial.sweep_id() != sweep.id()) return std::nullopt;
  return rounds;
}

std::string SubjectText(const v1::Sweep& sweep) {
  return absl::StrCat(sweep.kernel_name(), " ", ToText(sweep.problem()));
}

std::string TerminalText(const v1::RooflineReport& report) {
  std::vector<std::string> sections;
  for (const v1::Roofline& roofline : report.rooflines()) sections.push_back(Section(roofline));
  return absl::StrJoin(sections, "\n");
}

std::string MarkdownUses(const v1::RooflinePoint& point) {
  return MarkdownTable(kUseTitles, UseRows(point));
}

std::string MarkdownSection(const v1::Roofline& roofline) {
  const v1::Sweep& sweep = roofline.sweep();
  std::string text = fmt::format("\n### {}\n\n", MarkdownCell(SubjectText(sweep)));
  const v1::RooflinePoint* best = FindPoint(roofline, roofline.best_trial_id());
  if (best == nullptr) return text + "No config was ok.\n";
  text += fmt::format("**{}.** {}\n\n", MarkdownCell(best->diagnosis()),
                      MarkdownCell(absl::StrJoin(best->notes(), "; ")));
  std::vector<std::vector<std::string>> rows;
  for (const v1::RooflinePoint* point : Fastest(roofline)) {
    const v1::Measurement& m = point->trial().measurement();
    rows.push_back(
        {LatencyText(m.latency_ns_median()),
         fmt::format("{} to {}", LatencyText(m.latency_ns_low()), LatencyText(m.latency_ns_high())),
         PercentText(point->efficiency()), ToText(point->binding()),
         fmt::format("`{}`", ToText(point->trial().config(), sweep.fixed_params()))});
  }
  text += MarkdownTable({"median", "interval", "of roof", "binds", "config"}, rows);
  absl::StrAppend(&text, "\n", MarkdownUses(*best), "\n");
  text +=
      fmt::format("{} trials: {}. Sweep {} on {} ({}), driver {}, {}.\n", roofline.points_size(),
                  VerdictCounts(roofline), sweep.id(), MarkdownCell(sweep.device_name()),
                  sweep.target(), roofline.driver(), MarkdownCell(roofline.compiler()));
  for (const std::string& note : roofline.notes()) text += "\n> " + note + "\n";
  return text;
}

std::string MarkdownOverview(const v1::RooflineReport& report, const std::string& image) {
  std::string text;
  if (!image.empty()) absl::StrAppend(&text, "\n![Rooflines](", image, ")\n");
  if (report.rooflines_size() > 1) {
    std::vector<std::vector<std::string>> rows;
    for (const v1::Roofline& roofline : report.rooflines()) {
      const v1::RooflinePoint* best = FindPoint(roofline, roofline.best_trial_id());
      if (best == nullptr) continue;
      rows.push_back({SubjectText(roofline.sweep()),
                      LatencyText(best->trial().measurement().latency_ns_median()),
                      PercentText(best->efficiency()), ToText(best->binding()),
                      ToText(best->verdict())});
    }
    absl::StrAppend(&text, "\n",
                    MarkdownTable({"problem", "best", "of roof", "binds", "verdict"}, rows));
  }
  return text;
}

std::string MarkdownText(const v1::RooflineReport& report, const std::string& image) {
  std::string text = absl::StrCat("## Rooflines\n", MarkdownOverview(report, image));
  for (const v1::Roofline& roofline : report.rooflines()) text += MarkdownSection(roofline);
  return text;
}

}  // namespace tune::client
