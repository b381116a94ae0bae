// SPDX-License-Identifier: Apache-2.0
// tunectl explain KERNEL
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "client/cli/call.h"
#include "client/cli/command.h"
#include "client/cli/expectation.h"
#include "client/cli/question.h"
#include "client/report/format.h"
#include "client/report/terminal.h"
#include "tune/v1/record.grpc.pb.h"

namespace tune::client {
namespace {

struct ExplainFlags {
  QuestionFlags question;
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
  v1::ExplainRequest request;
  request.set_most(flags.limit);
  ASSIGN_OR_RETURN(*request.mutable_question(),
                   MakeQuestion<v1::LookupRequest>(session, flags.question));
  ASSIGN_OR_RETURN(const v1::ExplainResponse response,
                   Call(session.Connect(Need::kRead), &v1::RecordService::Stub::Explain, request));
  return PrintResult(response, flags.json, [](const auto& shown) { Print(shown); });
}

}  // namespace

Command ExplainCommand(Session& session) {
  const auto flags = std::make_shared<ExplainFlags>();
  return {.name = "explain",
          .help =
              "Why `tunectl best` answers as it does: field by field, the records that came near.\n"
              "Examples:\n"
              "  tunectl explain softmax --rows 8192 --cols 5000\n"
              "  tunectl explain attention --seq 4096 --device 'NVIDIA H200' --json",
          .kernel = &flags->question.kernel,
          .kernel_help = true,
          .flags = {Flag("--dtype", &flags->question.dtype, kDtypeHelp),
                    Flag("--device", &flags->question.device, kQuestionDeviceHelp),
                    Flag("--at-most", &flags->limit,
                         "Maximum number of records to compare, nearest first")
                        .Range(1, 1000),
                    Flag("--json", &flags->json, kJsonHelp)},
          .run = [&session, flags] { return Run(session, *flags); }};
}

}  // namespace tune::client
