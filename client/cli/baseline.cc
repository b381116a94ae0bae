// SPDX-License-Identifier: Apache-2.0
// tunectl baseline set|list
#include <cstdio>
#include <memory>
#include <set>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "client/cli/call.h"
#include "client/cli/command.h"
#include "client/cli/kernel_set.h"
#include "client/report/format.h"
#include "client/report/terminal.h"
#include "tune/v1/gate.grpc.pb.h"

namespace tune::client {
namespace {

// A call is made once it has so much: with another kernel of at most 1 MiB it is below what the
// server takes.
constexpr size_t kPieceBytes = 2 << 20;

struct BaselineFlags {
  std::string name;
  std::string from = ".";
  std::string folder = "kernels";
  std::vector<std::string> kernels;
  bool json = false;
};

template <typename Response>
void Print(const Response& response, bool json) {
  if (json) {
    PrintJsonList("baselines", response.kernels());
    return;
  }
  Table table({"baseline", "kernel", "hash", "from", "set"});
  for (const v1::BaselineKernel& kernel : response.kernels()) {
    table.Add({kernel.baseline(), kernel.kernel_name(), kernel.kernel_hash().substr(0, 12),
               kernel.label().substr(0, 40), TimeText(kernel.set_unix_ms())});
  }
  std::fputs(table.Text().c_str(), stdout);
}

absl::Status Set(Session& session, const BaselineFlags& flags) {
  ASSIGN_OR_RETURN(auto set, ReadKernelSet(flags.from, flags.folder));
  const std::set<std::string> wanted(flags.kernels.begin(), flags.kernels.end());
  for (const std::string& name : wanted) {
    if (set.kernels.contains(name)) continue;
    return absl::InvalidArgumentError(absl::StrCat(flags.from, " has no kernel '", name, "'"));
  }
  ASSIGN_OR_RETURN(auto connection, session.Connect());
  v1::SetBaselineRequest request;
  request.set_name(flags.name);
  request.set_label(set.label);
  v1::SetBaselineResponse stored;
  size_t left = set.kernels.size();
  for (auto& [name, source] : set.kernels) {
    --left;
    if (wanted.empty() || wanted.contains(name)) *request.add_kernels() = std::move(source);
    if (left > 0 && request.ByteSizeLong() < kPieceBytes) continue;
    ASSIGN_OR_RETURN(const v1::SetBaselineResponse response,
                     Call(connection, &v1::GateService::Stub::SetBaseline, request));
    stored.MergeFrom(response);
    request.clear_kernels();
  }
  Print(stored, flags.json);
  return absl::OkStatus();
}

absl::Status List(Session& session, bool json) {
  ASSIGN_OR_RETURN(const v1::ListBaselinesResponse response,
                   Call(session.Connect(Need::kRead), &v1::GateService::Stub::ListBaselines, {}));
  Print(response, json);
  return absl::OkStatus();
}

}  // namespace

Command BaselineCommand(Session& session) {
  const auto flags = std::make_shared<BaselineFlags>();
  return {
      .name = "baseline",
      .help = "Kernels kept under a name, to gate against",
      .verbs = {
          {.name = "set",
           .help = "Keep the kernels of a revision",
           .flags = {Flag("NAME", &flags->name, "Of the baseline").Required(),
                     Flag("--from", &flags->from, "Git revision, folder or .textproto file"),
                     Flag("--folder", &flags->folder, "Where a revision keeps its kernels"),
                     Flag("--kernels", &flags->kernels, "Only these, separated by commas").Commas(),
                     Flag("--json", &flags->json, kJsonHelp)},
           .run = [&session, flags] { return Set(session, *flags); }},
          {.name = "list",
           .help = "The baselines there are",
           .flags = {Flag("--json", &flags->json, kJsonHelp)},
           .run = [&session, flags] { return List(session, flags->json); }}}};
}

}  // namespace tune::client
