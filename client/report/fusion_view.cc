// SPDX-License-Identifier: Apache-2.0
#include "client/report/fusion_view.h"

#include <fmt/format.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/report/format.h"
#include "client/report/markdown.h"
#include "client/report/terminal.h"

namespace tune::client {
namespace {

using Row = std::vector<std::string>;

struct Section {
  std::string title;
  Row titles;
  std::vector<Row> rows;
};

std::string Known(double value, std::string (*text)(double)) {
  return value > 0 ? text(value) : "";
}

// "36 x" of a step; once is not told.
std::string TimesText(double times) { return times == 1 ? "" : fmt::format("{:g} x ", times); }

std::string NamesOf(const v1::FusionFinding& finding) {
  std::vector<std::string> names;
  for (const v1::FusedWork& work : finding.sequence()) {
    names.push_back(TimesText(work.times()) + work.name());
  }
  return absl::StrJoin(names, ", ");
}

std::string RatioText(const v1::FusionFinding& finding) {
  if (finding.time_ratio() <= 0) return "";
  return fmt::format("{:.2f} [{:.2f}, {:.2f}]", finding.time_ratio(), finding.time_ratio_low(),
                     finding.time_ratio_high());
}

Section FusionsOf(const v1::FusionReport& report) {
  Section section = {"Fused kernels beside their sequences",
                     {"fusion", "fused", "sequence", "bytes", "sequence's", "more", "time",
                      "sequence's", "longer", "in a step"},
                     {}};
  for (const v1::FusionFinding& finding : report.fusions()) {
    const bool counted = finding.bytes_counted();
    const v1::FusedWork& fused = finding.fused();
    const v1::FusedSum& unfused = finding.unfused();
    section.rows.push_back(
        {finding.name(), fused.kernel(), NamesOf(finding),
         absl::StrCat(BytesText(counted ? fused.counted_bytes() : fused.bytes()),
                      counted ? "" : " *"),
         absl::StrCat(BytesText(counted ? unfused.counted_bytes() : unfused.bytes()),
                      counted ? "" : " *"),
         fmt::format("{:.2f}", finding.bytes_ratio()), Known(fused.latency_ns(), LatencyText),
         Known(unfused.latency_ns(), LatencyText), RatioText(finding),
         fmt::format("{:g} x", finding.times())});
  }
  return section;
}

Row StepRow(const char* name, const v1::StepFinding& step) {
  const auto share = [](double part, double whole) {
    return whole > 0 ? PercentText(part / whole) : "";
  };
  return {name,
          Known(step.floor_ns(), LatencyText),
          share(step.memory_floor_ns(), step.floor_ns()),
          step.measured_share() > 0 ? LatencyText(step.latency_ns()) : "",
          step.measured_share() > 0 ? share(step.memory_latency_ns(), step.latency_ns()) : "",
          PercentText(step.measured_share())};
}

Section StepsOf(const v1::FusionReport& report) {
  return {absl::StrCat("A training step of ", report.name()),
          {"step", "at the ceilings", "bandwidth-bound", "as measured", "bandwidth-bound",
           "measured share"},
          {StepRow("unfused", report.unfused_step()), StepRow("fused", report.fused_step())}};
}

Row WorkRow(const v1::FusedWork& work, double times) {
  return {work.name(),
          absl::StrCat(work.kernel(), " ", ToText(work.problem())),
          fmt::format("{:g}", times * work.times()),
          BytesText(work.bytes()),
          Known(work.floor_ns(), LatencyText),
          ToText(work.bound()),
          Known(work.latency_ns(), LatencyText),
          Known(work.peak_fraction(), PercentText),
          work.sweep_id() == 0 ? "" : absl::StrCat(work.sweep_id())};
}

Section KernelsOf(const v1::FusionReport& report) {
  Section section = {
      "Kernels of the step",
      {"part", "kernel", "times", "bytes", "floor", "bound", "median", "of roof", "sweep"},
      {}};
  for (const v1::FusedWork& part : report.parts()) section.rows.push_back(WorkRow(part, 1));
  for (const v1::FusionFinding& finding : report.fusions()) {
    Row row = WorkRow(finding.fused(), finding.times());
    row[0] = absl::StrCat(finding.name(), ": fused");
    section.rows.push_back(std::move(row));
    for (const v1::FusedWork& work : finding.sequence()) {
      row = WorkRow(work, finding.times());
      row[0] = absl::StrCat(finding.name(), ": ", work.name());
      section.rows.push_back(std::move(row));
    }
  }
  return section;
}

std::string SubjectOf(const v1::FusionReport& report) {
  return absl::StrCat("Fusions in a training step of ", report.name(), ", ", report.dtype());
}

std::string SizesText(const v1::FusionReport& report) {
  std::vector<std::string> sizes;
  for (const v1::DimValue& size : report.sizes()) {
    sizes.push_back(absl::StrCat(size.name(), "=", size.value()));
  }
  return absl::StrJoin(sizes, " ");
}

std::string MadeOn(const v1::FusionReport& report) {
  std::string text = absl::StrCat(report.device_name(), " (", report.target(), ")");
  if (!report.driver().empty()) absl::StrAppend(&text, ", driver ", report.driver());
  if (report.memory_ceiling().value() > 0) {
    absl::StrAppend(&text, ", memory's ceiling ", BandwidthText(report.memory_ceiling().value()),
                    " (", ToText(report.memory_ceiling().source()), ")");
  }
  return text;
}

// The share of a step that the fusions save; empty if no ceiling is known.
std::string SavingText(const v1::FusionReport& report) {
  const v1::StepFinding& unfused = report.unfused_step();
  const v1::StepFinding& fused = report.fused_step();
  if (unfused.floor_ns() <= 0) return "";
  const auto saved = [](double from, double to) {
    return absl::StrCat(LatencyText(from - to), " of ", LatencyText(from), ", ",
                        PercentText((from - to) / from));
  };
  std::string text = absl::StrCat(
      "At the ceilings the fusions save ", saved(unfused.floor_ns(), fused.floor_ns()),
      " of the step: its bandwidth-bound kernels have ",
      PercentText(unfused.memory_floor_ns() / unfused.floor_ns()), " of the time without them, ",
      PercentText(fused.memory_floor_ns() / fused.floor_ns()), " with them.");
  if (unfused.measured_share() > 0 && fused.measured_share() > 0 &&
      unfused.latency_ns() > fused.latency_ns()) {
    absl::StrAppend(&text, " With measured kernels as measured, and the others at their ceilings, ",
                    saved(unfused.latency_ns(), fused.latency_ns()), ".");
  }
  return text;
}

// The command that measures what is missing; empty if nothing is.
std::string MissingText(const v1::FusionReport& report) {
  int missing = 0;
  for (const v1::FusionFinding& finding : report.fusions()) {
    missing += finding.fused().sweep_id() == 0;
    for (const v1::FusedWork& work : finding.sequence()) missing += work.sweep_id() == 0;
  }
  if (missing == 0) return "";
  return absl::StrCat(missing, " kernels of fusions are not measured at these sizes: `tunectl ",
                      "report fusion --device ", report.device_id(),
                      " --sweep-first 30s`, with the same sizes, tunes them");
}

std::vector<std::string> NotesOf(const v1::FusionReport& report) {
  std::vector<std::string> notes;
  for (const v1::FusionFinding& finding : report.fusions()) {
    if (!finding.doc().empty()) notes.push_back(absl::StrCat(finding.name(), ": ", finding.doc()));
  }
  notes.insert(notes.end(), report.notes().begin(), report.notes().end());
  if (std::string missing = MissingText(report); !missing.empty()) notes.push_back(missing);
  return notes;
}

}  // namespace

std::string TerminalText(const v1::FusionReport& report) {
  std::string text = absl::StrCat(Bold(SubjectOf(report)), "\n", SizesText(report), "\n",
                                  report.source(), "\n", MadeOn(report), "\n");
  for (const Section& section : {FusionsOf(report), StepsOf(report), KernelsOf(report)}) {
    Table table(section.titles);
    for (const Row& row : section.rows) table.Add(row);
    absl::StrAppend(&text, "\n", Bold(section.title), "\n", table.Text());
  }
  absl::StrAppend(&text, "\n");
  if (const std::string saving = SavingText(report); !saving.empty()) {
    absl::StrAppend(&text, saving, "\n");
  }
  for (const std::string& note : NotesOf(report)) absl::StrAppend(&text, "- ", note, "\n");
  return text;
}

std::string MarkdownText(const v1::FusionReport& report, const std::string& image) {
  std::string text = absl::StrCat("## ", MarkdownCell(SubjectOf(report)), "\n\n");
  if (!image.empty()) absl::StrAppend(&text, "![Fusions](", image, ")\n\n");
  absl::StrAppend(&text, MarkdownCell(MadeOn(report)), "; ", MarkdownCell(SizesText(report)), ". ",
                  MarkdownCell(report.source()), ".\n\n", MarkdownCell(SavingText(report)), "\n");
  for (const Section& section : {FusionsOf(report), StepsOf(report), KernelsOf(report)}) {
    absl::StrAppend(&text, "\n### ", MarkdownCell(section.title), "\n\n",
                    MarkdownTable(section.titles, section.rows));
  }
  for (const std::string& note : NotesOf(report)) {
    absl::StrAppend(&text, "\n> ", MarkdownCell(note), "\n");
  }
  return text;
}

SvgChart FusionChart(const v1::FusionReport& report) {
  SvgChart chart{.title = SubjectOf(report),
                 .subtitle = MadeOn(report),
                 .description = SavingText(report),
                 .y = {.label = "the sequence over the fused kernel", .min = 0}};
  ChartPoints bytes{.name = "bytes", .series = 0, .shape = Shape::kSquare};
  ChartPoints time{.name = "time", .series = 1};
  for (int i = 0; i < report.fusions_size(); ++i) {
    const v1::FusionFinding& finding = report.fusions(i);
    const double x = i;
    chart.x.categories.push_back(finding.name());
    bytes.points.push_back(
        {.x = x,
         .y = finding.bytes_ratio(),
         .title = fmt::format("{}: {:.2f} times the bytes", finding.name(), finding.bytes_ratio()),
         .hollow = !finding.bytes_counted()});
    if (finding.time_ratio() <= 0) continue;
    time.points.push_back(
        {.x = x,
         .y = finding.time_ratio(),
         .title = fmt::format("{}: {:.2f} times as long", finding.name(), finding.time_ratio())});
    chart.lines.push_back(
        {.series = 1, .points = {{x, finding.time_ratio_low()}, {x, finding.time_ratio_high()}}});
  }
  chart.references.push_back({.value = 1, .label = "the fused kernel"});
  chart.points = {std::move(bytes), std::move(time)};
  return chart;
}

}  // namespace tune::client
