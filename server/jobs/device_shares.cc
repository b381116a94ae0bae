// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/device_shares.h"

#include <algorithm>

namespace tune::server {

void DeviceShares::Enter(const std::string& device_id, const std::string& owner) {
  Shares& shares = devices_[device_id];
  const absl::Duration least = LeastOf(shares);
  Share& share = shares[owner];
  if (share.jobs++ == 0 && least != absl::InfiniteDuration()) {
    share.had = std::max(share.had, least);
  }
}

void DeviceShares::Leave(const std::string& device_id, const std::string& owner) {
  Shares& shares = devices_[device_id];
  const auto left = shares.find(owner);
  if (left == shares.end() || --left->second.jobs > 0) return;
  const absl::Duration least = LeastOf(shares);
  std::erase_if(shares,
                [&](const auto& one) { return one.second.jobs == 0 && one.second.had <= least; });
}

void DeviceShares::Add(const std::string& device_id, const std::string& owner, absl::Time begin,
                       absl::Time end) {
  Shares& shares = devices_[device_id];
  shares[owner].had += (end - begin) / (IsLight(shares, owner, begin) ? kLightWeight : 1);
  device_time_.Add(owner, begin, end);
}

bool DeviceShares::IsLight(const Shares& shares, const std::string& owner, absl::Time now) const {
  absl::Duration sum;
  absl::Duration load;
  int count = 0;
  for (const auto& [name, share] : shares) {
    if (share.jobs == 0) continue;
    const absl::Duration one = device_time_.Of(name, now) + turn_ * (share.jobs - 1);
    sum += one;
    ++count;
    if (name == owner) load = one;
  }
  return load * count < sum;
}

absl::Duration DeviceShares::Had(const std::string& device_id, const std::string& owner) const {
  const auto device = devices_.find(device_id);
  if (device == devices_.end()) return {};
  const auto share = device->second.find(owner);
  return share == device->second.end() ? absl::ZeroDuration() : share->second.had;
}

absl::Duration DeviceShares::LeastOf(const Shares& shares) {
  absl::Duration least = absl::InfiniteDuration();
  for (const auto& [owner, share] : shares) {
    if (share.jobs > 0) least = std::min(least, share.had);
  }
  return least;
}

}  // namespace tune::server
