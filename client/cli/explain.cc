// SPDX-License-Identifier: Apache-2.0
// tunectl explain KERNEL
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/commands.h"
#include "client/cli/dim_flags.h"
#include "client/cli/expectation.h"
#include "client/cli/kernel_choice.h"
#include "client/cli/kernel_help.h"
#include "client/connect/rpc.h"
#include "client/report/format.h"
#include "client/report/terminal.h"

namespace tune::client {
namespace {

constexpr auto kTimeout = std::chrono::seconds(30);

struct ExplainFlags {
  std::string kernel;
  std::string kernel_flag;
  std::string dtype;
  std::string device;
  uint32_t limit = 5;
  bool json = false;
};

// What keeps a record from being better than another device's or another source's.
std::vector<std::string> BlockedBy(const v1::Candidate& candidate) {
  std::vector<std::string> names;
  for (const v1::KeyField& field : candidate.fields()) {
    if (field.verdict() == "differs") names.push_back(field.name());
  }
  if (!candidate.config_is_valid()) names.push_back("config");
  return names;
}

std::string MarkOf(const v1::Candidate& candidate) {
  if (candidate.answers()) return Bold("answers");
  const std::vector<std::string> blocked = BlockedBy(candidate);
  return blocked.empty() ? "farther" : "differs in " + absl::StrJoin(blocked, ", ");
}

void Print(const v1::Candidate& candidate) {
  const std::string record = candidate.record_id() == 0
                                 ? "shipped record"
                                 : absl::StrCat("record ", candidate.record_id());
  std::printf("%s: %s\n", record.c_str(), MarkOf(candidate).c_str());
  for (const v1::KeyField& field : candidate.fields()) {
    const std::string there = field.verdict() == "same" ? ""
                              : field.there().empty()   ? "  the record has none"
                                                        : "  the record's " + field.there();
    std::printf("    %-12s%s (%s) = %s%s\n", field.verdict().c_str(), field.name().c_str(),
                field.rule().c_str(), field.asked().empty() ? "not known" : field.asked().c_str(),
                there.c_str());
  }
  if (!candidate.config_is_valid()) {
    std::printf("    differs     config: not valid for this problem\n");
  }
}

void Print(const v1::ExplainResponse& response) {
  const v1::LookupResponse& answer = response.answer();
  std::printf("%s\n", Bold(ToText(answer.config(), {})).c_str());
  std::printf("%-10s%s on %s (%s)\n", "asked", ToText(response.problem()).c_str(),
              response.device_name().empty() ? "this host" : response.device_name().c_str(),
              response.target().c_str());
  std::printf("%-10s%s\n", "match", ReasonText(answer).c_str());
  std::printf("%-10s%s\n", "expected", ToText(answer.expectation()).c_str());
  for (const std::string& line : NeighbourLines(answer.expectation())) {
    std::printf("    %s\n", line.c_str());
  }
  for (const v1::Candidate& candidate : response.candidates()) Print(candidate);
  if (response.candidates().empty()) {
    std::fputs("there is no record of this kernel: `tunectl sweep` makes one\n", stderr);
  }
}

absl::Status Run(Session& session, const ExplainFlags& flags) {
  auto kernel = OneKernel(flags.kernel, flags.kernel_flag);
  if (kernel.ok()) kernel = KernelName(*kernel);
  if (!kernel.ok()) return kernel.status();
  auto dims = ParseDims(session.dims);
  if (!dims.ok()) return dims.status();
  auto connection = session.Connect(Need::kRead);
  if (!connection.ok()) return connection.status();
  v1::ExplainRequest request;
  request.set_most(flags.limit);
  v1::LookupRequest& question = *request.mutable_question();
  question.set_kernel_name(*kernel);
  question.set_dtype(flags.dtype);
  question.set_device(flags.device);
  question.mutable_dims()->insert(dims->begin(), dims->end());
  grpc::ClientContext context;
  SetDeadline(context, kTimeout);
  v1::ExplainResponse response;
  absl::Status status = FromGrpc((*connection)->records().Explain(&context, request, &response));
  if (!status.ok()) return status;
  if (flags.json) {
    PrintJson(response);
  } else {
    Print(response);
  }
  return absl::OkStatus();
}

}  // namespace

void AddExplain(CLI::App& app, Session& session) {
  auto flags = std::make_shared<ExplainFlags>();
  CLI::App* explain = app.add_subcommand(
      "explain",
      "Why `tunectl best` answers as it does: field by field, the records that came near.\n"
      "Examples:\n"
      "  tunectl explain softmax --rows 8192 --cols 5000\n"
      "  tunectl explain attention --seq 4096 --device 'NVIDIA H200' --json");
  const auto help = std::make_shared<KernelHelp>(*explain);
  explain->add_option("KERNEL", flags->kernel, kKernelHelp);
  explain->add_option("--kernel", flags->kernel_flag, kKernelFlagHelp);
  explain->add_option("--dtype", flags->dtype, "Data type; by default the spec's first");
  explain->add_option("--device", flags->device,
                      "Device name, id or kind (cuda, cpu); by default this host's");
  explain->add_option("--at-most", flags->limit, "Records that are compared, the most alike first")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  explain->add_flag("--json", flags->json, "As JSON");
  explain->callback([&session, flags, help] {
    const std::string& kernel = flags->kernel.empty() ? flags->kernel_flag : flags->kernel;
    session.Finish(help->asked() ? help->Print(session, kernel) : Run(session, *flags));
  });
}

}  // namespace tune::client
