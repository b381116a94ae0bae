// SPDX-License-Identifier: Apache-2.0
// tunectl record list
#include <cstdio>
#include <memory>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "client/cli/call.h"
#include "client/cli/command.h"
#include "client/report/format.h"
#include "tune/v1/record.grpc.pb.h"

namespace tune::client {
namespace {

struct ListFlags {
  std::string kernel;
  std::string device;
  bool own = false;
};

bool IsShipped(const v1::Record& record) { return record.id() == 0; }

absl::StatusOr<v1::ListRecordsResponse> Find(Connection* connection, const ListFlags& flags) {
  v1::ListRecordsRequest request;
  request.set_kernel_name(flags.kernel);
  v1::ListRecordsResponse chosen;
  v1::ListRecordsResponse page;
  do {
    ASSIGN_OR_RETURN(page, Call(connection, &v1::RecordService::Stub::ListRecords, request));
    request.set_first(request.first() + static_cast<uint32_t>(page.records_size()));
    for (v1::Record& record : *page.mutable_records()) {
      const bool of_device = flags.device.empty() || record.device_name() == flags.device;
      if (of_device && !(flags.own && IsShipped(record))) {
        *chosen.add_records() = std::move(record);
      }
    }
  } while (page.left() > 0 && page.records_size() > 0);
  return chosen;
}

absl::Status ListRecords(Session& session, const ListFlags& flags) {
  ASSIGN_OR_RETURN(Connection* const connection, session.Connect(Need::kRead));
  ASSIGN_OR_RETURN(const v1::ListRecordsResponse chosen, Find(connection, flags));
  const auto row = [](const v1::Record& record) -> Cells {
    return {IsShipped(record) ? "shipped" : absl::StrCat(record.id()),
            record.kernel_name(),
            ToText(record.problem()),
            record.device_name(),
            LatencyText(record.measurement().latency_ns_median()),
            ToText(record.config(), {}),
            TimeText(record.published_unix_ms())};
  };
  return PrintList(session, "records", chosen.records(),
                   {"record", "kernel", "problem", "device", "latency", "config", "published"},
                   row);
}

}  // namespace

Command RecordCommand(Session& session) {
  const auto flags = std::make_shared<ListFlags>();
  return {
      .name = "record",
      .help = "The best known config of each workload: the daemon's own records and shipped ones",
      .verbs = {
          {.name = "list",
           .help = "List all records, newest first",
           .examples = {"tunectl record list softmax",
                        "tunectl record list --own-only --device 'NVIDIA H200' --json"},
           .json = kJsonHelp,
           .flags = {Flag("KERNEL", &flags->kernel, "Only records of this kernel"),
                     Flag("--device", &flags->device, "Only records of this device, by its name"),
                     Flag("--own-only", &flags->own, "Leave out the records shipped with tunectl")},
           .run = [&session, flags] { return ListRecords(session, *flags); }}}};
}

}  // namespace tune::client
