// SPDX-License-Identifier: Apache-2.0
// tunectl best KERNEL
#include <fmt/format.h>

#include <cstdio>
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

struct BestFlags {
  QuestionFlags question;
  bool require_exact = false;
  bool record_miss = false;
  bool json = false;
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
      "{}   (its rounds are at {} to {}, {} samples, {} clock, {} cache)",
      LatencyText(measurement.latency_ns_median()), LatencyText(measurement.latency_ns_low()),
      LatencyText(measurement.latency_ns_high()), measurement.sample_count(),
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

void Print(const v1::LookupResponse& response) {
  std::printf("%s\n", Bold(ToText(response.config())).c_str());
  std::printf("%-10s%s\n", "match", ReasonText(response).c_str());
  std::printf("%-10s%s\n", "expected", ToText(response.expectation()).c_str());
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

absl::Status Run(Session& session, const BestFlags& flags) {
  ASSIGN_OR_RETURN(auto request, MakeQuestion<v1::LookupRequest>(session, flags.question));
  ASSIGN_OR_RETURN(Connection* const connection,
                   session.Connect(flags.record_miss ? Need::kAll : Need::kRead));
  if (flags.record_miss) RETURN_IF_ERROR(RecordMiss(connection, request));
  request.set_require_exact(flags.require_exact);
  ASSIGN_OR_RETURN(const v1::LookupResponse response,
                   Call(connection, &v1::RecordService::Stub::Lookup, request));
  return PrintResult(response, flags.json, Print);
}

}  // namespace

Command BestCommand(Session& session) {
  const auto flags = std::make_shared<BestFlags>();
  return {
      .name = "best",
      .help =
          "The best known config for a problem, and why it is the answer.\nExamples:\n"
          "  tunectl best softmax --rows 8192 --cols 4096\n"
          "  tunectl best attention --seq 4096 --device 'NVIDIA H200' --json",
      .kernel = &flags->question.kernel,
      .kernel_help = true,
      .flags = {Flag("--dtype", &flags->question.dtype, kDtypeHelp),
                Flag("--device", &flags->question.device, kQuestionDeviceHelp),
                Flag("--require-exact", &flags->require_exact,
                     "Fail unless this very problem was tuned on this device"),
                Flag("--record-miss", &flags->record_miss,
                     "Have the daemon tune this problem in the background, unless it was tuned"),
                Flag("--json", &flags->json, kJsonHelp)},
      .run = [&session, flags] { return Run(session, *flags); }};
}

}  // namespace tune::client
