// SPDX-License-Identifier: Apache-2.0
// When a ceiling is to be measured again.
#pragma once

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "db/device_store.h"
#include "tuner/device_info.h"

namespace tune::server {

// Why a ceiling should be measured again: its age, another driver, another device of the same name.
// Empty if it need not be.
std::string StaleReason(const db::CeilingRow& row, const DeviceInfo& info, absl::Time now);

// A ceiling as it is seen now.
struct SeenCeiling {
  db::CeilingRow row;
  std::string stale_reason;  // empty: it is fresh

  bool stale() const { return !stale_reason.empty(); }
};
std::vector<SeenCeiling> Seen(std::vector<db::CeilingRow> rows, const DeviceInfo& info,
                              absl::Time now);

}  // namespace tune::server
