// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "client/report/comparison_view.h"
#include "client/report/format.h"
#include "client/report/markdown.h"
#include "client/report/svg_chart.h"
#include "client/report/terminal.h"

namespace tune::client {
namespace {

using Row = std::vector<std::string>;

std::string RatioText(const v1::ComparedKernel& kernel) {
  if (kernel.ratio() <= 0) return "";
  if (kernel.ratio_high() <= kernel.ratio_low()) return fmt::format("{:.3f}", kernel.ratio());
  return fmt::format("{:.3f} [{:.3f}, {:.3f}]", kernel.ratio(), kernel.ratio_low(),
                     kernel.ratio_high());
}

std::string MeasuredInterval(const v1::Measurement& measurement) {
  return fmt::format("[{}, {}]", LatencyText(measurement.latency_ns_low()),
                     LatencyText(measurement.latency_ns_high()));
}

bool IsRight(const v1::ComparedKernel& kernel) {
  return kernel.outcome() == v1::OUTCOME_OK && kernel.agreement() == v1::OUTCOME_OK;
}

// The fault in a word; empty if there is none.
std::string VerdictText(const v1::ComparedKernel& kernel) {
  if (kernel.outcome() != v1::OUTCOME_OK) return ToText(kernel.outcome());
  if (kernel.agreement() == v1::OUTCOME_WRONG_RESULT) return "differs";
  return kernel.agreement() == v1::OUTCOME_OK ? "" : "not compared";
}

std::string SweptText(const v1::Comparison& comparison, const v1::ComparedProblem& problem) {
  for (const v1::DimValue& dim : problem.problem().dims()) {
    if (dim.name() == comparison.sweep_dim()) return absl::StrCat(dim.value());
  }
  return "";
}

Row TitlesOf(const v1::Comparison& comparison) {
  Row titles = {"kernel",  "median", "ratio", "95 % interval", RateOf(comparison).unit,
                "of roof", "config"};
  if (!comparison.sweep_dim().empty()) titles.insert(titles.begin(), comparison.sweep_dim());
  return titles;
}

std::vector<Row> RowsOf(const v1::Comparison& comparison) {
  const WorkRate rate = RateOf(comparison);
  std::vector<Row> rows;
  for (const v1::ComparedProblem& problem : comparison.problems()) {
    for (const v1::ComparedKernel& kernel : problem.kernels()) {
      Row& row = rows.emplace_back();
      if (!comparison.sweep_dim().empty()) row.push_back(SweptText(comparison, problem));
      const std::string verdict = VerdictText(kernel);
      row.push_back(verdict.empty() ? kernel.label() : absl::StrCat(kernel.label(), " !", verdict));
      if (kernel.rounds() == 0) {
        row.insert(row.end(), {"", "", "", "", "", ToText(kernel.config())});
        continue;
      }
      const v1::Measurement& measured = kernel.measurement();
      const double median = measured.latency_ns_median();
      row.insert(row.end(),
                 {LatencyText(median), RatioText(kernel), MeasuredInterval(measured),
                  SiText(rate.Of(problem, median), rate.unit),
                  measured.peak_fraction() > 0 ? PercentText(measured.peak_fraction()) : "",
                  ToText(kernel.config())});
    }
  }
  return rows;
}

// Why the kernels have these configs. Of several problems a line tells the sizes that are alike:
// "softmax: config: nearest on NVIDIA H200 at cols=256, 1024".
std::vector<std::string> ConfigNotes(const v1::Comparison& comparison) {
  std::vector<std::pair<std::string, std::vector<std::string>>> sizes_by_note;
  for (const v1::ComparedProblem& problem : comparison.problems()) {
    for (const v1::ComparedKernel& kernel : problem.kernels()) {
      absl::string_view source = kernel.config_source();
      if (comparison.problems_size() > 1) source = source.substr(0, source.find(": "));
      const std::string note = absl::StrCat(kernel.label(), ": config: ", source);
      auto known = std::find_if(sizes_by_note.begin(), sizes_by_note.end(),
                                [&](const auto& entry) { return entry.first == note; });
      if (known == sizes_by_note.end()) known = sizes_by_note.insert(known, {note, {}});
      known->second.push_back(SweptText(comparison, problem));
    }
  }
  std::vector<std::string> notes;
  for (const auto& [note, sizes] : sizes_by_note) {
    const bool everywhere = sizes.size() == static_cast<size_t>(comparison.problems_size());
    notes.push_back(everywhere ? note
                               : absl::StrCat(note, " at ", comparison.sweep_dim(), "=",
                                              absl::StrJoin(sizes, ", ")));
  }
  return notes;
}

// Notes that a reader needs beside the table, each once.
std::vector<std::string> NotesOf(const v1::Comparison& comparison) {
  std::vector<std::string> notes(comparison.warnings().begin(), comparison.warnings().end());
  const auto add = [&](const std::string& note) {
    if (std::find(notes.begin(), notes.end(), note) == notes.end()) notes.push_back(note);
  };
  for (const v1::ComparedProblem& problem : comparison.problems()) {
    for (const v1::ComparedKernel& kernel : problem.kernels()) {
      const std::string which = absl::StrCat(
          kernel.label(),
          comparison.sweep_dim().empty()
              ? ""
              : absl::StrCat(" at ", comparison.sweep_dim(), "=", SweptText(comparison, problem)));
      if (kernel.outcome() != v1::OUTCOME_OK) {
        add(absl::StrCat(which, ": ", ToText(kernel.outcome()), ": ", kernel.message()));
      } else if (kernel.agreement() != v1::OUTCOME_OK) {
        add(absl::StrCat(
            which, ": its results ",
            kernel.agreement() == v1::OUTCOME_WRONG_RESULT ? "differ " : "were not compared ",
            kernel.agreement_message()));
      }
    }
  }
  for (const std::string& note : ConfigNotes(comparison)) add(note);
  for (const v1::ComparedProblem& problem : comparison.problems()) {
    for (const v1::ComparedKernel& kernel : problem.kernels()) {
      for (const std::string& note : kernel.notes()) add(absl::StrCat(kernel.label(), ": ", note));
    }
  }
  return notes;
}

std::string CompilersText(const v1::Comparison& comparison) {
  std::vector<std::string> compilers;
  for (const v1::ComparedProblem& problem : comparison.problems()) {
    for (const v1::ComparedKernel& kernel : problem.kernels()) {
      const bool seen =
          std::find(compilers.begin(), compilers.end(), kernel.compiler()) != compilers.end();
      if (!seen && !kernel.compiler().empty()) compilers.push_back(kernel.compiler());
    }
  }
  return absl::StrJoin(compilers, ", ");
}

std::string MadeWith(const v1::Comparison& comparison) {
  return fmt::format("comparison {}, {} rounds by turns, {} cache, on {} ({}), driver {}, {}",
                     comparison.id(), comparison.rounds(),
                     comparison.cache_mode() == v1::CACHE_MODE_WARM ? "warm" : "cold",
                     comparison.device_name(), comparison.target(), comparison.driver(),
                     CompilersText(comparison));
}

// The note on a comparison that did not end well, with the reason.
std::string RunState(const v1::Comparison& comparison) {
  if (comparison.state() == v1::JOB_STATE_FAILED) return "failed: " + comparison.message();
  if (comparison.state() == v1::JOB_STATE_CANCELLED) return "cancelled: the measurements so far";
  return comparison.state() == v1::JOB_STATE_DONE ? "" : "not finished";
}

std::string RoofText(const v1::Comparison& comparison) {
  if (comparison.problems().empty() || !(comparison.problems(0).floor_ns() > 0)) return "";
  const v1::ComparedProblem& problem = comparison.problems(0);
  return fmt::format(
      "roof: {} of {}, {}",
      SiText(problem.ceiling(), problem.bound() == v1::BOUND_COMPUTE ? "FLOP/s" : "B/s"),
      ToText(problem.bound()), ToText(problem.ceiling_source()));
}

std::string Number(double value) { return value > 0 ? fmt::format("{:.6g}", value) : ""; }

}  // namespace

double WorkRate::Of(const v1::ComparedProblem& problem, double nanoseconds) const {
  if (!(nanoseconds > 0)) return 0;
  const double work = unit == "FLOP/s" ? problem.work_flops()
                      : unit == "B/s"  ? problem.work_bytes()
                                       : 1;
  return work / nanoseconds * 1e9;
}

WorkRate RateOf(const v1::Comparison& comparison) {
  int compute = 0;
  bool bytes = true;
  for (const v1::ComparedProblem& problem : comparison.problems()) {
    compute += problem.bound() == v1::BOUND_COMPUTE ? 1 : -1;
    bytes = bytes && problem.work_bytes() > 0;
  }
  if (compute > 0) return {"FLOP/s"};
  return {bytes ? "B/s" : "1/s"};
}

bool AllRight(const v1::Comparison& comparison) {
  return std::all_of(comparison.problems().begin(), comparison.problems().end(),
                     [](const v1::ComparedProblem& problem) {
                       return std::all_of(problem.kernels().begin(), problem.kernels().end(),
                                          IsRight);
                     });
}

std::string TerminalText(const v1::Comparison& comparison) {
  std::string text = absl::StrCat(Bold(comparison.subject()), "\n", MadeWith(comparison), "\n");
  if (const std::string state = RunState(comparison); !state.empty()) {
    absl::StrAppend(&text, state, "\n");
  }
  Table table(TitlesOf(comparison));
  for (Row& row : RowsOf(comparison)) table.Add(std::move(row));
  absl::StrAppend(&text, "\n", table.Text(), "\n");
  for (const std::string& verdict : comparison.verdicts()) {
    absl::StrAppend(&text, Bold(verdict), "\n");
  }
  absl::StrAppend(&text, "ratio: time over the first's, round by round; ", RoofText(comparison),
                  "\n");
  for (const std::string& note : NotesOf(comparison)) absl::StrAppend(&text, note, "\n");
  return text;
}

std::string CsvText(const v1::Comparison& comparison) {
  Row titles = {"comparison", "device", "target", "driver", "dtype"};
  if (!comparison.problems().empty()) {
    for (const v1::DimValue& dim : comparison.problems(0).problem().dims()) {
      titles.push_back(dim.name());
    }
  }
  const Row figures = {
      "kernel",     "language",         "compiler",         "config",    "outcome", "agreement",
      "rounds",     "median_ns",        "low_ns",           "high_ns",   "ratio",   "ratio_low",
      "ratio_high", "bytes_per_second", "flops_per_second", "roof_share"};
  titles.insert(titles.end(), figures.begin(), figures.end());
  std::string text = CsvLine(titles);
  for (const v1::ComparedProblem& problem : comparison.problems()) {
    for (const v1::ComparedKernel& kernel : problem.kernels()) {
      Row row = {absl::StrCat(comparison.id()), comparison.device_name(), comparison.target(),
                 comparison.driver(), problem.problem().dtype()};
      for (const v1::DimValue& dim : problem.problem().dims()) {
        row.push_back(absl::StrCat(dim.value()));
      }
      const v1::Measurement& measured = kernel.measurement();
      const Row cells = {kernel.label(),
                         kernel.language(),
                         kernel.compiler(),
                         ToText(kernel.config()),
                         ToText(kernel.outcome()),
                         ToText(kernel.agreement()),
                         absl::StrCat(kernel.rounds()),
                         Number(measured.latency_ns_median()),
                         Number(measured.latency_ns_low()),
                         Number(measured.latency_ns_high()),
                         Number(kernel.ratio()),
                         Number(kernel.ratio_low()),
                         Number(kernel.ratio_high()),
                         Number(measured.bytes_per_second()),
                         Number(measured.flops_per_second()),
                         Number(measured.peak_fraction())};
      row.insert(row.end(), cells.begin(), cells.end());
      absl::StrAppend(&text, CsvLine(row));
    }
  }
  return text;
}

std::string MarkdownText(const v1::Comparison& comparison, const std::string& image) {
  std::string text = absl::StrCat("## ", MarkdownCell(comparison.subject()), "\n\n");
  if (!image.empty()) absl::StrAppend(&text, "![Comparison](", image, ")\n\n");
  if (const std::string state = RunState(comparison); !state.empty()) {
    absl::StrAppend(&text, "State: ", MarkdownCell(state), "\n\n");
  }
  for (const std::string& verdict : comparison.verdicts()) {
    absl::StrAppend(&text, "**", MarkdownCell(verdict), "**\n\n");
  }
  absl::StrAppend(&text, MarkdownTable(TitlesOf(comparison), RowsOf(comparison)));
  absl::StrAppend(&text, "\nRatio: time over the first's, round by round, with its 95 % interval. ",
                  MarkdownCell(RoofText(comparison)), "\n\n", MarkdownCell(MadeWith(comparison)),
                  ".\n");
  for (const std::string& note : NotesOf(comparison)) {
    absl::StrAppend(&text, "\n> ", MarkdownCell(note), "\n");
  }
  return text;
}

}  // namespace tune::client
