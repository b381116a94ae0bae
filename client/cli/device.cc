// SPDX-License-Identifier: Apache-2.0
// tunectl device list|show|retry
#include <cstdio>
#include <set>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "client/cli/call.h"
#include "client/cli/command.h"
#include "client/cli/waiting_note.h"
#include "client/cli/walls_text.h"
#include "client/report/format.h"
#include "client/report/terminal.h"
#include "tune/v1/device.grpc.pb.h"

namespace tune::client {
namespace {

constexpr auto kRetryTimeout = std::chrono::minutes(10);  // waiting for its turn included

std::string StateText(v1::DeviceState state) {
  return absl::AsciiStrToLower(absl::StripPrefix(v1::DeviceState_Name(state), "DEVICE_STATE_"));
}

std::string NoteOf(const v1::Device& device) {
  const bool both = !device.message().empty() && !device.clock_note().empty();
  return absl::StrCat(device.message(), both ? "; " : "", device.clock_note());
}

void PrintTable(const google::protobuf::RepeatedPtrField<v1::Device>& devices) {
  Table table({"id", "state", "target", "name", "note"});
  for (const v1::Device& device : devices) {
    table.Add(
        {device.id(), StateText(device.state()), device.target(), device.name(), NoteOf(device)});
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

absl::Status List(Session& session, bool json) {
  ASSIGN_OR_RETURN(const v1::ListDevicesResponse response,
                   Call(session.Connect(Need::kRead), &v1::DeviceService::Stub::ListDevices, {}));
  if (json) {
    PrintJsonList("devices", response.devices());
    return absl::OkStatus();
  }
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

absl::Status Retry(Session& session, const std::string& id, bool json) {
  ASSIGN_OR_RETURN(Connection* const connection, session.Connect());
  v1::RetryDeviceRequest request;
  request.set_id(id);
  const WaitingNote note("waiting for the device");
  ASSIGN_OR_RETURN(const v1::RetryDeviceResponse response,
                   Call(connection, &v1::DeviceService::Stub::RetryDevice, request, kRetryTimeout));
  for (const v1::Device& device : response.devices()) {
    if (device.state() != v1::DEVICE_STATE_HEALTHY) session.Finish(kFailed);
  }
  return PrintResult(response, json, PrintRetried);
}

void PrintDevice(const v1::Device& device) {
  const std::pair<const char*, std::string> lines[] = {
      {"name", device.name()},
      {"state", StateText(device.state())},
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
    const std::string value = ceiling.unit() == "B/s"  ? BandwidthText(ceiling.value())
                              : ceiling.unit() == "ns" ? LatencyText(ceiling.value())
                                                       : FlopRateText(ceiling.value());
    const std::string stale = ceiling.stale() ? "; stale: " + ceiling.stale_reason() : "";
    std::printf("%-10s%s %s (%s%s)\n", "ceiling", ceiling.name().c_str(), value.c_str(),
                ToText(ceiling.source()).c_str(), stale.c_str());
  }
}

absl::Status Show(Session& session, const std::string& id, bool json) {
  v1::GetDeviceRequest request;
  request.set_id(id);
  ASSIGN_OR_RETURN(const v1::Device device, Call(session.Connect(Need::kRead),
                                                 &v1::DeviceService::Stub::GetDevice, request));
  return PrintResult(device, json, PrintDevice);
}

}  // namespace

Command DeviceCommand(Session& session) {
  const auto json = std::make_shared<bool>(false);
  const auto id = std::make_shared<std::string>();
  const Flag json_flag("--json", json.get(), kJsonHelp);
  return {.name = "device",
          .help = "What this host can run kernels on",
          .verbs = {
              {.name = "list",
               .help = "Devices, and why one cannot be used",
               .flags = {json_flag},
               .run = [&session, json] { return List(session, *json); }},
              {.name = "show",
               .help = "One device with its measured ceilings",
               .flags = {Flag("ID", id.get(), "Device id, such as cuda:0 or cpu").Required(),
                         json_flag},
               .run = [&session, id, json] { return Show(session, *id, *json); }},
              {.name = "retry",
               .help = "Try at once a device that cannot be used; a daemon also does so by itself",
               .flags = {Flag("DEVICE", id.get(),
                              "Device id; by default every one that is not healthy"),
                         json_flag},
               .run = [&session, id, json] { return Retry(session, *id, *json); }}}};
}

}  // namespace tune::client
