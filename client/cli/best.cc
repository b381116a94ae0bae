// SPDX-License-Identifier: Apache-2.0
// tunectl best KERNEL, tunectl explain KERNEL
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "base/plural.h"
#include "base/status_macros.h"
#include "client/cli/call.h"
#include "client/cli/command.h"
#include "client/cli/problem_flags.h"
#include "client/connect/rpc.h"
#include "client/report/format.h"
#include "client/report/terminal.h"
#include "tune/v1/record.grpc.pb.h"

namespace tune::client {
namespace {

using Sizes = google::protobuf::RepeatedField<int64_t>;

// "loses 1.2 % of the best there would be; nine of ten times 0.0 to 6.1 %; by 5 tuned shapes".
std::string ExpectationText(const v1::LookupResponse& answer) {
  const v1::Expectation& expectation = answer.expectation();
  const std::string shapes = Counted(expectation.neighbours_size(), "tuned shape");
  const std::string high = PercentText(expectation.loss_high());
  const std::string loss =
      fmt::format("loses {} against the best there would be; nine of ten times {} to {}",
                  PercentText(expectation.loss()), PercentText(expectation.loss_low()), high);
  switch (expectation.basis()) {
    case v1::BASIS_MEASURED:
      if (answer.record().too_noisy()) {
        return absl::StrCat("may lose up to ", high,
                            ": measured here, but the host was too noisy to tell");
      }
      return absl::StrCat("loses nothing: measured here, to ", high);
    case v1::BASIS_NEIGHBOURS:
      return absl::StrCat(loss, "; by ", shapes);
    case v1::BASIS_SIBLING:
      return absl::StrCat(loss, "; by ", shapes, " of another device");
    default:
      return "unknown: nothing was measured that says anything";
  }
}

// The reason of an answer, which begins with the match unless that is a default's: "default: no
// record of softmax".
std::string ReasonText(const v1::LookupResponse& answer) {
  const absl::string_view name = absl::StripPrefix(v1::Match_Name(answer.match()), "MATCH_");
  const std::string match = absl::StrReplaceAll(absl::AsciiStrToLower(name), {{"_", " "}});
  if (absl::StartsWith(answer.reason(), match)) return answer.reason();
  return absl::StrCat(match, ": ", answer.reason());
}

// A line for each tuned shape that speaks for the config: "seq=4096 heads=16  weight 62 %  loses
// 0.3 % there".
std::vector<std::string> NeighbourLines(const v1::Expectation& expectation) {
  std::vector<std::string> lines;
  for (const v1::Neighbour& neighbour : expectation.neighbours()) {
    const std::string dims =
        absl::StrJoin(neighbour.dims(), " ", [](std::string* out, const v1::DimValue& dim) {
          absl::StrAppend(out, dim.name(), "=", dim.value());
        });
    lines.push_back(fmt::format("{:<32}weight {:.0f} %, loses {} there", dims,
                                100 * neighbour.weight(), PercentText(neighbour.loss())));
  }
  return lines;
}

// "grid 128x1x1, block 256x1x1, 4096 B shared", a line for each launch.
std::vector<std::string> LaunchLines(const v1::LookupResponse& answer) {
  std::vector<std::string> lines;
  for (const v1::LaunchStep& step : answer.launches()) {
    std::string line = absl::StrCat("grid ", absl::StrJoin(step.grid(), "x"), ", block ",
                                    absl::StrJoin(step.block(), "x"));
    const Sizes& cluster = step.cluster();
    if (std::any_of(cluster.begin(), cluster.end(), [](int64_t size) { return size > 1; })) {
      absl::StrAppend(&line, ", cluster ", absl::StrJoin(cluster, "x"));
    }
    if (step.shared_bytes() > 0) absl::StrAppend(&line, ", ", step.shared_bytes(), " B shared");
    lines.push_back(std::move(line));
  }
  return lines;
}

struct BestFlags {
  ProblemFlags question;
  bool require_exact = false;
  bool record_miss = false;
};

// Under which conditions the winner was confirmed, as far as the device tells.
std::string Conditions(const v1::Telemetry& telemetry) {
  std::vector<std::string> parts;
  if (telemetry.sm_clock_mhz() > 0) {
    parts.push_back(absl::StrCat("processors at ", telemetry.sm_clock_mhz(), " MHz"));
  }
  if (telemetry.memory_clock_mhz() > 0) {
    parts.push_back(absl::StrCat("memory at ", telemetry.memory_clock_mhz(), " MHz"));
  }
  if (telemetry.power_mw() > 0) {
    parts.push_back(fmt::format("{:.0f} W", telemetry.power_mw() / 1e3));
  }
  if (telemetry.temperature_c() > 0) parts.push_back(absl::StrCat(telemetry.temperature_c(), " C"));
  if (parts.empty()) return "";
  parts.push_back(fmt::format("clock event reasons {:#x}", telemetry.throttle_reasons()));
  if (telemetry.compute_processes() > 0) {
    parts.push_back(absl::StrCat(telemetry.compute_processes(), " processes on the device"));
  }
  return absl::StrJoin(parts, ", ");
}

void PrintRecord(const v1::Record& record) {
  const v1::Measurement& measurement = record.measurement();
  std::printf("%-10s%s  on %s (%s)\n", "tuned", ToText(record.problem()).c_str(),
              record.device_name().c_str(), record.target().c_str());
  std::string latency = fmt::format(
      "{}   ({}, {}, {} clock, {} cache)", LatencyText(measurement.latency_ns_median()),
      LatencyIntervalText(measurement, std::nullopt), Counted(measurement.sample_count(), "sample"),
      ToText(measurement.clock()), record.cache_mode() == v1::CACHE_MODE_WARM ? "warm" : "cold");
  if (measurement.bytes_per_second() > 0) {
    absl::StrAppend(&latency, "   ", BandwidthText(measurement.bytes_per_second()));
  }
  if (measurement.flops_per_second() > 0) {
    absl::StrAppend(&latency, "   ", FlopRateText(measurement.flops_per_second()));
  }
  std::printf("%-10s%s\n", "latency", latency.c_str());
  if (record.too_noisy()) {
    std::printf("%-10s%s\n", "noise", TooNoisyText(measurement).c_str());
  }
  for (const v1::Tie& tie : record.ties()) {
    std::printf("%-10s%s   %s\n", "tie", LatencyText(tie.latency_ns_median()).c_str(),
                ToText(tie.config()).c_str());
  }
  const std::string conditions = Conditions(record.telemetry());
  if (!conditions.empty()) std::printf("%-10s%s\n", "while", conditions.c_str());
  const std::string submitter =
      record.submitter().empty() ? "" : absl::StrCat(" of ", record.submitter());
  const std::string origin =
      record.sweep_id() > 0 ? absl::StrCat("sweep ", record.sweep_id()) : "shipped with tunectl";
  std::printf("%-10s%s%s, %s, %s, driver %s, inputs of seed %lu, machine code %s\n", "evidence",
              origin.c_str(), submitter.c_str(), TimeText(record.published_unix_ms()).c_str(),
              record.compiler().c_str(), record.driver().c_str(),
              static_cast<unsigned long>(record.seed()),
              record.resources().binary_sha256().substr(0, 12).c_str());
}

void PrintAnswer(const v1::LookupResponse& response) {
  std::printf("%s\n", Bold(ToText(response.config())).c_str());
  std::printf("%-10s%s\n", "match", ReasonText(response).c_str());
  std::printf("%-10s%s\n", "expected", ExpectationText(response).c_str());
  for (const std::string& launch : LaunchLines(response)) {
    std::printf("%-10s%s\n", "launch", launch.c_str());
  }
  if (response.has_record()) PrintRecord(response.record());
}

// Is it the question that is wrong? Else the miss alone was refused, and the answer is to be had.
bool IsOfTheQuestion(const absl::Status& status) {
  return absl::IsInvalidArgument(status) || absl::IsNotFound(status);
}

// Has the daemon tune the problem in the background, unless that was done.
absl::Status RecordMiss(Connection* connection, const v1::LookupRequest& question) {
  v1::RecordMissesRequest request;
  *request.add_questions() = question;
  const auto response = Call(connection, &v1::RecordService::Stub::RecordMisses, request);
  if (IsOfTheQuestion(response.status())) return response.status();
  if (!response.ok()) {
    std::fprintf(stderr, "%-10snot queued: %s\n", "miss",
                 std::string(response.status().message()).c_str());
    return absl::OkStatus();
  }
  for (const v1::RecordedMiss& miss : response->misses()) {
    const std::string sweep =
        miss.sweep_id() > 0 ? absl::StrCat("sweep ", miss.sweep_id(), ", ") : "";
    std::fprintf(stderr, "%-10s%s%s\n", "miss", sweep.c_str(), miss.note().c_str());
  }
  return absl::OkStatus();
}

// The error of a question. The daemon is asked by a name alone: if it knows none of that name, a
// spec that was given by its path is not tuned yet.
absl::Status AboutSpec(const ProblemFlags& question, const absl::Status& status) {
  const std::optional<v1::ErrorDetail> detail = DetailOf(status);
  const absl::StatusOr<std::string> kernel = OneKernel(question.kernel);
  if (!detail || detail->reason() != v1::ERROR_REASON_NO_SUCH_KERNEL || !kernel.ok() ||
      !IsSpecPath(*kernel) || absl::StrContains(status.message(), "/" + detail->kernel())) {
    return status;  // of a submitter's kernel of that name, too
  }
  return absl::NotFoundError(
      absl::StrCat("no record of ", detail->kernel(), " yet; tune it: tunectl sweep ", *kernel));
}

absl::Status Best(Session& session, const BestFlags& flags) {
  ASSIGN_OR_RETURN(auto request, MakeQuestion<v1::LookupRequest>(session, flags.question));
  ASSIGN_OR_RETURN(Connection* const connection,
                   session.Connect(flags.record_miss ? Need::kAll : Need::kRead));
  if (flags.record_miss) {
    RETURN_IF_ERROR(AboutSpec(flags.question, RecordMiss(connection, request)));
  }
  request.set_require_exact(flags.require_exact);
  const auto response = Call(connection, &v1::RecordService::Stub::Lookup, request);
  if (!response.ok()) return AboutSpec(flags.question, response.status());
  return Print(session, *response, PrintAnswer);
}

struct ExplainFlags {
  ProblemFlags question;
  uint32_t limit = 5;
};

// The fields in which a record differs from the question.
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

void PrintCandidate(const v1::Candidate& candidate) {
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

void PrintExplained(const v1::ExplainResponse& response) {
  const v1::LookupResponse& answer = response.answer();
  std::printf("%s\n", Bold(ToText(answer.config(), {})).c_str());
  std::printf("%-10s%s on %s (%s)\n", "asked", ToText(response.problem()).c_str(),
              response.device_name().empty() ? "this host" : response.device_name().c_str(),
              response.target().c_str());
  std::printf("%-10s%s\n", "match", ReasonText(answer).c_str());
  std::printf("%-10s%s\n", "expected", ExpectationText(answer).c_str());
  for (const std::string& line : NeighbourLines(answer.expectation())) {
    std::printf("    %s\n", line.c_str());
  }
  for (const v1::Candidate& candidate : response.candidates()) PrintCandidate(candidate);
  if (response.candidates().empty()) {
    std::fputs("no record of this kernel yet; try: tunectl sweep\n", stderr);
  }
}

absl::Status Explain(Session& session, const ExplainFlags& flags) {
  v1::ExplainRequest request;
  request.set_most(flags.limit);
  ASSIGN_OR_RETURN(*request.mutable_question(),
                   MakeQuestion<v1::LookupRequest>(session, flags.question));
  const auto response =
      Call(session.Connect(Need::kRead), &v1::RecordService::Stub::Explain, request);
  if (!response.ok()) return AboutSpec(flags.question, response.status());
  return Print(session, *response, PrintExplained);
}

}  // namespace

Command BestCommand(Session& session) {
  const auto flags = std::make_shared<BestFlags>();
  return {
      .name = "best",
      .help = "Print the best known config for a problem, and why it is the answer",
      .examples = {"tunectl best softmax --rows 8192 --cols 4096",
                   "tunectl best attention --seq 4096 --device 'NVIDIA H200' --json"},
      .kernel = &flags->question.kernel,
      .dims = true,
      .json = kJsonHelp,
      .flags = Joined(QuestionFlags(flags->question),
                      {Flag("--require-exact", &flags->require_exact,
                            "Fail unless this very problem was tuned on this device"),
                       Flag("--record-miss", &flags->record_miss,
                            "Have the daemon tune this problem in the background, unless it was "
                            "tuned")}),
      .run = [&session, flags] { return Best(session, *flags); }};
}

Command ExplainCommand(Session& session) {
  const auto flags = std::make_shared<ExplainFlags>();
  return {.name = "explain",
          .help =
              "Compare a problem with the nearest records, field by field: why `tunectl best` "
              "answers as it does",
          .examples = {"tunectl explain softmax --rows 8192 --cols 5000",
                       "tunectl explain attention --seq 4096 --device 'NVIDIA H200' --json"},
          .kernel = &flags->question.kernel,
          .dims = true,
          .json = kJsonHelp,
          .flags = Joined(QuestionFlags(flags->question),
                          {Flag("--at-most", &flags->limit,
                                "Maximum number of records to compare, nearest first")
                               .Range(1, 1000)}),
          .run = [&session, flags] { return Explain(session, *flags); }};
}

}  // namespace tune::client
