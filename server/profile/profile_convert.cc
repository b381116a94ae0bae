// SPDX-License-Identifier: Apache-2.0
#include "server/profile/profile_convert.h"

#include "absl/strings/str_cat.h"
#include "server/wire/nouns.h"

namespace tune::server {

v1::Profile ToProto(const db::ProfileRow& row) {
  auto proto = Encoded<v1::Profile>(row.profile, {"work", "quantities"});
  if (!WasTimed(row.profile)) proto.clear_measurement();
  Encode(row.key, proto, {"cache_mode", "include_digest"});
  Encode(FiguresOf(row.profile), proto);
  proto.set_kernel_name(row.kernel_name);
  return proto;
}

absl::StatusOr<MetricSet> FromProto(v1::MetricSet set) {
  if (set == v1::METRIC_SET_UNSPECIFIED) return MetricSet::kDefault;
  if (v1::MetricSet_IsValid(set)) return static_cast<MetricSet>(set);
  return absl::InvalidArgumentError(absl::StrCat("no metric set ", static_cast<int>(set)));
}

}  // namespace tune::server
