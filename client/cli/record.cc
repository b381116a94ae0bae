// SPDX-License-Identifier: Apache-2.0
// tunectl record list
#include <cstdio>
#include <memory>

#include "absl/strings/str_cat.h"
#include "client/cli/commands.h"
#include "client/connect/rpc.h"
#include "client/report/format.h"
#include "client/report/terminal.h"

namespace tune::client {
namespace {

constexpr auto kTimeout = std::chrono::seconds(60);

struct ListFlags {
  std::string kernel;
  std::string device;
  bool own = false;
  bool json = false;
};

bool IsShipped(const v1::Record& record) { return record.id() == 0; }

void Print(const v1::ListRecordsResponse& response) {
  Table table({"record", "kernel", "problem", "device", "latency", "config", "published"});
  for (const v1::Record& record : response.records()) {
    table.Add({IsShipped(record) ? "shipped" : absl::StrCat(record.id()), record.kernel_name(),
               ToText(record.problem()), record.device_name(),
               LatencyText(record.measurement().latency_ns_median()), ToText(record.config(), {}),
               TimeText(record.published_unix_ms())});
  }
  std::fputs(table.Text().c_str(), stdout);
}

absl::Status List(Session& session, const ListFlags& flags) {
  auto connection = session.Connect(Need::kRead);
  if (!connection.ok()) return connection.status();
  v1::ListRecordsRequest request;
  request.set_kernel_name(flags.kernel);
  v1::ListRecordsResponse chosen;
  v1::ListRecordsResponse page;
  do {
    grpc::ClientContext context;
    SetDeadline(context, kTimeout);
    page.Clear();
    absl::Status status = FromGrpc((*connection)->records().ListRecords(&context, request, &page));
    if (!status.ok()) return status;
    request.set_first(request.first() + static_cast<uint32_t>(page.records_size()));
    for (v1::Record& record : *page.mutable_records()) {
      const bool of_device = flags.device.empty() || record.device_name() == flags.device;
      if (of_device && !(flags.own && IsShipped(record))) {
        *chosen.add_records() = std::move(record);
      }
    }
  } while (page.left() > 0 && page.records_size() > 0);
  if (flags.json) {
    PrintJsonList("records", chosen.records());
  } else {
    Print(chosen);
  }
  return absl::OkStatus();
}

}  // namespace

void AddRecord(CLI::App& app, Session& session) {
  CLI::App* record = app.add_subcommand(
      "record",
      "The best known config of each workload: the daemon's own, and those that came with it");
  record->require_subcommand(1);
  auto flags = std::make_shared<ListFlags>();
  CLI::App* list =
      record->add_subcommand("list",
                             "All records, newest first.\nExamples:\n"
                             "  tunectl record list softmax\n"
                             "  tunectl record list --own-only --device 'NVIDIA H200' --json");
  list->add_option("KERNEL", flags->kernel, "Of this kernel only");
  list->add_option("--device", flags->device, "Of this device only, by its name");
  list->add_flag("--own-only", flags->own, "Without those that came with tunectl");
  list->add_flag("--json", flags->json, "As JSON");
  list->callback([&session, flags] { session.Finish(List(session, *flags)); });
}

}  // namespace tune::client
