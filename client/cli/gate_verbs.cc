// SPDX-License-Identifier: Apache-2.0
// tunectl gate list|show|recompute|resample
#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "client/cli/call.h"
#include "client/cli/commands.h"
#include "client/connect/rpc.h"
#include "client/report/format.h"
#include "client/report/gate_report.h"
#include "client/report/terminal.h"
#include "tune/v1/gate.grpc.pb.h"

namespace tune::client {
namespace {

constexpr auto kTimeout = std::chrono::seconds(60);
constexpr auto kResampleTimeout = std::chrono::minutes(10);

std::string Lower(const std::string& name, const char* prefix) {
  return absl::AsciiStrToLower(absl::StripPrefix(name, prefix));
}

absl::Status List(Session& session, uint32_t limit, bool json) {
  ASSIGN_OR_RETURN(const v1::ListGatesResponse response,
                   CallPages(session.Connect(Need::kRead), &v1::GateService::Stub::ListGates, {},
                             limit, &v1::ListGatesResponse::mutable_runs));
  if (json) {
    PrintJsonList("gates", response.runs());
    return absl::OkStatus();
  }
  Table table({"id", "kind", "state", "base", "head", "device", "verdicts", "started"});
  for (const v1::GateRun& run : response.runs()) {
    std::vector<std::string> counts;
    for (const auto& [verdict, count] : run.verdicts()) {
      counts.push_back(absl::StrCat(count, " ", verdict));
    }
    table.Add({absl::StrCat(run.id()), Lower(v1::GateKind_Name(run.kind()), "GATE_KIND_"),
               ToText(run.state()), run.base_label().substr(0, 12), run.head_label().substr(0, 12),
               run.device_id(), absl::StrJoin(counts, ", "), TimeText(run.started_unix_ms())});
  }
  std::fputs(table.Text().c_str(), stdout);
  if (response.runs().empty()) {
    std::fputs("no gate runs yet; try: tunectl gate --base main --head .\n", stderr);
  }
  return absl::OkStatus();
}

absl::Status Show(Session& session, int64_t id, bool json) {
  auto connection = session.Connect(Need::kRead);
  if (!connection.ok()) return connection.status();
  grpc::ClientContext context;
  SetDeadline(context, kTimeout);
  v1::GetGateRequest request;
  request.set_run_id(id);
  request.set_with_rounds(json);
  v1::GateRun run;
  absl::Status status =
      FromGrpc((*connection)->stub<v1::GateService>().GetGate(&context, request, &run));
  if (!status.ok()) return status;
  if (json) {
    PrintJson(run);
  } else {
    std::fputs(ReportText(run).c_str(), stdout);
  }
  return absl::OkStatus();
}

absl::Status Recompute(Session& session, int64_t id, bool json) {
  auto connection = session.Connect(Need::kRead);
  if (!connection.ok()) return connection.status();
  grpc::ClientContext context;
  SetDeadline(context, kTimeout);
  v1::RecomputeGateRequest request;
  request.set_run_id(id);
  v1::RecomputeGateResponse response;
  absl::Status status =
      FromGrpc((*connection)->stub<v1::GateService>().RecomputeGate(&context, request, &response));
  if (!status.ok()) return status;
  if (json) {
    PrintJson(response);
  } else {
    std::fputs(ReportText(response.run()).c_str(), stdout);
    if (response.differences().empty()) {
      std::printf("recomputed from the stored samples: the same %d verdicts\n",
                  response.run().kernels_size());
    }
  }
  for (const std::string& difference : response.differences()) {
    std::fprintf(stderr, "%s\n", difference.c_str());
  }
  session.Finish(response.differences().empty() ? kDone : kFailed);
  return absl::OkStatus();
}

absl::Status Resample(Session& session, const std::vector<int64_t>& ids, uint32_t runs,
                      uint64_t seed, bool json) {
  auto connection = session.Connect(Need::kRead);
  if (!connection.ok()) return connection.status();
  grpc::ClientContext context;
  SetDeadline(context, kResampleTimeout);
  v1::ResampleGateRequest request;
  request.mutable_run_ids()->Add(ids.begin(), ids.end());
  request.set_runs(runs);
  request.set_seed(seed);
  v1::ResampleGateResponse response;
  absl::Status status =
      FromGrpc((*connection)->stub<v1::GateService>().ResampleGate(&context, request, &response));
  if (!status.ok()) return status;
  if (json) {
    PrintJson(response);
    return absl::OkStatus();
  }
  std::printf("%s",
              fmt::format("{} of {} runs failed: with 95 % confidence at most {:.3f} % do\n"
                          "drawn from {} rounds of {} kernels; {:.2f} flagged a run; "
                          "autocorrelation at most {:.2f}\n",
                          response.failed_runs(), response.runs(), 100 * response.failed_bound(),
                          response.rounds(), response.kernels(), response.flagged_per_run(),
                          response.autocorrelation_max())
                  .c_str());
  for (const auto& [kernel, failures] : response.failures()) {
    std::printf("%s failed %u times\n", kernel.c_str(), failures);
  }
  return absl::OkStatus();
}

}  // namespace

void AddGateVerbs(CLI::App& gate, Session& session) {
  gate.require_subcommand(0, 1);
  auto json = std::make_shared<bool>(false);
  auto limit = std::make_shared<uint32_t>(20);
  auto id = std::make_shared<int64_t>(0);
  auto ids = std::make_shared<std::vector<int64_t>>();
  auto runs = std::make_shared<uint32_t>(300);
  auto seed = std::make_shared<uint64_t>(1);

  CLI::App* list = gate.add_subcommand("list", "Gate runs, newest first");
  list->add_option("--limit", *limit, "How many")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  list->add_flag("--json", *json, "As JSON");
  list->callback([&session, json, limit] { session.Finish(List(session, *limit, *json)); });

  CLI::App* show = gate.add_subcommand("show", "One run with its verdicts");
  show->add_option("ID", *id, "Run")->required();
  show->add_flag("--json", *json, "As JSON, with every round");
  show->callback([&session, id, json] { session.Finish(Show(session, *id, *json)); });

  CLI::App* recompute =
      gate.add_subcommand("recompute", "Recompute a run's verdicts from its stored samples");
  recompute->add_option("ID", *id, "Run")->required();
  recompute->add_flag("--json", *json, "As JSON");
  recompute->callback([&session, id, json] {
    const absl::Status status = Recompute(session, *id, *json);
    if (!status.ok()) session.Finish(status);
  });

  CLI::App* resample = gate.add_subcommand(
      "resample", "Draw whole runs from studies of one revision against itself: how many fail?");
  resample->add_option("ID", *ids, "Studies")->required();
  resample->add_option("--runs", *runs, "How many")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  resample->add_option("--seed", *seed, "Seed of the draws")
      ->check(RefuseMinus)
      ->capture_default_str();
  resample->add_flag("--json", *json, "As JSON");
  resample->callback([&session, ids, runs, seed, json] {
    session.Finish(Resample(session, *ids, *runs, *seed, *json));
  });
}

}  // namespace tune::client
