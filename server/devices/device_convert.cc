// SPDX-License-Identifier: Apache-2.0
#include "server/devices/device_convert.h"

#include "server/wire/nouns.h"

namespace tune::server {

v1::Ceiling ToProto(const SeenCeiling& seen) {
  auto proto = Encoded<v1::Ceiling>(seen.row.ceiling);
  Encode(seen.row, proto, {"device_name", "ceiling", "process_values"});
  proto.set_unit(UnitOf(seen.row.ceiling));
  proto.set_stale_reason(seen.stale_reason);
  proto.set_stale(seen.stale());
  return proto;
}

v1::Device ToProto(const DeviceView& view) {
  auto proto = Encoded<v1::Device>(view.status.info);
  proto.set_id(view.status.id);
  proto.set_state(static_cast<v1::DeviceState>(view.status.state));
  proto.set_message(Utf8(view.status.message));
  proto.set_compiler(view.compilers);
  for (const LanguageCompiler& compiler : view.languages) {
    v1::DeviceCompiler* added = proto.add_compilers();
    added->set_language(ToText(compiler.language));
    if (compiler.info.ok()) added->set_version(compiler.info->version);
    added->set_message(Utf8(std::string(compiler.info.status().message())));
  }
  for (const SeenCeiling& seen : view.ceilings) *proto.add_ceilings() = ToProto(seen);
  proto.set_worker_restarts(view.status.worker_restarts);
  proto.mutable_walls()->Assign(view.walls.begin(), view.walls.end());
  if (view.next_try != absl::InfiniteFuture()) {
    proto.set_next_try_unix_ms(absl::ToUnixMillis(view.next_try));
  }
  return proto;
}

}  // namespace tune::server
