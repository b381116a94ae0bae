// SPDX-License-Identifier: Apache-2.0
#include "server/devices/device_turns.h"

#include "absl/strings/str_cat.h"

namespace tune::server {
absl::StatusOr<DeviceTurns::Turn> DeviceTurns::Take(const std::string& device_id,
                                                    const std::string& who,
                                                    const Cancelled& cancelled,
                                                    const TellHolder& tell) {
  MutexLock lock(mutex_);
  const uint64_t ticket = next_ticket_++;
  std::deque<Place>& line = waiting_[device_id];
  line.push_back({ticket, who});
  std::optional<uint64_t> told;
  while (line.front().ticket != ticket) {
    if (tell && told != line.front().ticket) {
      told = line.front().ticket;
      const std::string holder = line.front().who;
      lock.Unlock();
      tell(holder);
      lock.Lock();
      continue;
    }
    changed_.wait_for(lock.native(), kCancelPollPeriod);
    if (line.front().ticket != ticket && cancelled && cancelled()) {
      Remove(line, ticket);
      return absl::CancelledError(absl::StrCat("cancelled while waiting for device ", device_id));
    }
  }
  return Turn(this, device_id, ticket);
}

std::optional<DeviceTurns::Turn> DeviceTurns::TryTake(const std::string& device_id,
                                                      const std::string& who) {
  MutexLock lock(mutex_);
  std::deque<Place>& line = waiting_[device_id];
  if (!line.empty()) return std::nullopt;
  const uint64_t ticket = next_ticket_++;
  line.push_back({ticket, who});
  return Turn(this, device_id, ticket);
}

void DeviceTurns::Leave(const std::string& device_id, uint64_t ticket) {
  MutexLock lock(mutex_);
  Remove(waiting_[device_id], ticket);
  changed_.notify_all();
}

void DeviceTurns::Remove(std::deque<Place>& line, uint64_t ticket) {
  std::erase_if(line, [&](const Place& place) { return place.ticket == ticket; });
}

}  // namespace tune::server
