// SPDX-License-Identifier: Apache-2.0
#include "client/report/gate_report.h"

#include <fmt/format.h>

#include <cmath>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "base/printable.h"
#include "client/report/format.h"
#include "client/report/markdown.h"
#include "client/report/terminal.h"

namespace tune::client {
namespace {

constexpr size_t kCommitShown = 12;
constexpr double kDependent = 0.5;  // lag-1 autocorrelation beyond which rounds are not independent
constexpr uint32_t kRoundsForDependence = 15;

bool HasRatio(const v1::GateKernel& kernel) { return kernel.rounds() > 0; }

std::string SignedPercent(double ratio) { return fmt::format("{:+.2f} %", 100 * (ratio - 1)); }

std::string IntervalText(const v1::GateKernel& kernel) {
  if (!std::isfinite(kernel.ratio_high())) return "-";
  return fmt::format("{:+.2f} to {:+.2f} %", 100 * (kernel.ratio_low() - 1),
                     100 * (kernel.ratio_high() - 1));
}

std::string CatchesText(const v1::GateKernel& kernel) {
  return kernel.least_caught() > 0 ? fmt::format("{:.1f} %", 100 * kernel.least_caught()) : "-";
}

// A commit is shown by its first digits.
std::string LabelText(const std::string& label) {
  const bool commit =
      label.size() == 40 && label.find_first_not_of("0123456789abcdef") == std::string::npos;
  return commit ? label.substr(0, kCommitShown) : label;
}

std::string TimesText(const v1::GateKernel& kernel) {
  if (kernel.base_ns() <= 0 || kernel.head_ns() <= 0) return "-";
  return absl::StrCat(LatencyText(kernel.base_ns()), " -> ", LatencyText(kernel.head_ns()));
}

std::string RecoveryText(const v1::GateKernel& kernel) {
  const v1::GateRecovery& recovery = kernel.recovery();
  if (recovery.recovers()) {
    return fmt::format(
        "another config won: with the head's own best ({}) it is {} against the "
        "base's best; tune and publish again",
        ToText(recovery.config()), SignedPercent(recovery.ratio()));
  }
  return fmt::format("the head's own best config ({}) does not recover it: {}",
                     ToText(recovery.config()), SignedPercent(recovery.ratio()));
}

// Why this config: "record 12 of the base", "default".
std::string ConfigSourceText(const v1::GateKernel& kernel) {
  std::string text = absl::StrCat("record ", kernel.config_record_id());
  if (kernel.config_source() == v1::GATE_CONFIG_SOURCE_DEFAULT) {
    text = "default";
  } else if (kernel.config_source() == v1::GATE_CONFIG_SOURCE_OTHER_RECORD) {
    absl::StrAppend(&text, " of another source of the kernel");
  } else if (!kernel.base_kernel_hash().empty()) {
    absl::StrAppend(&text, " of the base");
  }
  if (!kernel.head_default()) return text;
  return absl::StrCat(text, "; the head cannot run it, so its default config stands in");
}

// Notes on a kernel beside its row.
std::vector<std::string> NotesOf(const v1::GateKernel& kernel) {
  std::vector<std::string> notes;
  if (!kernel.reason().empty()) notes.push_back(TellingLine(kernel.reason()));
  if (kernel.verdict() == v1::GATE_VERDICT_FAIL) {
    notes.push_back(fmt::format("{} rounds, p {:.2g} (needed {:.2g}), config {} ({})",
                                kernel.rounds(), kernel.p(), kernel.p_needed(),
                                ToText(kernel.head_config()), ConfigSourceText(kernel)));
    if (kernel.has_recovery()) {
      notes.push_back(RecoveryText(kernel));
    } else {
      notes.push_back("the same config is slower; no config tuned for the head is known");
    }
  }
  if (kernel.improved()) notes.push_back("faster, confirmed");
  if (kernel.bimodal()) {
    notes.push_back(
        "BIMODAL: times fall in two groups; fix what places it in memory or launches "
        "it, or accept the slowdown that is caught");
  }
  if (std::abs(kernel.clock_log_ratio()) > 0.01) {
    notes.push_back(fmt::format("the head ran at {:.1f} % of the base's clock",
                                100 * std::exp(kernel.clock_log_ratio())));
  }
  if (kernel.autocorrelation() > kDependent && kernel.rounds() >= kRoundsForDependence) {
    notes.push_back("rounds depend on each other here: the promise does not hold");
  }
  if (kernel.invalid_rounds() > 0 && kernel.verdict() != v1::GATE_VERDICT_INVALID) {
    notes.push_back(absl::StrCat(kernel.invalid_rounds(), " rounds were left out"));
  }
  return notes;
}

uint32_t Count(const v1::GateRun& run, const char* verdict) {
  auto it = run.verdicts().find(verdict);
  return it == run.verdicts().end() ? 0 : it->second;
}

std::string CountsText(const v1::GateRun& run) {
  std::vector<std::string> counts;
  for (const char* verdict :
       {"FAIL", "INVALID", "INCONCLUSIVE", "UNGUARDED", "PASS", "IDENTICAL"}) {
    if (Count(run, verdict) > 0) counts.push_back(absl::StrCat(Count(run, verdict), " ", verdict));
  }
  return counts.empty() ? "no verdicts" : absl::StrJoin(counts, ", ");
}

std::string ComparedText(const v1::GateRun& run) {
  if (run.kind() == v1::GATE_KIND_HISTORY) return LabelText(run.head_label());
  return absl::StrCat(LabelText(run.base_label()), " -> ", LabelText(run.head_label()));
}

double SecondsOf(const v1::GateRun& run) {
  return std::max<int64_t>(0, run.finished_unix_ms() - run.started_unix_ms()) / 1e3;
}

std::string XmlText(const std::string& text) {
  return absl::StrReplaceAll(
      Printable(text),
      {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}, {"\n", "&#10;"}});
}

enum class CaseKind { kPassed, kFailure, kError, kSkipped };

CaseKind KindOf(const v1::GateKernel& kernel, Strict strict) {
  switch (kernel.verdict()) {
    case v1::GATE_VERDICT_FAIL:
      return CaseKind::kFailure;
    case v1::GATE_VERDICT_INVALID:
      return CaseKind::kError;
    case v1::GATE_VERDICT_INCONCLUSIVE:
    case v1::GATE_VERDICT_UNGUARDED:
      return strict == Strict::kYes ? CaseKind::kFailure : CaseKind::kSkipped;
    default:
      return CaseKind::kPassed;
  }
}

std::string CaseText(const v1::GateRun& run, const v1::GateKernel& kernel, Strict strict) {
  const std::string what =
      absl::StrCat(ToText(kernel.verdict()),
                   HasRatio(kernel) ? absl::StrCat(" ", SignedPercent(kernel.ratio())) : "",
                   HasRatio(kernel) ? absl::StrCat(" (", IntervalText(kernel), ")") : "");
  const std::string details =
      XmlText(absl::StrCat(what, "\n", absl::StrJoin(NotesOf(kernel), "\n")));
  std::string inner;
  switch (KindOf(kernel, strict)) {
    case CaseKind::kFailure:
      inner = fmt::format("<failure message=\"{}\">{}</failure>", XmlText(what), details);
      break;
    case CaseKind::kError:
      inner = fmt::format("<error message=\"{}\">{}</error>", XmlText(what), details);
      break;
    case CaseKind::kSkipped:
      inner = fmt::format("<skipped message=\"{}\"/>", details);
      break;
    case CaseKind::kPassed:
      inner = fmt::format("<system-out>{}</system-out>", details);
      break;
  }
  return fmt::format("  <testcase classname=\"gate.{}\" name=\"{}\">{}</testcase>\n",
                     XmlText(run.device_name()),
                     XmlText(absl::StrCat(kernel.name(), " ", ToText(kernel.problem()))), inner);
}

}  // namespace

std::string ToText(v1::GateVerdict verdict) {
  if (verdict == v1::GATE_VERDICT_UNSPECIFIED) return "-";
  return std::string(absl::StripPrefix(v1::GateVerdict_Name(verdict), "GATE_VERDICT_"));
}

std::string ProgressText(const v1::GateProgress& progress) {
  std::string text = absl::StrCat("gate  ", progress.message());
  if (progress.rounds_planned() > 0) {
    absl::StrAppend(&text, "  ", progress.rounds_done(), "/", progress.rounds_planned(), " rounds");
  }
  if (progress.remaining_seconds() > 0) {
    absl::StrAppend(&text, "  ", DurationText(progress.remaining_seconds()), " left");
  }
  if (!progress.kernel().empty()) absl::StrAppend(&text, "  ", progress.kernel());
  return text;
}

std::string ReportText(const v1::GateRun& run) {
  std::string text = fmt::format("{}  {}  on {} ({})\n\n", Bold(absl::StrCat("gate ", run.id())),
                                 ComparedText(run), run.device_name(), run.target());
  Table table({"kernel", "verdict", "change", "95 % interval", "sd", "catches", "time", "problem"});
  for (const v1::GateKernel& kernel : run.kernels()) {
    const bool measured = HasRatio(kernel);
    table.Add({kernel.name(), ToText(kernel.verdict()),
               measured ? SignedPercent(kernel.ratio()) : "-",
               measured ? IntervalText(kernel) : "-",
               measured ? fmt::format("{:.2f} %", 100 * kernel.deviation()) : "-",
               CatchesText(kernel), TimesText(kernel), ToText(kernel.problem())});
  }
  text += table.Text();
  for (const v1::GateKernel& kernel : run.kernels()) {
    for (const std::string& note : NotesOf(kernel)) {
      absl::StrAppend(&text, "\n", Bold(kernel.name()), ": ", note);
    }
  }
  absl::StrAppend(&text, "\n", CountsText(run), " in ", DurationText(SecondsOf(run)), "\n");
  if (!run.message().empty()) absl::StrAppend(&text, run.message(), "\n");
  return text;
}

std::string TimedText(const v1::GateKernel& kernel) {
  const std::string what = absl::StrCat(kernel.name(), "  ", ToText(kernel.problem()), "  ");
  if (!kernel.reason().empty()) return absl::StrCat(what, TellingLine(kernel.reason()));
  if (kernel.head_ns() <= 0) return absl::StrCat(what, "not measured");
  return absl::StrCat(what, LatencyText(kernel.head_ns()), "  ", ToText(kernel.head_config()), " (",
                      ConfigSourceText(kernel), ")");
}

std::string MarkdownText(const v1::GateRun& run) {
  const bool failed = Count(run, "FAIL") > 0;
  std::string text =
      fmt::format("### {}: {}\n\n`{}` on {}, gate run {}, {}\n\n",
                  failed ? "Slower kernels" : "Kernel performance", CountsText(run),
                  ComparedText(run), run.device_name(), run.id(), DurationText(SecondsOf(run)));
  absl::StrAppend(&text,
                  "| kernel | problem | verdict | change | 95 % interval | sd | catches | time |\n"
                  "|---|---|---|---|---|---|---|---|\n");
  for (const v1::GateKernel& kernel : run.kernels()) {
    const bool measured = HasRatio(kernel);
    const std::string verdict = ToText(kernel.verdict());
    absl::StrAppend(
        &text, "| ", MarkdownCell(kernel.name()), " | ", MarkdownCell(ToText(kernel.problem())),
        " | ", kernel.verdict() == v1::GATE_VERDICT_FAIL ? "**FAIL**" : verdict, " | ",
        measured ? SignedPercent(kernel.ratio()) : "", " | ", measured ? IntervalText(kernel) : "",
        " | ", measured ? fmt::format("{:.2f} %", 100 * kernel.deviation()) : "", " | ",
        CatchesText(kernel), " | ", TimesText(kernel), " |\n");
  }
  bool first = true;
  for (const v1::GateKernel& kernel : run.kernels()) {
    for (const std::string& note : NotesOf(kernel)) {
      absl::StrAppend(&text, first ? "\n" : "", "- **", MarkdownCell(kernel.name()),
                      "**: ", MarkdownCell(note), "\n");
      first = false;
    }
  }
  absl::StrAppend(
      &text, fmt::format("\n\"catches\" is the slowdown that would have failed in 95 % of such "
                         "runs. Tolerated: {:.1f} %. A run in which nothing changed fails at "
                         "most {:.1f} % of the time.\n",
                         100 * run.rules().delta0(), 100 * run.rules().alpha()));
  return Printable(text);
}

std::string JUnitText(const v1::GateRun& run, Strict strict) {
  std::string cases;
  int failures = 0;
  int errors = 0;
  int skipped = 0;
  for (const v1::GateKernel& kernel : run.kernels()) {
    const CaseKind kind = KindOf(kernel, strict);
    failures += kind == CaseKind::kFailure ? 1 : 0;
    errors += kind == CaseKind::kError ? 1 : 0;
    skipped += kind == CaseKind::kSkipped ? 1 : 0;
    cases += CaseText(run, kernel, strict);
  }
  return fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
      "<testsuite name=\"tunectl gate {}\" tests=\"{}\" failures=\"{}\" errors=\"{}\" "
      "skipped=\"{}\" time=\"{:.3f}\">\n{}</testsuite>\n",
      XmlText(ComparedText(run)), run.kernels_size(), failures, errors, skipped, SecondsOf(run),
      cases);
}

ExitCode ExitCodeOf(const v1::GateRun& run, Strict strict) {
  if (run.state() == v1::JOB_STATE_CANCELLED) return kInterrupted;
  if (run.state() != v1::JOB_STATE_DONE) return kFailed;
  if (Count(run, "FAIL") > 0) return kGateFailed;
  if (Count(run, "INVALID") > 0) return kGateUnsure;
  const bool unsure = Count(run, "INCONCLUSIVE") > 0 || Count(run, "UNGUARDED") > 0;
  return strict == Strict::kYes && unsure ? kGateUnsure : kDone;
}

}  // namespace tune::client
