// SPDX-License-Identifier: Apache-2.0
// tunectl device list|show|retry
#include <cstdio>
#include <set>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "client/cli/commands.h"
#include "client/cli/waiting_note.h"
#include "client/cli/walls_text.h"
#include "client/connect/rpc.h"
#include "client/report/format.h"
#include "client/report/terminal.h"

namespace tune::client {
namespace {

constexpr auto kTimeout = std::chrono::seconds(30);
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
  auto connection = session.Connect(Need::kRead);
  if (!connection.ok()) return connection.status();
  grpc::ClientContext context;
  SetDeadline(context, kTimeout);
  v1::ListDevicesResponse response;
  absl::Status status = FromGrpc((*connection)->devices().ListDevices(&context, {}, &response));
  if (!status.ok()) return status;
  if (json) {
    PrintJsonList("devices", response.devices());
    return absl::OkStatus();
  }
  PrintTable(response.devices());
  PrintMissingCompilers(response.devices());
  return absl::OkStatus();
}

absl::Status Retry(Session& session, const std::string& id, bool json) {
  auto connection = session.Connect();
  if (!connection.ok()) return connection.status();
  grpc::ClientContext context;
  SetDeadline(context, kRetryTimeout);
  v1::RetryDeviceRequest request;
  request.set_id(id);
  v1::RetryDeviceResponse response;
  const WaitingNote note("waiting for the device");
  absl::Status status =
      FromGrpc((*connection)->devices().RetryDevice(&context, request, &response));
  if (!status.ok()) return status;
  if (json) {
    PrintJson(response);
  } else if (response.devices().empty()) {
    std::fputs("every device can be used\n", stdout);
  } else {
    PrintTable(response.devices());
  }
  for (const v1::Device& device : response.devices()) {
    if (device.state() != v1::DEVICE_STATE_HEALTHY) session.Finish(kFailed);
  }
  return absl::OkStatus();
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
  auto connection = session.Connect(Need::kRead);
  if (!connection.ok()) return connection.status();
  grpc::ClientContext context;
  SetDeadline(context, kTimeout);
  v1::GetDeviceRequest request;
  request.set_id(id);
  v1::Device device;
  absl::Status status = FromGrpc((*connection)->devices().GetDevice(&context, request, &device));
  if (!status.ok()) return status;
  if (json) {
    PrintJson(device);
  } else {
    PrintDevice(device);
  }
  return absl::OkStatus();
}

}  // namespace

void AddDevice(CLI::App& app, Session& session) {
  CLI::App* device = app.add_subcommand("device", "What this host can run kernels on");
  device->require_subcommand(1);
  auto json = std::make_shared<bool>(false);
  auto id = std::make_shared<std::string>();

  CLI::App* list = device->add_subcommand("list", "Devices, and why one cannot be used");
  list->add_flag("--json", *json, "As JSON");
  list->callback([&session, json] { session.Finish(List(session, *json)); });

  CLI::App* show = device->add_subcommand("show", "One device with its measured ceilings");
  show->add_option("ID", *id, "Device id, such as cuda:0 or cpu")->required();
  show->add_flag("--json", *json, "As JSON");
  show->callback([&session, id, json] { session.Finish(Show(session, *id, *json)); });

  CLI::App* retry = device->add_subcommand(
      "retry", "Try at once a device that cannot be used; a daemon also does so by itself");
  retry->add_option("DEVICE", *id, "Device id; by default every one that is not healthy");
  retry->add_flag("--json", *json, "As JSON");
  retry->callback([&session, id, json] {
    const absl::Status status = Retry(session, *id, *json);
    if (!status.ok()) session.Finish(status);
  });
  AddDeviceMeasures(*device, session);
}

}  // namespace tune::client
