// SPDX-License-Identifier: Apache-2.0
// tunectl baseline set|list
#include <cstdio>
#include <memory>
#include <set>

#include "absl/strings/str_cat.h"
#include "client/cli/commands.h"
#include "client/cli/kernel_set.h"
#include "client/connect/rpc.h"
#include "client/report/format.h"
#include "client/report/terminal.h"

namespace tune::client {
namespace {

constexpr auto kTimeout = std::chrono::seconds(60);
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
  auto set = ReadKernelSet(flags.from, flags.folder);
  if (!set.ok()) return set.status();
  const std::set<std::string> wanted(flags.kernels.begin(), flags.kernels.end());
  for (const std::string& name : wanted) {
    if (set->kernels.contains(name)) continue;
    return absl::InvalidArgumentError(absl::StrCat(flags.from, " has no kernel '", name, "'"));
  }
  auto connection = session.Connect();
  if (!connection.ok()) return connection.status();
  v1::SetBaselineRequest request;
  request.set_name(flags.name);
  request.set_label(set->label);
  v1::SetBaselineResponse stored;
  size_t left = set->kernels.size();
  for (auto& [name, source] : set->kernels) {
    --left;
    if (wanted.empty() || wanted.contains(name)) *request.add_kernels() = std::move(source);
    if (left > 0 && request.ByteSizeLong() < kPieceBytes) continue;
    grpc::ClientContext context;
    SetDeadline(context, kTimeout);
    v1::SetBaselineResponse response;
    absl::Status status =
        FromGrpc((*connection)->gates().SetBaseline(&context, request, &response));
    if (!status.ok()) return status;
    stored.MergeFrom(response);
    request.clear_kernels();
  }
  Print(stored, flags.json);
  return absl::OkStatus();
}

absl::Status List(Session& session, bool json) {
  auto connection = session.Connect(Need::kRead);
  if (!connection.ok()) return connection.status();
  grpc::ClientContext context;
  SetDeadline(context, kTimeout);
  v1::ListBaselinesResponse response;
  absl::Status status = FromGrpc((*connection)->gates().ListBaselines(&context, {}, &response));
  if (status.ok()) Print(response, json);
  return status;
}

}  // namespace

void AddBaseline(CLI::App& app, Session& session) {
  CLI::App* baseline = app.add_subcommand("baseline", "Kernels kept under a name, to gate against");
  baseline->require_subcommand(1);
  auto flags = std::make_shared<BaselineFlags>();

  CLI::App* set = baseline->add_subcommand("set", "Keep the kernels of a revision");
  set->add_option("NAME", flags->name, "Of the baseline")->required();
  set->add_option("--from", flags->from, "Git revision, folder or .textproto file")
      ->capture_default_str();
  set->add_option("--folder", flags->folder, "Where a revision keeps its kernels")
      ->capture_default_str();
  set->add_option("--kernels", flags->kernels, "Only these, separated by commas")->delimiter(',');
  set->add_flag("--json", flags->json, "As JSON");
  set->callback([&session, flags] { session.Finish(Set(session, *flags)); });

  CLI::App* list = baseline->add_subcommand("list", "The baselines there are");
  list->add_flag("--json", flags->json, "As JSON");
  list->callback([&session, flags] { session.Finish(List(session, flags->json)); });
}

}  // namespace tune::client
