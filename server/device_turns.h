// SPDX-License-Identifier: Apache-2.0
// Who may use a device: one at a time, in the order in which they asked. A measurement that shares
// its device with another is worth nothing.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <string>

#include "absl/status/statusor.h"
#include "server/pool/worker_process.h"

namespace tune::server {

// Thread-safe.
class DeviceTurns {
 public:
  // Held until destroyed. Must not outlive the turns.
  class Turn {
   public:
    Turn(Turn&& other) noexcept : turns_(other.turns_), id_(other.id_), ticket_(other.ticket_) {
      other.turns_ = nullptr;
    }
    Turn& operator=(Turn&&) = delete;
    ~Turn() {
      if (turns_ != nullptr) turns_->Leave(id_, ticket_);
    }

   private:
    friend class DeviceTurns;
    Turn(DeviceTurns* turns, std::string id, uint64_t ticket)
        : turns_(turns), id_(std::move(id)), ticket_(ticket) {}
    DeviceTurns* turns_;
    const std::string id_;
    const uint64_t ticket_;
  };

  // Waits. CANCELLED within 50 ms of `cancelled` saying so.
  absl::StatusOr<Turn> Take(const std::string& device_id, const Cancelled& cancelled);

 private:
  void Leave(const std::string& device_id, uint64_t ticket);

  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  uint64_t next_ticket_ = 0;
  std::map<std::string, std::deque<uint64_t>> waiting_;  // the first of each has the device
};

}  // namespace tune::server
