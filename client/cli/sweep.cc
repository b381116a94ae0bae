// SPDX-License-Identifier: Apache-2.0
// tunectl sweep KERNEL
#include <cstdio>
#include <memory>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "client/cli/commands.h"
#include "client/cli/dim_flags.h"
#include "client/cli/kernel_choice.h"
#include "client/cli/kernel_files.h"
#include "client/cli/kernel_help.h"
#include "client/cli/recording_files.h"
#include "client/cli/sweep_flags.h"
#include "client/cli/sweep_view.h"
#include "client/connect/rpc.h"
#include "client/report/format.h"
#include "tune/v1/replay.grpc.pb.h"
#include "tune/v1/sweep.grpc.pb.h"

namespace tune::client {
namespace {

constexpr auto kSubmitTimeout =
    std::chrono::seconds(120);  // other large spaces may be found before

constexpr char kExamples[] =
    "Examples:\n"
    "  tunectl sweep attention --seq 4096\n"
    "  tunectl sweep softmax --rows 8192 --cols 4096 --dtype bf16 --budget 30s\n"
    "  tunectl sweep attention --help              the dims of one kernel\n"
    "  tunectl sweep my/kernel.textproto           a kernel of your own\n"
    "  tunectl sweep --replay recording.json --budget 100   no device: answers were recorded\n";

absl::StatusOr<v1::Prior> ReadPrior(Session& session, const std::vector<std::string>& paths) {
  v1::ReadPriorRequest request;
  for (const std::string& path : paths) {
    auto source = ReadRecordingFiles(path);
    if (!source.ok()) return source.status();
    *request.add_recordings() = *std::move(source);
  }
  auto replay = session.Replay();
  if (!replay.ok()) return replay.status();
  grpc::ClientContext context;
  v1::Prior prior;
  absl::Status status =
      FromGrpc((*replay)->stub<v1::ReplayService>().ReadPrior(&context, request, &prior));
  if (!status.ok()) return status;
  return prior;
}

absl::StatusOr<v1::SubmitSweepRequest> MakeRequest(const SweepFlags& flags, Session& session) {
  v1::SubmitSweepRequest request;
  if (flags.kernel_path.empty()) {
    request.set_kernel_name(flags.kernel);
  } else {
    auto files = ReadKernelFiles(flags.kernel_path);
    if (!files.ok()) return files.status();
    *request.mutable_kernel_source() = std::move(files->source);
  }
  auto dims = ParseDims(session.dims);
  if (!dims.ok()) return dims.status();
  request.mutable_dims()->insert(dims->begin(), dims->end());
  auto budget = ParseBudget(flags.budget);
  if (!budget.ok()) return budget.status();
  *request.mutable_budget() = *budget;
  request.set_dtype(flags.dtype);
  request.set_device(flags.device);
  if (flags.background) request.set_priority(v1::JOB_PRIORITY_BACKGROUND);
  request.set_strategy(flags.strategy);
  request.set_seed(flags.seed);
  request.set_cache_mode(flags.warm ? v1::CACHE_MODE_WARM : v1::CACHE_MODE_COLD);
  request.set_fresh(flags.fresh);
  *request.mutable_stop() = StopRulesOf(flags);
  request.set_no_warm_start(flags.no_warm_start);
  if (!flags.prior.empty()) {
    auto prior = ReadPrior(session, flags.prior);
    if (!prior.ok()) return prior.status();
    *request.mutable_prior() = *std::move(prior);
  }
  return request;
}

absl::Status RunSweep(Session& session, const SweepFlags& flags) {
  if (!flags.replay.empty()) return ReplaySweep(session, flags);
  if (flags.kernel.empty() == flags.kernel_path.empty()) {
    return absl::InvalidArgumentError(
        "name one kernel: 'tunectl sweep attention', or 'tunectl sweep --kernel "
        "my/kernel.textproto'; "
        "'tunectl kernel list' shows the catalogue");
  }
  auto connection = session.Connect();
  if (!connection.ok()) return connection.status();
  if (flags.detach) {
    if (absl::Status can = CheckDetach(**connection); !can.ok()) return can;
  }
  auto request = MakeRequest(flags, session);
  if (!request.ok()) return request.status();

  grpc::ClientContext context;
  SetDeadline(context, kSubmitTimeout);
  v1::Sweep sweep;
  absl::Status status =
      FromGrpc((*connection)->stub<v1::SweepService>().SubmitSweep(&context, *request, &sweep));
  if (!status.ok()) return status;
  for (const std::string& warning : sweep.warnings()) {
    std::fprintf(stderr, "warning: %s\n", warning.c_str());
  }
  if (const std::string plan = PlanText(sweep); !plan.empty() && !flags.json) {
    std::fprintf(stderr, "%s\n", plan.c_str());
  }
  if (flags.detach) {
    if (flags.json) {
      PrintJson(sweep);
    } else {
      std::printf("sweep %ld is queued; follow it with: tunectl sweep watch %ld\n",
                  static_cast<long>(sweep.id()), static_cast<long>(sweep.id()));
    }
    return absl::OkStatus();
  }
  auto watched = FollowSweep(**connection, sweep.job_id(), OnInterrupt::kCancelJob, flags.json);
  if (!watched.ok()) return watched.status();
  if (flags.json) {
    PrintJson(watched->sweep);
  } else {
    const v1::SweepReport why = WhyNotOk(**connection, watched->sweep);
    std::fputs(ReportText(watched->sweep, why, flags.verbose).c_str(), stdout);
  }
  session.Finish(watched->interrupted ? kInterrupted : ExitCodeOf(watched->sweep));
  return absl::OkStatus();
}

// How a sweep searches, real or replayed.
void AddSearchFlags(CLI::App& sweep, SweepFlags& flags) {
  sweep.add_option("--strategy", flags.strategy, "See 'tunectl strategy list'");
  sweep.add_option(
      "--budget", flags.budget,
      "Trials (100) or time (30s, 5min), which also cuts short what compiles or hangs");
  sweep.add_option("--stop-no-improvement", flags.stop_no_improvement,
                   "Stop after this many trials in a row that brought nothing");
  sweep.add_option("--stop-chance", flags.stop_chance,
                   "Stop when the chance that a trial improves on the best is below this (0.01)");
  sweep
      .add_option("--prior", flags.prior,
                  "Recording to start from, of the same kernel on another device or shape; may be "
                  "given several times")
      ->allow_extra_args(false);
  sweep.add_flag("--no-warm-start", flags.no_warm_start,
                 "Start from nothing, not from what other shapes and devices taught");
  sweep.add_option("--replay", flags.replay,
                   "Sweep a recorded space instead of a device; see docs/replay.md");
  sweep.add_option("--in-flight", flags.in_flight, "Trials at the same time, with --replay")
      ->capture_default_str();
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

v1::StopRules StopRulesOf(const SweepFlags& flags) {
  v1::StopRules stop;
  stop.set_trials_without_improvement(flags.stop_no_improvement);
  stop.set_improvement_chance_min(flags.stop_chance);
  return stop;
}

void AddSweep(CLI::App& app, Session& session) {
  auto flags = std::make_shared<SweepFlags>();
  CLI::App* sweep = app.add_subcommand(
      "sweep",
      std::string("Tune a kernel: compile, check and time its configs, record the best.\n") +
          kExamples);
  const auto help = std::make_shared<KernelHelp>(*sweep);
  sweep->add_option("KERNEL", flags->kernel, kKernelHelp);
  sweep->add_option("--kernel", flags->kernel_path, kKernelFlagHelp);
  sweep->add_option("--dtype", flags->dtype, "Data type; by default the spec's first");
  sweep->add_option(
      "--device", flags->device,
      "Device id, such as cuda:0 or cpu; any: the first free device of the default kind");
  sweep->add_flag("--background", flags->background,
                  "Yield the device to whoever else wants it, and go on afterwards");
  AddSearchFlags(*sweep, *flags);
  sweep->add_option("--seed", flags->seed, "Seed of the strategy and of the inputs")
      ->check(RefuseMinus)
      ->capture_default_str();
  sweep->add_flag("--warm", flags->warm, "Leave the cache warm between samples");
  sweep->add_flag("--fresh", flags->fresh, "Measure again what an earlier sweep has measured");
  sweep->add_flag("--detach", flags->detach, "Queue it and return");
  sweep->add_flag("--json", flags->json, "Print the finished sweep as JSON");
  sweep->add_flag("-v,--verbose", flags->verbose,
                  "List every source it started from, every tie and every kind of failure");
  AddSweepVerbs(*sweep, session);
  sweep->callback([flags, sweep, help, &session] {
    if (!sweep->get_subcommands().empty()) return;
    SortKernel(flags->kernel, flags->kernel_path);
    const std::string& kernel = flags->kernel.empty() ? flags->kernel_path : flags->kernel;
    const absl::Status status =
        help->asked() ? help->Print(session, kernel) : RunSweep(session, *flags);
    if (!status.ok()) session.Finish(status);
  });
}

}  // namespace tune::client
