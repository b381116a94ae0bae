// SPDX-License-Identifier: Apache-2.0
// tunectl strategy list|compare
#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/cli/commands.h"
#include "client/cli/interrupt.h"
#include "client/cli/recording_files.h"
#include "client/connect/rpc.h"
#include "client/report/strategy_report.h"
#include "client/report/terminal.h"

namespace tune::client {
namespace {

constexpr char kExamples[] =
    "Examples:\n"
    "  tunectl strategy compare --replay a.json b.json --seeds 20\n"
    "  tunectl strategy compare --replay a.json --strategies auto,random --svg compare.svg\n"
    "  tunectl strategy compare --replay a.json --prior b.json   starts from what b knows\n";

struct CompareFlags {
  std::vector<std::string> replay;
  std::string strategies;
  uint32_t seeds = 20;
  uint32_t budget = 200;
  uint32_t in_flight = 1;
  std::vector<std::string> prior;
  bool score = false;
  bool json = false;
  std::string svg;
};

absl::Status List(Session& session, bool json) {
  auto replay = session.Replay();
  if (!replay.ok()) return replay.status();
  grpc::ClientContext context;
  v1::ListStrategiesResponse response;
  absl::Status status = FromGrpc((*replay)->ListStrategies(&context, {}, &response));
  if (!status.ok()) return status;
  if (json) {
    PrintJsonList("strategies", response.strategies());
    return absl::OkStatus();
  }
  Table table({"strategy", "what it does"});
  for (const v1::StrategyInfo& strategy : response.strategies()) {
    table.Add({strategy.name(),
               absl::StrCat(strategy.summary(), strategy.is_default() ? " (the default)" : "")});
  }
  std::fputs(table.Text().c_str(), stdout);
  return absl::OkStatus();
}

absl::StatusOr<v1::CompareStrategiesRequest> MakeRequest(const CompareFlags& flags) {
  v1::CompareStrategiesRequest request;
  for (const auto& [paths, sources] : {std::pair(&flags.replay, request.mutable_recordings()),
                                       std::pair(&flags.prior, request.mutable_prior())}) {
    for (const std::string& path : *paths) {
      auto source = ReadRecordingFiles(path);
      if (!source.ok()) return source.status();
      *sources->Add() = *std::move(source);
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

absl::StatusOr<v1::StrategyComparison> Run(v1::ReplayService::Stub& replay,
                                           const v1::CompareStrategiesRequest& request) {
  grpc::ClientContext context;
  InterruptGuard guard([&] { context.TryCancel(); });
  LiveLine line;
  auto reader = replay.CompareStrategies(&context, request);
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
  if (!status.ok()) return status;
  return comparison;
}

absl::Status Compare(Session& session, const CompareFlags& flags) {
  auto request = MakeRequest(flags);
  if (!request.ok()) return request.status();
  auto replay = session.Replay();
  if (!replay.ok()) return replay.status();
  auto comparison = Run(**replay, *request);
  if (!comparison.ok()) return comparison.status();
  if (!flags.svg.empty()) {
    const std::filesystem::path path(flags.svg);
    v1::RecordingFile file;
    file.set_name(path.filename().string());
    file.set_content(ComparisonSvg(*comparison));
    absl::Status status = WriteFiles(path.parent_path().string(), {file}, Overwrite::kAllow);
    if (!status.ok()) return status;
  }
  if (flags.json) {
    PrintJson(*comparison);
  } else {
    std::fputs(ComparisonText(*comparison).c_str(), stdout);
  }
  return absl::OkStatus();
}

void AddStrategyCompare(CLI::App& strategy, Session& session) {
  auto flags = std::make_shared<CompareFlags>();
  CLI::App* compare = strategy.add_subcommand(
      "compare",
      std::string("Play strategies on recorded spaces, on all cores, and hold them against the "
                  "optimum.\n") +
          kExamples);
  compare->add_option("--replay", flags->replay, "Recordings to play on")->required();
  compare->add_option("--strategies", flags->strategies,
                      "Names with commas between; by default all");
  compare->add_option("--seeds", flags->seeds, "Runs of each, with seeds 1, 2, ...")
      ->capture_default_str();
  compare->add_option("--budget", flags->budget, "Trials of a run")->capture_default_str();
  compare->add_option("--in-flight", flags->in_flight, "Trials at the same time")
      ->capture_default_str();
  compare->add_option("--prior", flags->prior,
                      "Recordings to start from: of the same kernel on another device or shape");
  compare->add_flag("--score", flags->score,
                    "Also the score of Willemsen et al. (FGCS 2024); takes longer");
  compare->add_option("--svg", flags->svg, "Write a picture to this file");
  compare->add_flag("--json", flags->json, "Print everything as JSON, curves included");
  compare->callback([&session, flags] { session.Finish(Compare(session, *flags)); });
}

}  // namespace

void AddStrategy(CLI::App& app, Session& session) {
  CLI::App* strategy = app.add_subcommand("strategy", "How sweeps choose the configs to try");
  strategy->require_subcommand(1);
  auto json = std::make_shared<bool>(false);
  CLI::App* list = strategy->add_subcommand("list", "The strategies there are");
  list->add_flag("--json", *json, "As JSON");
  list->callback([&session, json] { session.Finish(List(session, *json)); });
  AddStrategyCompare(*strategy, session);
}

}  // namespace tune::client
