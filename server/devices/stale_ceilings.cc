// SPDX-License-Identifier: Apache-2.0
#include "server/devices/stale_ceilings.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace tune::server {
namespace {

constexpr absl::Duration kFresh = absl::Hours(24 * 30);

}  // namespace

std::string StaleReason(const db::CeilingRow& row, const DeviceInfo& info, absl::Time now) {
  if (!info.driver.empty() && row.driver != info.driver) {
    return absl::StrCat("measured with driver ", row.driver, ", and it is ", info.driver, " now");
  }
  if (!row.uuid.empty() && !info.uuid.empty() && row.uuid != info.uuid) {
    return absl::StrCat("measured on ", row.uuid, ", and this is ", info.uuid);
  }
  const absl::Duration age = now - absl::FromUnixMillis(row.measured_unix_ms);
  if (age < -absl::Hours(1)) return "measured in the future: the clock was set back since";
  if (age <= kFresh) return "";
  return absl::StrCat("measured ", absl::ToInt64Hours(age) / 24, " days ago");
}

std::vector<SeenCeiling> Seen(std::vector<db::CeilingRow> rows, const DeviceInfo& info,
                              absl::Time now) {
  std::vector<SeenCeiling> seen;
  for (db::CeilingRow& row : rows) {
    std::string stale_reason = StaleReason(row, info, now);
    seen.push_back({std::move(row), std::move(stale_reason)});
  }
  return seen;
}

}  // namespace tune::server
