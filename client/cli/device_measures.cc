// SPDX-License-Identifier: Apache-2.0
// tunectl device ceilings|calibrate
#include <fmt/format.h>

#include <cstdio>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "client/cli/call.h"
#include "client/cli/commands.h"
#include "client/cli/job_follow.h"
#include "client/report/format.h"
#include "client/report/terminal.h"
#include "tune/v1/device.grpc.pb.h"
#include "tune/v1/profile.grpc.pb.h"

namespace tune::client {
namespace {

struct CeilingFlags {
  std::string device;
  bool remeasure = false;
  uint32_t processes = 0;
  bool detach = false;
  bool json = false;
};

template <typename Method, typename Request>
absl::StatusOr<v1::Job> Submit(const CeilingFlags& flags, Connection* connection, Method submit,
                               const Request& request) {
  if (flags.detach) RETURN_IF_ERROR(CheckDetach(*connection));
  return Call(connection, submit, request);
}

std::string ValueText(const v1::Ceiling& ceiling, double value) {
  if (ceiling.unit() == "ns") return LatencyText(value);
  if (ceiling.unit() == "B/s") return BandwidthText(value);
  return FlopRateText(value);
}

void PrintCeilings(const v1::Device& device) {
  Table table({"ceiling", "value", "interval", "of theory", "processes", "SM MHz", "W",
               "reached by", "measured", "note"});
  for (const v1::Ceiling& ceiling : device.ceilings()) {
    const double theory = ceiling.theoretical();
    std::string note = ceiling.note();
    if (ceiling.stale()) note = absl::StrCat("stale: ", ceiling.stale_reason());
    table.Add({ceiling.name(), ValueText(ceiling, ceiling.value()),
               ceiling.low() > 0 ? absl::StrCat(ValueText(ceiling, ceiling.low()), " .. ",
                                                ValueText(ceiling, ceiling.high()))
                                 : "-",
               theory > 0 ? PercentText(ceiling.value() / theory) : "-",
               absl::StrCat(ceiling.process_count()),
               absl::StrCat(ceiling.telemetry().sm_clock_mhz()),
               absl::StrCat(ceiling.telemetry().power_mw() / 1000), ceiling.probe(),
               TimeText(ceiling.measured_unix_ms()), note});
  }
  std::printf("%s  %s, driver %s\n%s", Bold(device.id()).c_str(), device.name().c_str(),
              device.driver().c_str(), table.Text().c_str());
}

absl::Status MeasureCeilings(Session& session, const CeilingFlags& flags) {
  ASSIGN_OR_RETURN(Connection* const connection, session.Connect());
  v1::SubmitCeilingsRequest request;
  request.set_device(flags.device);
  request.set_remeasure(flags.remeasure);
  request.set_processes(flags.processes);
  ASSIGN_OR_RETURN(const v1::Job job, Submit(flags, connection,
                                             &v1::DeviceService::Stub::SubmitCeilings, request));
  if (flags.detach) return PrintDetached(job, flags.json);
  v1::Device device;
  RETURN_IF_ERROR(AwaitJob(*connection, job, [&](const v1::JobEvent& event) {
    ForEachResult<v1::Device>(event, [&](const v1::Device& measured) { device = measured; });
  }));
  if (flags.json) {
    PrintJson(device);
  } else {
    PrintCeilings(device);
  }
  return absl::OkStatus();
}

void PrintCalibration(const v1::Calibration& calibration) {
  Table table({"kernel", "counter", "known", "counted", "multiplier", "verdict"});
  for (const v1::CalibrationEntry& entry : calibration.entries()) {
    table.Add({entry.name(), entry.counter(), fmt::format("{:.10g}", entry.expected()),
               fmt::format("{:.10g}", entry.counted()), fmt::format("{:.6g}", entry.multiplier()),
               entry.passed() ? (entry.tolerance() > 0 ? "close" : "exact") : entry.message()});
  }
  std::printf("%s  chip %s, driver %s\n%s", Bold(calibration.device_name()).c_str(),
              calibration.chip().c_str(), calibration.driver().c_str(), table.Text().c_str());
}

absl::Status Calibrate(Session& session, const CeilingFlags& flags) {
  ASSIGN_OR_RETURN(Connection* const connection, session.Connect());
  v1::SubmitCalibrationRequest request;
  request.set_device(flags.device);
  ASSIGN_OR_RETURN(
      const v1::Job job,
      Submit(flags, connection, &v1::ProfileService::Stub::SubmitCalibration, request));
  if (flags.detach) return PrintDetached(job, flags.json);
  const auto print = [&](const v1::Calibration& calibration) {
    if (flags.json) {
      PrintJson(calibration);
    } else {
      PrintCalibration(calibration);
    }
  };
  return AwaitJob(*connection, job,
                  [&](const v1::JobEvent& event) { ForEachResult<v1::Calibration>(event, print); });
}

}  // namespace

void AddDeviceMeasures(CLI::App& device, Session& session) {
  auto flags = std::make_shared<CeilingFlags>();
  CLI::App* ceilings = device.add_subcommand(
      "ceilings",
      "Measures every limit of a device, once per driver: memory, caches, arithmetic, "
      "links, launches");
  ceilings->add_option("DEVICE", flags->device,
                       "Device id; by default the first GPU, else the CPU");
  ceilings->add_flag("--remeasure", flags->remeasure, "Also what is known and fresh");
  ceilings->add_option("--processes", flags->processes, "Fresh processes; by default 5")
      ->check(CLI::Range(1, 20));
  ceilings->add_flag("--detach", flags->detach, kDetachHelp);
  ceilings->add_flag("--json", flags->json, "As JSON");
  ceilings->callback([&session, flags] { session.Finish(MeasureCeilings(session, *flags)); });

  CLI::App* calibrate = device.add_subcommand(
      "calibrate", "Holds the hardware counters against kernels whose counts are known");
  calibrate->add_option("DEVICE", flags->device, "Device id; by default the first GPU");
  calibrate->add_flag("--detach", flags->detach, kDetachHelp);
  calibrate->add_flag("--json", flags->json, "As JSON");
  calibrate->callback([&session, flags] { session.Finish(Calibrate(session, *flags)); });
}

}  // namespace tune::client
