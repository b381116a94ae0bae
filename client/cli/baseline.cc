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
#include "tune/v1/gate.grpc.pb.h"

namespace tune::client {
namespace {

// Bytes of kernels after which a call is made: with another kernel of at most 1 MiB it is below the
// server's limit.
constexpr size_t kBaselinePieceBytes = 2 << 20;

struct BaselineFlags {
  std::string name;
  std::string from = ".";
  std::string folder = "kernels";
  std::vector<std::string> kernels;
};

template <typename Kernels>
absl::Status PrintKernels(const Session& session, const Kernels& kernels) {
  const auto row = [](const v1::BaselineKernel& kernel) -> Cells {
    return {kernel.baseline(), kernel.kernel_name(), kernel.kernel_hash().substr(0, 12),
            kernel.label().substr(0, 40), TimeText(kernel.set_unix_ms())};
  };
  return PrintList(session, "baselines", kernels, {"baseline", "kernel", "hash", "from", "set"},
                   row);
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
    if (left > 0 && request.ByteSizeLong() < kBaselinePieceBytes) continue;
    ASSIGN_OR_RETURN(const v1::SetBaselineResponse response,
                     Call(connection, &v1::GateService::Stub::SetBaseline, request));
    stored.MergeFrom(response);
    request.clear_kernels();
  }
  return PrintKernels(session, stored.kernels());
}

absl::Status ListBaselines(Session& session) {
  ASSIGN_OR_RETURN(const v1::ListBaselinesResponse response,
                   CallPages(session.Connect(Need::kRead), &v1::GateService::Stub::ListBaselines,
                             {}, kListMax, &v1::ListBaselinesResponse::mutable_kernels));
  return PrintKernels(session, response.kernels());
}

}  // namespace

Command BaselineCommand(Session& session) {
  const auto flags = std::make_shared<BaselineFlags>();
  return {.name = "baseline",
          .help = "Kernels stored under a name, to gate against",
          .verbs = {
              {.name = "set",
               .help = "Store the kernels of a revision",
               .json = kJsonHelp,
               .flags = {Flag("NAME", &flags->name, "Name of the baseline").Required(),
                         Flag("--from", &flags->from, "Git revision, folder or .textproto file"),
                         Flag("--folder", &flags->folder, kFolderHelp),
                         Flag("--kernels", &flags->kernels, kKernelsHelp).Commas()},
               .run = [&session, flags] { return Set(session, *flags); }},
              {.name = "list", .help = "List the baselines", .json = kJsonHelp, .run = [&session] {
                 return ListBaselines(session);
               }}}};
}

}  // namespace tune::client
