// SPDX-License-Identifier: Apache-2.0
#include "server/devices/device_convert.h"

#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/devices/stale_ceilings.h"
#include "server/wire/nouns.h"

namespace tune::server {

std::string UnitOf(const Ceiling& ceiling) {
  switch (ceiling.kind) {
    case CeilingKind::kLaunch:
      return "ns";
    case CeilingKind::kVector:
    case CeilingKind::kTensor:
      return absl::StrContains(ceiling.name, "_i8") ? "OP/s" : "FLOP/s";
    case CeilingKind::kUnknown:
      return absl::StartsWith(ceiling.name, "dram") ? "B/s" : "FLOP/s";
    default:
      return "B/s";
  }
}

v1::Ceiling ToProto(const db::CeilingRow& row, const DeviceInfo& info, absl::Time now) {
  const Ceiling& ceiling = row.ceiling;
  v1::Ceiling proto;
  proto.set_name(ceiling.name);
  proto.set_value(ceiling.value);
  proto.set_source(ceiling.measured ? "measured" : "nominal");
  proto.set_measured_unix_ms(row.measured_unix_ms);
  proto.set_low(ceiling.low);
  proto.set_high(ceiling.high);
  proto.set_unit(UnitOf(ceiling));
  proto.set_kind(static_cast<v1::CeilingKind>(ceiling.kind));
  proto.set_policy(static_cast<v1::CeilingPolicy>(ceiling.policy));
  proto.set_process_count(ceiling.process_count);
  proto.set_probe(ceiling.probe);
  *proto.mutable_telemetry() = ToProto(ceiling.telemetry);
  proto.set_theoretical(ceiling.theoretical);
  proto.set_stale_reason(StaleReason(row, info, now));
  proto.set_stale(!proto.stale_reason().empty());
  proto.set_driver(row.driver);
  proto.set_uuid(row.uuid);
  proto.set_note(ceiling.note);
  return proto;
}

v1::Device ToProto(const DeviceView& view) {
  const DeviceInfo& info = view.status.info;
  v1::Device proto;
  proto.set_id(view.status.id);
  proto.set_name(info.name);
  proto.set_target(info.target);
  proto.set_state(static_cast<v1::DeviceState>(view.status.state));
  std::vector<std::string> notes;
  for (const std::string& note : {view.status.message, info.clock_note}) {
    if (!note.empty()) notes.push_back(Utf8(note));
  }
  proto.set_message(absl::StrJoin(notes, "; "));
  proto.set_sm_count(info.sm_count);
  proto.set_memory_bytes(info.memory_bytes);
  proto.set_l2_bytes(info.l2_bytes);
  proto.set_max_shared_bytes(info.max_shared_bytes);
  proto.set_uuid(info.uuid);
  proto.set_driver(info.driver);
  proto.set_compiler(view.compiler);
  if (!info.name.empty()) proto.set_clock(ToText(info.clock));
  const absl::Time now = absl::Now();
  for (const db::CeilingRow& row : view.ceilings) *proto.add_ceilings() = ToProto(row, info, now);
  proto.set_worker_restarts(view.status.worker_restarts);
  proto.mutable_walls()->Assign(view.walls.begin(), view.walls.end());
  if (view.next_try != absl::InfiniteFuture()) {
    proto.set_next_try_unix_ms(absl::ToUnixMillis(view.next_try));
  }
  return proto;
}

}  // namespace tune::server
