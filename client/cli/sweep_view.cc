// SPDX-License-Identifier: Apache-2.0
#include "client/cli/sweep_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/plural.h"
#include "base/status_macros.h"
#include "client/cli/call.h"
#include "client/report/format.h"
#include "client/report/sweep_report_view.h"
#include "tune/v1/report.grpc.pb.h"
#include "tune/v1/sweep.grpc.pb.h"

namespace tune::client {
namespace {

constexpr double kAboveItsPeak = 1.05;  // beyond the errors of both
constexpr auto kReportTimeout = std::chrono::seconds(20);

std::string FailureText(const v1::SweepProgress& progress) {
  std::vector<std::string> failures;
  for (const auto& [outcome, count] : progress.outcomes()) {
    if (outcome != "ok" && count > 0) failures.push_back(absl::StrCat(count, " ", outcome));
  }
  return absl::StrJoin(failures, ", ");
}

std::string SpeedText(const v1::Sweep& sweep) {
  const v1::Measurement& measurement = sweep.result().best().measurement();
  std::vector<std::string> parts;
  if (measurement.bytes_per_second() > 0)
    parts.push_back(BandwidthText(measurement.bytes_per_second()));
  if (measurement.flops_per_second() > 0)
    parts.push_back(FlopRateText(measurement.flops_per_second()));
  if (measurement.peak_fraction() > 0 && sweep.result().ceiling() > 0) {
    const bool memory = sweep.result().bound() == v1::BOUND_MEMORY;
    parts.push_back(fmt::format(
        "{} of the {} {} peak ({}){}", PercentText(measurement.peak_fraction()),
        ToText(sweep.result().ceiling_source()), ToText(sweep.result().bound()),
        memory ? BandwidthText(sweep.result().ceiling()) : FlopRateText(sweep.result().ceiling()),
        measurement.peak_fraction() > kAboveItsPeak
            ? ", which was measured on a busy host: 'tunectl device ceilings' measures it again"
            : ""));
  }
  return absl::StrJoin(parts, "   ");
}

std::string LatencyLine(const v1::SweepResult& result) {
  const v1::Measurement& measurement = result.best().measurement();
  const uint32_t rounds = result.confirm_rounds();
  std::string samples = Counted(measurement.sample_count(), "sample");
  if (rounds > 0) {
    absl::StrAppend(&samples, " in ", Counted(rounds, "fresh process", "fresh processes"));
  }
  return fmt::format("{}  ({}, {}, {} clock, {} cache)",
                     LatencyText(measurement.latency_ns_median()),
                     LatencyIntervalText(measurement, rounds), samples, ToText(measurement.clock()),
                     measurement.cache_mode() == v1::CACHE_MODE_WARM ? "warm" : "cold");
}

std::string DimFlags(const v1::Sweep& sweep) {
  std::string flags;
  for (const v1::DimValue& dim : sweep.problem().dims()) {
    absl::StrAppend(&flags, " --", dim.name(), " ", dim.value());
  }
  absl::StrAppend(&flags, " --dtype ", sweep.problem().dtype());
  // Without it the answer is of the host's first device, which may be another.
  if (!sweep.device_id().empty()) absl::StrAppend(&flags, " --device ", sweep.device_id());
  return flags;
}

std::string NextCommand(const v1::Sweep& sweep) {
  const bool stopped = sweep.state() == v1::JOB_STATE_CANCELLED;
  if (stopped) return "the same command again continues where this stopped";
  if (!sweep.has_result()) {
    const bool tried = sweep.progress().done() > 0;
    return tried ? absl::StrCat("tunectl trial list --sweep ", sweep.id()) : "";
  }
  return absl::StrCat("tunectl best ", sweep.kernel_name(), DimFlags(sweep));
}

void AddWarmStart(std::string& text, const v1::Sweep& sweep, bool verbose) {
  if (!sweep.has_warm_start()) return;
  const v1::WarmStart& start = sweep.warm_start();
  AddLine(text, "started",
          absl::StrCat("from ", Counted(start.observations(), "observation"), " of ",
                       Counted(start.sources_size(), "earlier source"),
                       verbose ? ":" : " (-v lists them)"));
  if (!verbose) return;
  for (const std::string& source : start.sources()) AddLine(text, "", source);
}

// How the best stands to the default config.
std::string DefaultLine(const v1::Sweep& sweep) {
  const v1::SweepResult& result = sweep.result();
  const v1::Trial& trial = result.default_trial();
  if (result.default_standing() == v1::DEFAULT_STANDING_SAME) return result.default_verdict();
  return fmt::format("{}  {}; {}", LatencyText(trial.measurement().latency_ns_median()),
                     ToText(trial.config(), sweep.fixed_params()), result.default_verdict());
}

// The params that the other lines leave out; empty if there are none.
std::string FixedText(const v1::Config& config, const v1::Sweep& sweep) {
  v1::Config fixed;
  for (const v1::ConfigEntry& entry : config.entries()) {
    const auto& names = sweep.fixed_params();
    const bool is_fixed = std::find(names.begin(), names.end(), entry.param()) != names.end();
    if (is_fixed) *fixed.add_entries() = entry;
  }
  if (fixed.entries().empty() || fixed.entries_size() == config.entries_size()) return "";
  return absl::StrCat("with ", ToText(fixed), ", which have no other value here");
}

void AddResult(std::string& text, const v1::Sweep& sweep, bool verbose) {
  const v1::SweepResult& result = sweep.result();
  AddLine(text, "best", Bold(ToText(result.best().config(), sweep.fixed_params())));
  AddLine(text, "", FixedText(result.best().config(), sweep));
  AddLine(text, "latency", LatencyLine(result));
  if (result.too_noisy()) AddLine(text, "noise", TooNoisyText(result.best().measurement()));
  AddLine(text, "speed", SpeedText(sweep));
  if (result.has_default_trial()) AddLine(text, "default", DefaultLine(sweep));
  const int shown = verbose ? result.ties_size() : std::min(result.ties_size(), 3);
  for (int i = 0; i < shown; ++i) {
    AddLine(text, i == 0 ? "ties" : "",
            fmt::format("{}  {}", LatencyText(result.ties(i).measurement().latency_ns_median()),
                        ToText(result.ties(i).config(), sweep.fixed_params())));
  }
  if (result.ties_size() > shown) {
    AddLine(text, "", absl::StrCat("and ", result.ties_size() - shown, " more"));
  }
  if (result.ties_size() > 0) {
    AddLine(text, "",
            "cannot be told from the best by time; among such the one with fewer registers is the "
            "best, then less shared memory, then the first by name");
  }
}

// Adds the failures: the most frequent messages of each outcome, or only the most frequent one.
void AddFailures(std::string& text, const v1::SweepReport& failures, bool all) {
  std::string title = "failed";
  for (const v1::OutcomeSummary& outcome : failures.outcomes()) {
    if (outcome.outcome() == v1::OUTCOME_OK) continue;
    AddLine(text, std::exchange(title, ""),
            absl::StrCat(outcome.count(), " ", ToText(outcome.outcome())));
    for (const v1::OutcomeExample& example : outcome.examples()) {
      AddLine(text, "", ExampleText(example));
      if (!all) break;
    }
  }
}

// Every config computes the same, and it is not what the reference computes.
bool AllDifferAlike(const v1::OutcomeExample& example, uint64_t done) {
  return done > 1 && example.count() == done && !absl::StartsWith(example.message(), "'") &&
         absl::StrContains(example.message(), ", the reference ") &&
         !absl::StrContains(example.message(), "order in which threads run");
}

// Why a sweep has no result, in a line; empty: it has one, or nobody knows.
std::string WhyText(const v1::Sweep& sweep, const v1::SweepReport& failures) {
  if (sweep.has_result()) return "";
  if (sweep.state() == v1::JOB_STATE_FAILED) return TellingLine(sweep.message());
  const v1::OutcomeSummary* most = nullptr;
  for (const v1::OutcomeSummary& outcome : failures.outcomes()) {
    if (outcome.outcome() == v1::OUTCOME_OK || outcome.examples().empty()) continue;
    if (most == nullptr || outcome.count() > most->count()) most = &outcome;
  }
  if (most == nullptr) return "";
  const v1::OutcomeExample& example = most->examples(0);
  const uint64_t done = sweep.progress().done();
  const bool alike = most->outcome() == v1::OUTCOME_WRONG_RESULT && AllDifferAlike(example, done);
  const std::string doubt =
      alike ? absl::StrCat("all ", done,
                           " configs differ from the reference in the same way, so "
                           "it may be the reference that is wrong: ")
            : "";
  return absl::StrCat(ToText(most->outcome()), ": ", doubt, TellingLine(example.message()));
}

std::string StateLine(const v1::Sweep& sweep) {
  if (sweep.state() == v1::JOB_STATE_DONE && sweep.message().empty()) return "";
  return absl::StrCat(StateText(sweep), sweep.message().empty() ? "" : ": ", sweep.message());
}

}  // namespace

v1::SweepReport WhyNotOk(Connection& connection, const v1::Sweep& sweep) {
  if (FailureText(sweep.progress()).empty()) return {};
  v1::GetSweepReportRequest request;
  request.set_sweep_id(sweep.id());
  // Without the report the outcomes are still printed.
  return Call(&connection, &v1::ReportService::Stub::GetSweepReport, request, kReportTimeout)
      .value_or(v1::SweepReport());
}

std::string ProgressText(const v1::Sweep& sweep) {
  const v1::SweepProgress& progress = sweep.progress();
  if (sweep.state() == v1::JOB_STATE_QUEUED) {
    return absl::StrCat(sweep.kernel_name(), "  sweep ", sweep.id(), " is queued",
                        sweep.message().empty() ? "" : ": ", sweep.message());
  }
  if (sweep.state() == v1::JOB_STATE_WAITING) {
    return absl::StrCat(sweep.kernel_name(), "  sweep ", sweep.id(), " is ", sweep.message());
  }
  std::string text =
      fmt::format("{}  {}/{}", sweep.kernel_name(), progress.done(), progress.planned());
  if (progress.reused() > 0) absl::StrAppend(&text, " (", progress.reused(), " reused)");
  if (progress.trials_per_second() > 0) {
    absl::StrAppend(&text, fmt::format("  {:.1f}/s", progress.trials_per_second()));
  }
  if (progress.remaining_seconds() > 0) {
    absl::StrAppend(&text, "  ", DurationText(progress.remaining_seconds()), " left");
  }
  if (progress.best_latency_ns() > 0) {
    absl::StrAppend(&text, "  best so far ", LatencyText(progress.best_latency_ns()));
  }
  const std::string failures = FailureText(progress);
  if (!failures.empty()) absl::StrAppend(&text, "  failed: ", failures);
  if (!sweep.message().empty()) absl::StrAppend(&text, "  ", sweep.message());
  return text;
}

std::string PlanText(const v1::Sweep& sweep) {
  if (sweep.confirm_seconds_max() <= 0) return "";
  return absl::StrCat("searching for at most ", DurationText(sweep.budget().seconds()),
                      "; measuring the best again then adds at most ",
                      DurationText(sweep.confirm_seconds_max()));
}

std::string ReportText(const v1::Sweep& sweep, const v1::SweepReport& failures, bool verbose) {
  const v1::SweepProgress& progress = sweep.progress();
  const std::string why = WhyText(sweep, failures);
  std::string text = why.empty() ? "" : absl::StrCat(Bold(why), "\n\n");
  absl::StrAppend(&text, fmt::format("{}  {}  on {} ({})\n\n", Bold(sweep.kernel_name()),
                                     ToText(sweep.problem()), sweep.device_name(), sweep.target()));
  if (sweep.has_result()) {
    AddResult(text, sweep, verbose);
  } else {
    AddLine(text, "best",
            progress.done() > 0 ? "none: no config was ok" : "none: no config was tried");
  }
  AddFailures(text, failures, /*all=*/verbose || !sweep.has_result());
  AddLine(text, "outcomes", CountsText(progress.outcomes()));
  // If no config was tried, the time went elsewhere, and the end message says where.
  std::string tried =
      progress.done() == 0
          ? fmt::format("none of {} configs", progress.space_size())
          : fmt::format("{} of {} configs in {}", progress.done(), progress.space_size(),
                        DurationText(progress.elapsed_seconds()));
  if (progress.reused() > 0) {
    absl::StrAppend(&tried, ", ", progress.reused(), " of them measured earlier");
  }
  if (progress.worker_restarts() > 0) {
    absl::StrAppend(&tried, ", ", Counted(progress.worker_restarts(), "worker restart"));
  }
  if (!sweep.end_message().empty()) absl::StrAppend(&tried, "; ", sweep.end_message());
  AddLine(text, "tried", tried);
  AddWarmStart(text, sweep, verbose);
  AddLine(text, "state", StateLine(sweep));
  AddLine(text, "next", NextCommand(sweep));
  return text;
}

absl::StatusOr<WatchedSweep> FollowSweep(Connection& connection, int64_t job_id,
                                         OnInterrupt on_interrupt, bool quiet) {
  ProgressMeter progress(quiet);
  WatchedSweep watched;
  const auto show = [&](const v1::JobEvent& event) {
    ForEachResult<v1::Sweep>(event, [&](const v1::Sweep& sweep) { watched.sweep = sweep; });
    progress.Show(ProgressText(watched.sweep));
  };
  const auto followed = FollowJob(connection, job_id, on_interrupt, show);
  progress.Clear();
  RETURN_IF_ERROR(followed.status());
  watched.interrupted = followed->interrupted;
  return watched;
}

ExitCode ExitCodeOf(const v1::Sweep& sweep) {
  if (sweep.state() == v1::JOB_STATE_FAILED) return kFailed;
  return sweep.has_result() ? kDone : kNoValidConfig;
}

absl::Status PrintWatched(Session& session, Connection& connection, const WatchedSweep& watched,
                          bool verbose) {
  session.Finish(watched.interrupted ? kInterrupted : ExitCodeOf(watched.sweep));
  return Print(session, watched.sweep, [&](const v1::Sweep& sweep) {
    std::fputs(ReportText(sweep, WhyNotOk(connection, sweep), verbose).c_str(), stdout);
  });
}

absl::Status RunSweep(Connection& connection, const v1::SubmitSweepRequest& request, bool quiet) {
  ASSIGN_OR_RETURN(const v1::Sweep sweep,
                   Call(&connection, &v1::SweepService::Stub::SubmitSweep, request));
  ASSIGN_OR_RETURN(const WatchedSweep watched,
                   FollowSweep(connection, sweep.job_id(), OnInterrupt::kCancelJob, quiet));
  return watched.interrupted ? absl::CancelledError("interrupted") : absl::OkStatus();
}

}  // namespace tune::client
