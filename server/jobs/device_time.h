// SPDX-License-Identifier: Apache-2.0
// The time that the jobs of each owner have had a device within a day, for quotas. All times are
// those of SteadyNow(), so that setting the clock changes no quota.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "base/mutex.h"

namespace tune::server {

// Thread-safe.
class DeviceTime {
 public:
  // Hours that count: the one that goes on, and those before it.
  static constexpr int kHours = 24;

  void Add(const std::string& owner, absl::Time begin, absl::Time end);
  absl::Duration Of(const std::string& owner, absl::Time now) const;
  // The owners that have had a device within the day.
  std::vector<std::string> Owners(absl::Time now) const;

 private:
  using Hours = std::map<int64_t, absl::Duration>;  // by their number since 1970

  mutable Mutex mutex_;
  std::map<std::string, Hours> owners_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tune::server
