// SPDX-License-Identifier: Apache-2.0
// tunectl device list|show|retry|ceilings|calibrate
#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "client/cli/call.h"
#include "client/cli/command.h"
#include "client/cli/job_follow.h"
#include "client/cli/waiting_note.h"
#include "client/cli/walls_text.h"
#include "client/report/format.h"
#include "client/report/terminal.h"
#include "tune/v1/device.grpc.pb.h"
#include "tune/v1/profile.grpc.pb.h"

namespace tune::client {
namespace {

constexpr auto kRetryTimeout = std::chrono::minutes(10);  // waiting for its turn included

std::string NoteOf(const v1::Device& device) {
  const bool both = !device.message().empty() && !device.clock_note().empty();
  return absl::StrCat(device.message(), both ? "; " : "", device.clock_note());
}

void PrintTable(const google::protobuf::RepeatedPtrField<v1::Device>& devices) {
  Table table({"id", "state", "target", "name", "note"});
  for (const v1::Device& device : devices) {
    table.Add(
        {device.id(), ToText(device.state()), device.target(), device.name(), NoteOf(device)});
  }
  std::fputs(table.Text().c_str(), stdout);
}

// Languages that nothing here compiles, once each, under the table.
void PrintMissingCompilers(const google::protobuf::RepeatedPtrField<v1::Device>& devices) {
  std::set<std::string> told;
  for (const v1::Device& device : devices) {
    for (const v1::DeviceCompiler& compiler : device.compilers()) {
      if (compiler.message().empty() || !told.insert(compiler.message()).second) continue;
      std::printf("no kernels in %s: %s\n", compiler.language().c_str(),
                  compiler.message().c_str());
    }
  }
}

absl::Status ListDevices(Session& session) {
  ASSIGN_OR_RETURN(const v1::ListDevicesResponse response,
                   Call(session.Connect(Need::kRead), &v1::DeviceService::Stub::ListDevices, {}));
  if (session.json) return PrintJsonList("devices", response.devices());
  PrintTable(response.devices());
  PrintMissingCompilers(response.devices());
  return absl::OkStatus();
}

void PrintRetried(const v1::RetryDeviceResponse& response) {
  if (response.devices().empty()) {
    std::fputs("every device can be used\n", stdout);
  } else {
    PrintTable(response.devices());
  }
}

absl::Status Retry(Session& session, const std::string& id) {
  ASSIGN_OR_RETURN(Connection* const connection, session.Connect());
  v1::RetryDeviceRequest request;
  request.set_id(id);
  const WaitingNote note("waiting for the device");
  ASSIGN_OR_RETURN(const v1::RetryDeviceResponse response,
                   Call(connection, &v1::DeviceService::Stub::RetryDevice, request, kRetryTimeout));
  for (const v1::Device& device : response.devices()) {
    if (device.state() != v1::DEVICE_STATE_HEALTHY) session.Finish(kFailed);
  }
  return Print(session, response, PrintRetried);
}

std::string ValueText(const v1::Ceiling& ceiling, double value) {
  if (ceiling.unit() == "ns") return LatencyText(value);
  if (ceiling.unit() == "B/s") return BandwidthText(value);
  return FlopRateText(value);
}

void PrintDevice(const v1::Device& device) {
  const std::pair<const char*, std::string> lines[] = {
      {"name", device.name()},
      {"state", ToText(device.state())},
      {"note", NoteOf(device)},
      {"target", device.target()},
      {"units", device.sm_count() ? absl::StrCat(device.sm_count()) : ""},
      {"memory", device.memory_bytes() ? BytesText(device.memory_bytes()) : ""},
      {"cache", device.l2_bytes() ? BytesText(device.l2_bytes()) : ""},
      {"shared",
       device.max_shared_bytes() ? BytesText(device.max_shared_bytes()) + " a block" : ""},
      {"uuid", device.uuid()},
      {"driver", device.driver()},
      {"compiler", device.compiler()},
      {"clock", device.clock() != v1::CLOCK_UNSPECIFIED ? ToText(device.clock()) : ""},
      {"restarts", absl::StrCat(device.worker_restarts())}};
  std::printf("%s\n", Bold(device.id()).c_str());
  for (const auto& [title, value] : lines) {
    if (!value.empty()) std::printf("%-10s%s\n", title, value.c_str());
  }
  for (const v1::DeviceCompiler& compiler : device.compilers()) {
    std::printf("%-10s%s: %s\n", "language", compiler.language().c_str(),
                (compiler.version().empty() ? compiler.message() : compiler.version()).c_str());
  }
  for (const v1::WorkerWalls& walls : device.walls()) {
    std::printf("%-10s%s\n", "walls", WallsText(walls).c_str());
  }
  for (const v1::Ceiling& ceiling : device.ceilings()) {
    const std::string stale = ceiling.stale() ? "; stale: " + ceiling.stale_reason() : "";
    std::printf("%-10s%s %s (%s%s)\n", "ceiling", ceiling.name().c_str(),
                ValueText(ceiling, ceiling.value()).c_str(), ToText(ceiling.source()).c_str(),
                stale.c_str());
  }
}

absl::Status Show(Session& session, const std::string& id) {
  v1::GetDeviceRequest request;
  request.set_id(id);
  ASSIGN_OR_RETURN(const v1::Device device, Call(session.Connect(Need::kRead),
                                                 &v1::DeviceService::Stub::GetDevice, request));
  return Print(session, device, PrintDevice);
}

struct MeasureFlags {
  std::string device;
  bool remeasure = false;
  uint32_t processes = 0;
  bool detach = false;
};

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

absl::Status MeasureCeilings(Session& session, const MeasureFlags& flags) {
  v1::SubmitCeilingsRequest request;
  request.set_device(flags.device);
  request.set_remeasure(flags.remeasure);
  request.set_processes(flags.processes);
  v1::Device device;
  RETURN_IF_ERROR(RunJob<v1::Device>(session, flags.detach,
                                     &v1::DeviceService::Stub::SubmitCeilings, request,
                                     [&](const v1::Device& measured) { device = measured; }));
  return flags.detach ? absl::OkStatus() : Print(session, device, PrintCeilings);
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

absl::Status Calibrate(Session& session, const MeasureFlags& flags) {
  v1::SubmitCalibrationRequest request;
  request.set_device(flags.device);
  return RunJob<v1::Calibration>(
      session, flags.detach, &v1::ProfileService::Stub::SubmitCalibration, request,
      [&](const v1::Calibration& done) { (void)Print(session, done, PrintCalibration); });
}

std::vector<Command> MeasureVerbs(Session& session) {
  auto flags = std::make_shared<MeasureFlags>();
  const Flag detach("--detach", &flags->detach, kDetachHelp);
  return {
      {.name = "ceilings",
       .help = "Measure every limit of a device, once per driver: memory, caches, arithmetic, "
               "links, launches",
       .json = kJsonHelp,
       .flags =
           {Flag("DEVICE", &flags->device, "Device id; by default the first GPU, else the CPU"),
            Flag("--remeasure", &flags->remeasure, "Measure fresh ceilings again, too"),
            Flag("--processes", &flags->processes, "Fresh processes; by default 5").Range(1, 20),
            detach},
       .run = [&session, flags] { return MeasureCeilings(session, *flags); }},
      {.name = "calibrate",
       .help = "Check the hardware counters against kernels of known counts",
       .json = kJsonHelp,
       .flags = {Flag("DEVICE", &flags->device, "Device id; by default the first GPU"), detach},
       .run = [&session, flags] { return Calibrate(session, *flags); }}};
}

}  // namespace

Command DeviceCommand(Session& session) {
  const auto id = std::make_shared<std::string>();
  Command device = {
      .name = "device",
      .help = "Devices that this host can run kernels on",
      .verbs = {
          {.name = "list",
           .help = "List devices, and why one cannot be used",
           .json = kJsonHelp,
           .run = [&session] { return ListDevices(session); }},
          {.name = "show",
           .help = "Show one device with its measured ceilings",
           .json = kJsonHelp,
           .flags = {Flag("ID", id.get(), "Device id, such as cuda:0 or cpu").Required()},
           .run = [&session, id] { return Show(session, *id); }},
          {.name = "retry",
           .help =
               "Try a device that cannot be used again at once; a daemon also does so by itself",
           .json = kJsonHelp,
           .flags = {Flag("DEVICE", id.get(),
                          "Device id; by default every device that is not healthy")},
           .run = [&session, id] { return Retry(session, *id); }}}};
  for (Command& measure : MeasureVerbs(session)) device.verbs.push_back(std::move(measure));
  return device;
}

}  // namespace tune::client
