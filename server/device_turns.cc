// SPDX-License-Identifier: Apache-2.0
#include "server/device_turns.h"

#include <chrono>

#include "absl/strings/str_cat.h"

namespace tune::server {
namespace {

constexpr std::chrono::milliseconds kPatience(20);

}  // namespace

absl::StatusOr<DeviceTurns::Turn> DeviceTurns::Take(const std::string& device_id,
                                                    const Cancelled& cancelled) {
  std::unique_lock lock(mutex_);
  const uint64_t ticket = next_ticket_++;
  std::deque<uint64_t>& line = waiting_[device_id];
  line.push_back(ticket);
  while (!changed_.wait_for(lock, kPatience, [&] { return line.front() == ticket; })) {
    if (cancelled && cancelled()) {
      std::erase(line, ticket);
      return absl::CancelledError(absl::StrCat("cancelled while waiting for device ", device_id));
    }
  }
  return Turn(this, device_id, ticket);
}

void DeviceTurns::Leave(const std::string& device_id, uint64_t ticket) {
  std::lock_guard lock(mutex_);
  std::erase(waiting_[device_id], ticket);
  changed_.notify_all();
}

}  // namespace tune::server
