// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/device_time.h"

#include <algorithm>

namespace tune::server {
namespace {

int64_t HourOf(absl::Time time) { return absl::ToUnixSeconds(time) / 3600; }
absl::Time Begin(int64_t hour) { return absl::FromUnixSeconds(hour * 3600); }

}  // namespace

void DeviceTime::Add(const std::string& owner, absl::Time begin, absl::Time end) {
  const int64_t last = HourOf(end);
  const int64_t first = std::max(HourOf(begin), last - kHours + 1);
  MutexLock lock(mutex_);
  for (auto& [name, hours] : owners_) {
    std::erase_if(hours, [&](const auto& hour) { return hour.first <= last - kHours; });
  }
  std::erase_if(owners_, [](const auto& one) { return one.second.empty(); });
  for (int64_t hour = first; hour <= last; ++hour) {
    const absl::Duration part = std::min(end, Begin(hour + 1)) - std::max(begin, Begin(hour));
    if (part > absl::ZeroDuration()) owners_[owner][hour] += part;
  }
}

absl::Duration DeviceTime::Of(const std::string& owner, absl::Time now) const {
  const int64_t oldest = HourOf(now) - kHours + 1;
  MutexLock lock(mutex_);
  absl::Duration sum;
  const auto found = owners_.find(owner);
  if (found == owners_.end()) return sum;
  for (const auto& [hour, part] : found->second) {
    if (hour >= oldest) sum += part;
  }
  return sum;
}

std::vector<std::string> DeviceTime::Owners(absl::Time now) const {
  std::vector<std::string> owners;
  MutexLock lock(mutex_);
  for (const auto& [owner, hours] : owners_) {
    if (!hours.empty() && hours.rbegin()->first > HourOf(now) - kHours) owners.push_back(owner);
  }
  return owners;
}

}  // namespace tune::server
