// SPDX-License-Identifier: Apache-2.0
// tunectl history KERNEL, history add
#include <algorithm>
#include <cstdio>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "client/cli/call.h"
#include "client/cli/command.h"
#include "client/cli/gate_call.h"
#include "client/cli/kernel_set.h"
#include "client/cli/problem_flags.h"
#include "client/cli/user_file.h"
#include "client/report/gate_report.h"
#include "client/report/history_view.h"
#include "tune/v1/gate.grpc.pb.h"

namespace tune::client {
namespace {

struct HistoryFlags {
  ProblemFlags question;
  std::string least_change;
  std::string svg;
  bool heads = false;
};

struct HistoryAddFlags {
  std::string revision = "HEAD";
  std::string folder = "kernels";
  std::vector<std::string> kernels;
  ProblemFlags problem;
  uint32_t rounds = 5;
};

void PrintSeries(const v1::GetHistoryResponse& response) {
  for (const v1::HistorySeries& series : response.series()) {
    std::printf("%s\n", HistoryText(series).c_str());
  }
}

absl::Status Show(Session& session, const HistoryFlags& flags) {
  ASSIGN_OR_RETURN(auto request, MakeQuestion<v1::GetHistoryRequest>(session, flags.question));
  request.set_heads(flags.heads);
  if (!flags.least_change.empty()) {
    ASSIGN_OR_RETURN(const double share, ParseShare("--least-change", flags.least_change));
    request.set_least_change(share);
  }
  ASSIGN_OR_RETURN(const v1::GetHistoryResponse response,
                   Call(session.Connect(Need::kRead), &v1::GateService::Stub::GetHistory, request));
  if (!flags.svg.empty()) RETURN_IF_ERROR(WriteFile(flags.svg, HistorySvg(response)));
  if (!session.json && response.series().empty()) {
    const std::string& kernel = request.kernel_name();
    std::fprintf(stderr, "nothing measured of %s%s; try: tunectl history add --kernels %s\n",
                 kernel.c_str(), session.dims.empty() ? " yet" : " with these dims",
                 kernel.c_str());
  }
  return Print(session, response, PrintSeries);
}

absl::Status Add(Session& session, const HistoryAddFlags& flags) {
  ASSIGN_OR_RETURN(auto set, ReadKernelSet(flags.revision, flags.folder));
  v1::SubmitGateRequest request;
  request.set_kind(v1::GATE_KIND_HISTORY);
  request.set_head_label(set.label);
  // With the default seed, so that all points of a history have the same inputs.
  RETURN_IF_ERROR(SetMeasured(session, flags.problem, request));
  request.mutable_rules()->set_screen_rounds(flags.rounds);
  for (const std::string& name : flags.kernels) {
    if (set.kernels.contains(name)) continue;
    return absl::InvalidArgumentError(absl::StrCat(flags.revision, " has no kernel '", name, "'"));
  }
  for (auto& [name, source] : set.kernels) {
    const auto& only = flags.kernels;
    if (!only.empty() && std::find(only.begin(), only.end(), name) == only.end()) continue;
    *request.add_entries()->mutable_head() = std::move(source);
  }
  ASSIGN_OR_RETURN(auto connection, session.Connect());
  ASSIGN_OR_RETURN(auto run, RunGate(*connection, request, session.json));
  return Print(session, run, [](const v1::GateRun& timed) {
    for (const v1::GateKernel& kernel : timed.kernels()) {
      std::printf("%s\n", TimedText(kernel).c_str());
    }
  });
}

Command AddCommand(Session& session) {
  const auto flags = std::make_shared<HistoryAddFlags>();
  ProblemFlags& problem = flags->problem;
  return {
      .name = "add",
      .help = "Time the kernels of a revision",
      .dims = true,
      .json = kJsonHelp,
      .flags = {Flag("--rev", &flags->revision, "Git revision, folder or .textproto file"),
                Flag("--folder", &flags->folder, kFolderHelp),
                Flag("--kernels", &flags->kernels, kKernelsHelp).Commas(),
                Flag("--dtype", &problem.dtype, kDtypeHelp),
                Flag("--device", &problem.device, kDeviceHelp),
                Flag("--rounds", &flags->rounds, "Fresh processes for each kernel").Range(1, 1000),
                Flag("--warm", &problem.warm, kWarmHelp)},
      .run = [&session, flags] { return Add(session, *flags); }};
}

}  // namespace

Command HistoryCommand(Session& session) {
  const auto flags = std::make_shared<HistoryFlags>();
  ProblemFlags& question = flags->question;
  return {
      .name = "history",
      .help = "Show the speed of a kernel at each revision, and where it changed",
      .examples = {"tunectl history softmax --svg softmax.svg",
                   "tunectl history add --rev main              time main's kernels as they are "
                   "tuned now"},
      .kernel = &question.kernel,
      .dims = true,
      .json = kJsonHelp,
      .flags = {Flag("--dtype", &question.dtype, "Only this data type"),
                Flag("--device", &question.device, "Only this device, by id or name"),
                Flag("--least-change", &flags->least_change,
                     "Smallest change to report (default 1%)"),
                // Not "--heads": attention and rope have a dim of that name.
                Flag("--gate-heads", &flags->heads, "Include the heads of gate runs"),
                Flag("--svg", &flags->svg, "File to draw the history to")},
      .run = [&session, flags] { return Show(session, *flags); },
      .verbs = {AddCommand(session)}};
}

}  // namespace tune::client
