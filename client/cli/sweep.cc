// SPDX-License-Identifier: Apache-2.0
// tunectl sweep KERNEL, sweep list|watch|cancel, sweep --replay
#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <memory>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "client/cli/call.h"
#include "client/cli/command.h"
#include "client/cli/job_follow.h"
#include "client/cli/recording_files.h"
#include "client/cli/sweep_view.h"
#include "client/cli/work_id.h"
#include "client/report/format.h"
#include "client/report/terminal.h"
#include "tune/v1/job.grpc.pb.h"
#include "tune/v1/replay.grpc.pb.h"
#include "tune/v1/sweep.grpc.pb.h"

namespace tune::client {
namespace {

struct SweepFlags {
  ProblemFlags problem;
  std::string devices;
  std::string strategy;
  std::string budget;
  uint32_t stop_no_improvement = 0;
  double stop_chance = 0;
  std::vector<std::string> prior;  // recordings
  bool no_warm_start = false;
  std::string replay;  // a recording
  uint32_t in_flight = 1;
  bool fresh = false;
  bool background = false;
  bool detach = false;
  bool verbose = false;
};

v1::StopRules StopRulesOf(const SweepFlags& flags) {
  v1::StopRules stop;
  stop.set_trials_without_improvement(flags.stop_no_improvement);
  stop.set_improvement_chance_min(flags.stop_chance);
  return stop;
}

absl::Status CheckFlags(const Session& session, const SweepFlags& flags) {
  const std::pair<bool, const char*> useless[] = {{!flags.problem.kernel.All().empty(), "a kernel"},
                                                  {!session.dims.empty(), "dims"},
                                                  {!flags.problem.dtype.empty(), "--dtype"},
                                                  {!flags.problem.device.empty(), "--device"},
                                                  {!flags.devices.empty(), "--devices"},
                                                  {flags.problem.warm, "--warm"},
                                                  {flags.fresh, "--fresh"},
                                                  {flags.detach, "--detach"}};
  for (const auto& [given, name] : useless) {
    if (!given) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("--replay answers from a recording of one kernel, problem and device: leave "
                     "out ",
                     name));
  }
  return absl::OkStatus();
}

absl::StatusOr<v1::ReplayRequest> MakeReplayRequest(const SweepFlags& flags) {
  v1::ReplayRequest request;
  ASSIGN_OR_RETURN(*request.mutable_recording(), ReadRecordingFiles(flags.replay));
  for (const std::string& path : flags.prior) {
    ASSIGN_OR_RETURN(*request.add_prior(), ReadRecordingFiles(path));
  }
  ASSIGN_OR_RETURN(*request.mutable_budget(), ParseBudget(flags.budget));
  *request.mutable_stop() = StopRulesOf(flags);
  request.set_strategy(flags.strategy);
  request.set_seed(flags.problem.seed);
  request.set_in_flight(flags.in_flight);
  return request;
}

std::string ReplayText(const v1::ReplayResponse& replay) {
  const v1::RecordingInfo& recording = replay.recording();
  std::string text = fmt::format("{}  {}  on {}\n\n", Bold(recording.name()), recording.problem(),
                                 recording.device());
  if (replay.has_best()) {
    AddLine(text, "best", Bold(ToText(replay.best().config())));
    AddLine(text, "latency", LatencyText(replay.best().measurement().latency_ns_median()));
    AddLine(text, "optimum",
            fmt::format("{}; the best is {:.3f} times that",
                        LatencyText(recording.best_latency_ns()), replay.optimum_ratio()));
  } else {
    AddLine(text, "best", "none: no config was ok");
  }
  AddLine(text, "outcomes", CountsText(replay.outcomes()));
  AddLine(text, "tried",
          fmt::format("{} of {} configs with {}, seed {}, {} in flight; {}", replay.evaluations(),
                      recording.configs(), replay.strategy(), replay.seed(), replay.in_flight(),
                      replay.end_message()));
  if (replay.recorded_seconds() > 0) {
    AddLine(text, "recorded", absl::StrCat("they took ", DurationText(replay.recorded_seconds())));
  }
  AddLine(text, "overhead", fmt::format("{:.1f} us a trial", replay.overhead_us_median()));
  AddLine(text, "prior", absl::StrJoin(replay.prior_sources(), ", "));
  AddLine(text, "note", "replayed, not measured: no record was stored");
  return text;
}

// tunectl sweep --replay FILE
absl::Status ReplaySweep(Session& session, const SweepFlags& flags) {
  RETURN_IF_ERROR(CheckFlags(session, flags));
  ASSIGN_OR_RETURN(const v1::ReplayRequest request, MakeReplayRequest(flags));
  ASSIGN_OR_RETURN(const v1::ReplayResponse response,
                   Call(session.Replay(), &v1::ReplayService::Stub::Replay, request, kNoTimeout));
  session.Finish(response.has_best() ? kDone : kNoValidConfig);
  return Print(session, response, [](const v1::ReplayResponse& replay) {
    std::fputs(ReplayText(replay).c_str(), stdout);
  });
}

absl::StatusOr<v1::Prior> ReadPrior(Session& session, const std::vector<std::string>& paths) {
  v1::ReadPriorRequest request;
  for (const std::string& path : paths) {
    ASSIGN_OR_RETURN(*request.add_recordings(), ReadRecordingFiles(path));
  }
  return Call(session.Replay(), &v1::ReplayService::Stub::ReadPrior, request, kNoTimeout);
}

absl::StatusOr<v1::SubmitSweepRequest> MakeRequest(const SweepFlags& flags,
                                                   const std::string& kernel, Session& session) {
  v1::SubmitSweepRequest request;
  RETURN_IF_ERROR(SetKernel(kernel, request).status());
  RETURN_IF_ERROR(SetMeasured(session, flags.problem, request));
  if (!flags.devices.empty()) request.set_device(flags.devices);
  ASSIGN_OR_RETURN(*request.mutable_budget(), ParseBudget(flags.budget));
  if (flags.background) request.set_priority(v1::JOB_PRIORITY_BACKGROUND);
  request.set_strategy(flags.strategy);
  request.set_fresh(flags.fresh);
  *request.mutable_stop() = StopRulesOf(flags);
  request.set_no_warm_start(flags.no_warm_start);
  if (!flags.prior.empty()) {
    ASSIGN_OR_RETURN(*request.mutable_prior(), ReadPrior(session, flags.prior));
  }
  return request;
}

absl::Status Sweep(Session& session, const SweepFlags& flags) {
  if (!flags.replay.empty()) return ReplaySweep(session, flags);
  ASSIGN_OR_RETURN(const std::string kernel, OneKernel(flags.problem.kernel));
  ASSIGN_OR_RETURN(Connection* const connection, session.Connect());
  if (flags.detach) RETURN_IF_ERROR(CheckDetach(*connection));
  ASSIGN_OR_RETURN(const v1::SubmitSweepRequest request, MakeRequest(flags, kernel, session));
  ASSIGN_OR_RETURN(const v1::Sweep sweep,
                   Call(connection, &v1::SweepService::Stub::SubmitSweep, request));
  for (const std::string& warning : sweep.warnings()) {
    std::fprintf(stderr, "warning: %s\n", warning.c_str());
  }
  if (const std::string plan = PlanText(sweep); !plan.empty() && !session.json) {
    std::fprintf(stderr, "%s\n", plan.c_str());
  }
  if (flags.detach) {
    ASSIGN_OR_RETURN(const v1::Job job, GetJob(*connection, sweep.job_id()));
    connection->ShowPage(job.web_url());
    return Print(session, sweep, [](const v1::Sweep& queued) {
      std::printf("sweep %ld is queued; follow it with: tunectl sweep watch %ld\n",
                  static_cast<long>(queued.id()), static_cast<long>(queued.id()));
    });
  }
  ASSIGN_OR_RETURN(const WatchedSweep watched,
                   FollowSweep(*connection, sweep.job_id(), OnInterrupt::kCancelJob, session.json));
  return PrintWatched(session, *connection, watched, flags.verbose);
}

absl::Status ListSweeps(Session& session, uint32_t limit) {
  v1::ListJobsRequest request;
  request.set_kind(v1::JOB_KIND_SWEEP);
  request.set_with_results(true);
  ASSIGN_OR_RETURN(const v1::ListJobsResponse response,
                   CallPages(session.Connect(Need::kRead), &v1::JobService::Stub::ListJobs, request,
                             limit, &v1::ListJobsResponse::mutable_jobs));
  std::vector<v1::Sweep> sweeps;
  for (const v1::Job& job : response.jobs()) {
    if (v1::Sweep sweep = SweepIn(job); sweep.id() != 0) sweeps.push_back(std::move(sweep));
  }
  const auto row = [](const v1::Sweep& sweep) -> Cells {
    const bool none = sweep.state() == v1::JOB_STATE_DONE && !sweep.has_result();
    const double best = sweep.has_result() ? sweep.result().best().measurement().latency_ns_median()
                                           : sweep.progress().best_latency_ns();
    return {absl::StrCat(sweep.id()),
            StateText(sweep),
            sweep.kernel_name(),
            ToText(sweep.problem()),
            sweep.device_id(),
            absl::StrCat(sweep.progress().done(), "/", sweep.progress().planned()),
            best > 0 ? LatencyText(best)
            : none   ? "none"
                     : "-",
            TimeText(sweep.created_unix_ms())};
  };
  return PrintList(session, "sweeps", sweeps,
                   {"id", "state", "kernel", "problem", "device", "done", "best", "started"}, row,
                   "no sweeps yet; try: tunectl sweep softmax\n");
}

absl::Status Watch(Session& session, const std::string& text, bool verbose) {
  ASSIGN_OR_RETURN(Connection* const connection, session.Connect(Need::kRead));
  ASSIGN_OR_RETURN(const v1::Sweep sweep, FindSweep(*connection, text));
  ASSIGN_OR_RETURN(
      const WatchedSweep watched,
      FollowSweep(*connection, sweep.job_id(), OnInterrupt::kLeaveRunning, session.json));
  if (!watched.interrupted) return PrintWatched(session, *connection, watched, verbose);
  std::fprintf(stderr, "sweep %ld keeps running; stop it with: tunectl sweep cancel %ld\n",
               static_cast<long>(sweep.id()), static_cast<long>(sweep.id()));
  session.Finish(kInterrupted);
  return absl::OkStatus();
}

absl::Status Cancel(Session& session, const std::string& text) {
  ASSIGN_OR_RETURN(Connection* const connection, session.Connect());
  ASSIGN_OR_RETURN(v1::Sweep sweep, FindSweep(*connection, text));
  RETURN_IF_ERROR(CancelJob(*connection, sweep.job_id()).status());
  ASSIGN_OR_RETURN(sweep, FindSweep(*connection, absl::StrCat(sweep.id())));
  std::fputs(ReportText(sweep).c_str(), stdout);
  return absl::OkStatus();
}

std::vector<Command> SweepVerbs(Session& session) {
  struct Flags {
    uint32_t limit = 20;
    std::string id;
    bool verbose = false;
  };
  auto flags = std::make_shared<Flags>();
  return {{.name = "list",
           .help = "List sweeps, newest first",
           .json = kJsonHelp,
           .flags = {Flag("--limit", &flags->limit, kLimitHelp).Range(1, kListMax)},
           .run = [&session, flags] { return ListSweeps(session, flags->limit); }},
          {.name = "watch",
           .help = "Follow a sweep to its end; Ctrl-C leaves it running",
           .json = "Print the finished sweep as JSON",
           .flags = {Flag("ID", &flags->id, kSweepIdHelp).Required(),
                     Flag("-v,--verbose", &flags->verbose, kVerboseSweepHelp)},
           .run = [&session, flags] { return Watch(session, flags->id, flags->verbose); }},
          {.name = "cancel",
           .help = "Stop a sweep; its finished trials are kept",
           .flags = {Flag("ID", &flags->id, kSweepIdHelp).Required()},
           .run = [&session, flags] { return Cancel(session, flags->id); }}};
}

}  // namespace

absl::StatusOr<v1::Budget> ParseBudget(const std::string& text) {
  v1::Budget budget;
  if (text.empty()) return budget;
  absl::string_view number = text;
  double seconds_each = 0;
  for (const auto& [suffix, factor] : {std::pair("min", 60.0), std::pair("s", 1.0),
                                       std::pair("m", 60.0), std::pair("h", 3600.0)}) {
    if (absl::ConsumeSuffix(&number, suffix)) {
      seconds_each = factor;
      break;
    }
  }
  double value = 0;
  uint32_t trials = 0;
  if (seconds_each > 0 && absl::SimpleAtod(number, &value) && value > 0 && value < 1e7) {
    budget.set_seconds(value * seconds_each);
  } else if (seconds_each == 0 && absl::SimpleAtoi(number, &trials) && trials > 0) {
    budget.set_trials(trials);
  } else {
    return absl::InvalidArgumentError(absl::StrCat(
        "--budget needs a number of trials ('100') or a time ('30s', '5min', '1h'), not '", text,
        "'"));
  }
  return budget;
}

Command SweepCommand(Session& session) {
  auto flags = std::make_shared<SweepFlags>();
  return {
      .name = "sweep",
      .help = "Tune a kernel: compile, check and time its configs, record the best",
      .examples =
          {"tunectl sweep attention --seq 4096",
           "tunectl sweep softmax --rows 8192 --cols 4096 --dtype bf16 --budget 30s",
           "tunectl sweep attention --seq 4096 --devices all    on every GPU like the first",
           "tunectl sweep attention --help              the dims of one kernel",
           "tunectl sweep my/kernel.textproto           a kernel of your own",
           "tunectl sweep --replay recording.json --budget 100   without a device"},
      .kernel = &flags->problem.kernel,
      .dims = true,
      .json = "Print the finished sweep as JSON",
      .flags = Joined(
          {Flag("--devices", &flags->devices,
                "Spread the trials over equal devices that are free: all (those like the first "
                "GPU), or ids, such as cuda:0,cuda:1; the best are measured again on one")
               .NotWith("--device"),
           Flag("--strategy", &flags->strategy, "Search strategy, as in 'tunectl strategy list'"),
           Flag("--budget", &flags->budget,
                "Trials (100) or time (30s, 5min); time includes the reference, not the wait for "
                "the device, and limits each compile and each run"),
           Flag("--stop-no-improvement", &flags->stop_no_improvement,
                "Stop after this many trials in a row without an improvement"),
           Flag("--stop-chance", &flags->stop_chance,
                "Stop when the chance that a trial improves on the best is below this, as 0.01"),
           Flag("--prior", &flags->prior,
                "Recording to start from, of the same kernel on another device or shape; may be "
                "given several times")
               .Repeated(),
           Flag("--no-warm-start", &flags->no_warm_start,
                "Ignore what was measured of other shapes and devices"),
           Flag("--replay", &flags->replay,
                "Sweep a recorded space instead of a device; see docs/replay.md"),
           Flag("--in-flight", &flags->in_flight, "Trials at the same time, with --replay"),
           Flag("--fresh", &flags->fresh, "Measure again the configs of earlier sweeps"),
           Flag("--background", &flags->background,
                "Yield the device to other work, and continue afterwards"),
           Flag("--detach", &flags->detach, "Queue the sweep and return"),
           Flag("-v,--verbose", &flags->verbose, kVerboseSweepHelp)},
          MeasuredFlags(flags->problem)),
      .run = [&session, flags] { return Sweep(session, *flags); },
      .verbs = SweepVerbs(session)};
}

}  // namespace tune::client
