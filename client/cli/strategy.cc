// SPDX-License-Identifier: Apache-2.0
// tunectl strategy list|compare
#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "client/cli/call.h"
#include "client/cli/command.h"
#include "client/cli/interrupt.h"
#include "client/cli/recording_files.h"
#include "client/connect/rpc.h"
#include "client/report/strategy_report.h"
#include "client/report/terminal.h"
#include "tune/v1/replay.grpc.pb.h"

namespace tune::client {
namespace {

struct StrategyFlags {
  std::vector<std::string> replay;
  std::string strategies;
  uint32_t seeds = 20;
  uint32_t budget = 200;
  uint32_t in_flight = 1;
  std::vector<std::string> prior;
  bool score = false;
  std::string svg;
};

absl::Status ListStrategies(Session& session) {
  ASSIGN_OR_RETURN(
      const v1::ListStrategiesResponse response,
      Call(session.Replay(), &v1::ReplayService::Stub::ListStrategies, {}, kNoTimeout));
  const auto row = [](const v1::StrategyInfo& strategy) -> Cells {
    return {strategy.name(),
            absl::StrCat(strategy.summary(), strategy.is_default() ? " (the default)" : "")};
  };
  return PrintList(session, "strategies", response.strategies(), {"strategy", "summary"}, row);
}

absl::StatusOr<v1::CompareStrategiesRequest> MakeRequest(const StrategyFlags& flags) {
  v1::CompareStrategiesRequest request;
  for (const auto& [paths, sources] : {std::pair(&flags.replay, request.mutable_recordings()),
                                       std::pair(&flags.prior, request.mutable_prior())}) {
    for (const std::string& path : *paths) {
      ASSIGN_OR_RETURN(auto source, ReadRecordingFiles(path));
      *sources->Add() = std::move(source);
    }
  }
  for (const absl::string_view name : absl::StrSplit(flags.strategies, ',', absl::SkipEmpty())) {
    request.add_strategies(std::string(name));
  }
  request.set_seeds(flags.seeds);
  request.set_budget_trials(flags.budget);
  request.set_in_flight(flags.in_flight);
  request.set_score(flags.score);
  return request;
}

absl::StatusOr<v1::StrategyComparison> Run(const Connection& replay,
                                           const v1::CompareStrategiesRequest& request) {
  grpc::ClientContext context;
  InterruptGuard guard([&] { context.TryCancel(); });
  LiveLine line;
  auto reader = replay.stub<v1::ReplayService>().CompareStrategies(&context, request);
  v1::CompareStrategiesEvent event;
  v1::StrategyComparison comparison;
  while (reader->Read(&event)) {
    if (event.has_result()) comparison = std::move(*event.mutable_result());
    if (IsInteractive()) {
      line.Show(fmt::format("{} of {} runs", event.runs_done(), event.runs()));
    }
  }
  line.Clear();
  absl::Status status = FromGrpc(reader->Finish());
  if (guard.interrupted()) return absl::CancelledError("stopped; nothing was compared");
  RETURN_IF_ERROR(status);
  return comparison;
}

absl::Status CompareStrategies(Session& session, const StrategyFlags& flags) {
  ASSIGN_OR_RETURN(const v1::CompareStrategiesRequest request, MakeRequest(flags));
  ASSIGN_OR_RETURN(Connection* const replay, session.Replay());
  ASSIGN_OR_RETURN(const v1::StrategyComparison comparison, Run(*replay, request));
  if (!flags.svg.empty()) {
    const std::filesystem::path path(flags.svg);
    v1::RecordingFile file;
    file.set_name(path.filename().string());
    file.set_content(ComparisonSvg(comparison));
    RETURN_IF_ERROR(WriteFiles(path.parent_path().string(), {file}, Overwrite::kAllow));
  }
  return Print(session, comparison, [](const v1::StrategyComparison& compared) {
    std::fputs(ComparisonText(compared).c_str(), stdout);
  });
}

Command CompareVerb(Session& session) {
  const auto flags = std::make_shared<StrategyFlags>();
  return {
      .name = "compare",
      .help = "Run strategies on recorded spaces, on all cores, and compare them with the optimum",
      .examples = {"tunectl strategy compare --replay a.json b.json --seeds 20",
                   "tunectl strategy compare --replay a.json --strategies auto,random --svg "
                   "compare.svg",
                   "tunectl strategy compare --replay a.json --prior b.json   starts from what b "
                   "knows"},
      .json = "Print JSON, with the curves",
      .flags = {Flag("--replay", &flags->replay, "Recordings to run on").Required(),
                Flag("--strategies", &flags->strategies,
                     "Names of the strategies, separated by commas; by default all"),
                Flag("--seeds", &flags->seeds, "Runs of each strategy, with seeds 1, 2, ..."),
                Flag("--budget", &flags->budget, "Trials of a run"),
                Flag("--in-flight", &flags->in_flight, "Trials at the same time"),
                Flag("--prior", &flags->prior,
                     "Recordings to start from: of the same kernel on another device or shape"),
                Flag("--score", &flags->score,
                     "Print the score of Willemsen et al. (FGCS 2024), too; takes longer"),
                Flag("--svg", &flags->svg, "File to draw a picture to")},
      .run = [&session, flags] { return CompareStrategies(session, *flags); }};
}

}  // namespace

Command StrategyCommand(Session& session) {
  return {.name = "strategy",
          .help = "Search strategies of sweeps",
          .verbs = {{.name = "list",
                     .help = "List the strategies",
                     .json = kJsonHelp,
                     .run = [&session] { return ListStrategies(session); }},
                    CompareVerb(session)}};
}

}  // namespace tune::client
