// SPDX-License-Identifier: Apache-2.0
// Turns on devices: one job at a time, in the order in which they asked. A measurement that shares
// its device with another is worth nothing.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "base/cancelled.h"
#include "base/mutex.h"

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

  // Called while a caller waits, with the name of the turn's holder: at once, and whenever it
  // changes.
  using TellHolder = std::function<void(const std::string& who)>;

  // Waits for the turn. `who` is the name that other waiting callers see: "sweep 3", "a gate".
  // CANCELLED within 50 ms of `cancelled` returning true.
  absl::StatusOr<Turn> Take(const std::string& device_id, const std::string& who,
                            const Cancelled& cancelled, const TellHolder& tell = {});
  // Takes the turn at once; nullopt if another caller has it.
  std::optional<Turn> TryTake(const std::string& device_id, const std::string& who);

 private:
  struct Place {
    uint64_t ticket;
    std::string who;
  };
  void Leave(const std::string& device_id, uint64_t ticket);
  static void Remove(std::deque<Place>& line, uint64_t ticket);

  Mutex mutex_;
  std::condition_variable changed_;
  uint64_t next_ticket_ ABSL_GUARDED_BY(mutex_) = 0;
  // The first of each has the device.
  std::map<std::string, std::deque<Place>> waiting_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tune::server
