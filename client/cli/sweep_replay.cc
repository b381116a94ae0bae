// SPDX-License-Identifier: Apache-2.0
// tunectl sweep --replay FILE
#include <fmt/format.h>

#include <cmath>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/recording_files.h"
#include "client/cli/sweep_flags.h"
#include "client/connect/rpc.h"
#include "client/report/format.h"
#include "client/report/terminal.h"
#include "tune/v1/replay.grpc.pb.h"

namespace tune::client {
namespace {

absl::Status CheckFlags(const Session& session, const SweepFlags& flags) {
  const std::pair<bool, const char*> useless[] = {
      {!flags.kernel.empty() || !flags.kernel_path.empty(), "a kernel"},
      {!session.dims.empty(), "dims"},
      {!flags.dtype.empty(), "--dtype"},
      {!flags.device.empty(), "--device"},
      {flags.warm, "--warm"},
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

absl::StatusOr<v1::ReplayRequest> MakeRequest(const SweepFlags& flags) {
  v1::ReplayRequest request;
  auto recording = ReadRecordingFiles(flags.replay);
  if (!recording.ok()) return recording.status();
  *request.mutable_recording() = *std::move(recording);
  for (const std::string& path : flags.prior) {
    auto prior = ReadRecordingFiles(path);
    if (!prior.ok()) return prior.status();
    *request.add_prior() = *std::move(prior);
  }
  auto budget = ParseBudget(flags.budget);
  if (!budget.ok()) return budget.status();
  *request.mutable_budget() = *budget;
  *request.mutable_stop() = StopRulesOf(flags);
  request.set_strategy(flags.strategy);
  request.set_seed(flags.seed);
  request.set_in_flight(flags.in_flight);
  return request;
}

void AddLine(std::string& text, const std::string& title, const std::string& value) {
  if (!value.empty()) absl::StrAppend(&text, Dim(fmt::format("{:<10}", title)), value, "\n");
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
  std::vector<std::string> outcomes;
  for (const auto& [outcome, count] : replay.outcomes()) {
    outcomes.push_back(absl::StrCat(count, " ", outcome));
  }
  AddLine(text, "outcomes", absl::StrJoin(outcomes, ", "));
  AddLine(text, "tried",
          fmt::format("{} of {} configs with {}, seed {}, {} in flight; {}", replay.evaluations(),
                      recording.configs(), replay.strategy(), replay.seed(), replay.in_flight(),
                      replay.end_message()));
  if (replay.recorded_seconds() > 0) {
    AddLine(text, "recorded", absl::StrCat("they took ", DurationText(replay.recorded_seconds())));
  }
  AddLine(text, "overhead", fmt::format("{:.1f} us a trial", replay.overhead_us_median()));
  AddLine(text, "prior", absl::StrJoin(replay.prior_sources(), ", "));
  AddLine(text, "note", "replayed, not measured: no record is kept of it");
  return text;
}

}  // namespace

absl::Status ReplaySweep(Session& session, const SweepFlags& flags) {
  if (absl::Status status = CheckFlags(session, flags); !status.ok()) return status;
  auto request = MakeRequest(flags);
  if (!request.ok()) return request.status();
  auto replay = session.Replay();
  if (!replay.ok()) return replay.status();
  grpc::ClientContext context;
  v1::ReplayResponse response;
  absl::Status status =
      FromGrpc((*replay)->stub<v1::ReplayService>().Replay(&context, *request, &response));
  if (!status.ok()) return status;
  if (flags.json) {
    PrintJson(response);
  } else {
    std::fputs(ReplayText(response).c_str(), stdout);
  }
  session.Finish(response.has_best() ? kDone : kNoValidConfig);
  return absl::OkStatus();
}

}  // namespace tune::client
