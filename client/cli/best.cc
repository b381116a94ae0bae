// SPDX-License-Identifier: Apache-2.0
// tunectl best KERNEL
#include <fmt/format.h>

#include <cstdio>
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

constexpr auto kTimeout = std::chrono::seconds(5);

struct BestFlags {
  std::string kernel;
  std::string kernel_flag;
  std::string dtype;
  std::string device;
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
absl::Status RecordMiss(Connection& connection, const v1::LookupRequest& question) {
  grpc::ClientContext context;
  SetDeadline(context, kTimeout);
  v1::RecordMissesRequest request;
  *request.add_questions() = question;
  v1::RecordMissesResponse response;
  absl::Status status = FromGrpc(connection.records().RecordMisses(&context, request, &response));
  if (IsOfTheQuestion(status)) return status;
  if (!status.ok()) {
    std::fprintf(stderr, "%-10snot queued: %s\n", "miss", std::string(status.message()).c_str());
  }
  for (const v1::RecordedMiss& miss : response.misses()) {
    const std::string sweep =
        miss.sweep_id() > 0 ? absl::StrCat("sweep ", miss.sweep_id(), ", ") : "";
    std::fprintf(stderr, "%-10s%s%s\n", "miss", sweep.c_str(), miss.note().c_str());
  }
  return absl::OkStatus();
}

absl::Status Run(Session& session, const BestFlags& flags) {
  auto kernel = OneKernel(flags.kernel, flags.kernel_flag);
  if (kernel.ok()) kernel = KernelName(*kernel);
  if (!kernel.ok()) return kernel.status();
  auto connection = session.Connect(flags.record_miss ? Need::kAll : Need::kRead);
  if (!connection.ok()) return connection.status();
  v1::LookupRequest request;
  request.set_kernel_name(*kernel);
  request.set_dtype(flags.dtype);
  request.set_device(flags.device);
  auto dims = ParseDims(session.dims);
  if (!dims.ok()) return dims.status();
  request.mutable_dims()->insert(dims->begin(), dims->end());
  if (flags.record_miss) {
    if (absl::Status status = RecordMiss(**connection, request); !status.ok()) return status;
  }
  request.set_require_exact(flags.require_exact);
  grpc::ClientContext context;
  SetDeadline(context, kTimeout);
  v1::LookupResponse response;
  absl::Status status = FromGrpc((*connection)->records().Lookup(&context, request, &response));
  if (!status.ok()) return status;
  if (flags.json) {
    PrintJson(response);
  } else {
    Print(response);
  }
  return absl::OkStatus();
}

}  // namespace

void AddBest(CLI::App& app, Session& session) {
  auto flags = std::make_shared<BestFlags>();
  CLI::App* best = app.add_subcommand(
      "best",
      "The best known config for a problem, and why it is the answer.\nExamples:\n"
      "  tunectl best softmax --rows 8192 --cols 4096\n"
      "  tunectl best attention --seq 4096 --device 'NVIDIA H200' --json");
  const auto help = std::make_shared<KernelHelp>(*best);
  best->add_option("KERNEL", flags->kernel, kKernelHelp);
  best->add_option("--kernel", flags->kernel_flag, kKernelFlagHelp);
  best->add_option("--dtype", flags->dtype, "Data type; by default the spec's first");
  best->add_option("--device", flags->device,
                   "Device name, id or kind (cuda, cpu); by default this host's");
  best->add_flag("--require-exact", flags->require_exact,
                 "Fail unless this very problem was tuned on this device");
  best->add_flag("--record-miss", flags->record_miss,
                 "Have the daemon tune this problem in the background, unless it was tuned");
  best->add_flag("--json", flags->json, "As JSON");
  best->callback([&session, flags, help] {
    const std::string& kernel = flags->kernel.empty() ? flags->kernel_flag : flags->kernel;
    session.Finish(help->asked() ? help->Print(session, kernel) : Run(session, *flags));
  });
}

}  // namespace tune::client
