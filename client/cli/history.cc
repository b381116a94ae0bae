// SPDX-License-Identifier: Apache-2.0
// tunectl history KERNEL, history add
#include <algorithm>
#include <cstdio>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cli/commands.h"
#include "client/cli/dim_flags.h"
#include "client/cli/gate_call.h"
#include "client/cli/kernel_choice.h"
#include "client/cli/kernel_set.h"
#include "client/cli/user_file.h"
#include "client/connect/rpc.h"
#include "client/report/gate_report.h"
#include "client/report/history_view.h"

namespace tune::client {
namespace {

constexpr auto kTimeout = std::chrono::seconds(60);
constexpr char kExamples[] =
    "Examples:\n"
    "  tunectl history softmax --svg softmax.svg\n"
    "  tunectl history add --rev main              time main's kernels as they are tuned now\n";

struct HistoryFlags {
  std::string kernel;
  std::string kernel_flag;
  std::string dtype;
  std::string device;
  std::string least_change;
  std::string svg;
  bool heads = false;
  bool json = false;
};

struct AddFlags {
  std::string revision = "HEAD";
  std::string folder = "kernels";
  std::vector<std::string> kernels;
  std::string dtype;
  std::string device;
  uint32_t rounds = 5;
  bool warm = false;
  bool json = false;
};

absl::Status Show(Session& session, const HistoryFlags& flags) {
  auto kernel = OneKernel(flags.kernel, flags.kernel_flag);
  if (kernel.ok()) kernel = KernelName(*kernel);
  if (!kernel.ok()) return kernel.status();
  v1::GetHistoryRequest request;
  request.set_kernel_name(*kernel);
  auto dims = ParseDims(session.dims);
  if (!dims.ok()) return dims.status();
  request.mutable_dims()->insert(dims->begin(), dims->end());
  request.set_dtype(flags.dtype);
  request.set_device(flags.device);
  request.set_heads(flags.heads);
  if (!flags.least_change.empty()) {
    auto share = ParseShare("--least-change", flags.least_change);
    if (!share.ok()) return share.status();
    request.set_least_change(*share);
  }
  auto connection = session.Connect(Need::kRead);
  if (!connection.ok()) return connection.status();
  grpc::ClientContext context;
  SetDeadline(context, kTimeout);
  v1::GetHistoryResponse response;
  absl::Status status = FromGrpc((*connection)->gates().GetHistory(&context, request, &response));
  if (!status.ok()) return status;
  if (!flags.svg.empty()) {
    if (absl::Status written = WriteFile(flags.svg, HistorySvg(response)); !written.ok()) {
      return written;
    }
  }
  if (flags.json) {
    PrintJson(response);
    return absl::OkStatus();
  }
  for (const v1::HistorySeries& series : response.series()) {
    std::printf("%s\n", HistoryText(series).c_str());
  }
  if (response.series().empty()) {
    std::fprintf(stderr, "nothing measured of %s%s; try: tunectl history add --kernels %s\n",
                 kernel->c_str(), session.dims.empty() ? " yet" : " with these dims",
                 kernel->c_str());
  }
  return absl::OkStatus();
}

absl::Status Add(Session& session, const AddFlags& flags) {
  auto set = ReadKernelSet(flags.revision, flags.folder);
  if (!set.ok()) return set.status();
  v1::SubmitGateRequest request;
  request.set_kind(v1::GATE_KIND_HISTORY);
  request.set_head_label(set->label);
  request.set_dtype(flags.dtype);
  request.set_device(flags.device);
  request.set_cache_mode(flags.warm ? v1::CACHE_MODE_WARM : v1::CACHE_MODE_COLD);
  request.set_seed(1);  // points of a history have the same inputs
  request.mutable_rules()->set_screen_rounds(flags.rounds);
  auto dims = ParseDims(session.dims);
  if (!dims.ok()) return dims.status();
  request.mutable_dims()->insert(dims->begin(), dims->end());
  for (const std::string& name : flags.kernels) {
    if (set->kernels.contains(name)) continue;
    return absl::InvalidArgumentError(absl::StrCat(flags.revision, " has no kernel '", name, "'"));
  }
  for (auto& [name, source] : set->kernels) {
    const auto& only = flags.kernels;
    if (!only.empty() && std::find(only.begin(), only.end(), name) == only.end()) continue;
    *request.add_entries()->mutable_head() = std::move(source);
  }
  auto connection = session.Connect();
  if (!connection.ok()) return connection.status();
  auto run = RunGate(**connection, request, flags.json);
  if (!run.ok()) return run.status();
  if (flags.json) {
    PrintJson(*run);
    return absl::OkStatus();
  }
  for (const v1::GateKernel& kernel : run->kernels()) {
    std::printf("%s\n", TimedText(kernel).c_str());
  }
  return absl::OkStatus();
}

}  // namespace

void AddHistory(CLI::App& app, Session& session) {
  auto flags = std::make_shared<HistoryFlags>();
  CLI::App* history = app.add_subcommand(
      "history",
      std::string("How fast a kernel was at each revision, and where that changed.\n") + kExamples);
  history->require_subcommand(0, 1);
  history->add_option("KERNEL", flags->kernel, kKernelHelp);
  history->add_option("--kernel", flags->kernel_flag, kKernelFlagHelp);
  history->add_option("--dtype", flags->dtype, "Only this data type");
  history->add_option("--device", flags->device, "Only this device, by id or name");
  history->add_option("--least-change", flags->least_change, "Report no smaller change (1%)");
  // Not "--heads": attention and rope have a dim of that name.
  history->add_flag("--gate-heads", flags->heads, "The heads of gate runs too");
  history->add_option("--svg", flags->svg, "Draw it to this file");
  history->add_flag("--json", flags->json, "As JSON");

  auto add_flags = std::make_shared<AddFlags>();
  CLI::App* add = history->add_subcommand("add", "Time the kernels of a revision");
  add->add_option("--rev", add_flags->revision, "Git revision, folder or .textproto file")
      ->capture_default_str();
  add->add_option("--folder", add_flags->folder, "Where a revision keeps its kernels")
      ->capture_default_str();
  add->add_option("--kernels", add_flags->kernels, "Only these, separated by commas")
      ->delimiter(',');
  add->add_option("--dtype", add_flags->dtype, "Data type; by default each spec's first");
  add->add_option("--device", add_flags->device, "Device id, such as cuda:0 or cpu, or any");
  add->add_option("--rounds", add_flags->rounds, "Fresh processes for each kernel")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  add->add_flag("--warm", add_flags->warm, "Leave the cache warm between samples");
  add->add_flag("--json", add_flags->json, "As JSON");
  add->callback([add_flags, &session] { session.Finish(Add(session, *add_flags)); });
  history->callback([flags, history, &session] {
    if (!history->get_subcommands().empty()) return;
    session.Finish(Show(session, *flags));
  });
}

}  // namespace tune::client
