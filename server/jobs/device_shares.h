// SPDX-License-Identifier: Apache-2.0
// Turns between principals. A device goes to the principal whose virtual time is least, as in
// weighted fair queueing (Demers, Keshav, Shenker, "Analysis and simulation of a fair queueing
// algorithm", SIGCOMM 1989). A principal's virtual time grows by the time that it has the device,
// divided by its weight, and starts where the least of the others stands when its first job comes.
// So a principal that was away has saved nothing up and owes nothing.
//
// The weight is kLightWeight while a principal's load is below the mean of those that have jobs,
// and 1 otherwise. The load is the time that the principal has had devices within a day and a turn
// for each of its jobs but the first. So a newcomer has most of the device until it has had as much
// as the others. Of n principals with jobs none gets less than 1/(1 + kLightWeight * (n - 1)) of
// the device: a quarter beside one other.
#pragma once

#include <map>
#include <string>

#include "absl/time/time.h"
#include "server/jobs/device_time.h"

namespace tune::server {

// Not thread-safe: the scheduler guards it. All times are those of SteadyNow().
class DeviceShares {
 public:
  static constexpr int kLightWeight = 3;

  // `turn`: the device time that a job which waits will want at least. `device_time`, which must
  // outlive this, has what each principal had of all devices.
  DeviceShares(absl::Duration turn, DeviceTime& device_time)
      : turn_(turn), device_time_(device_time) {}

  // A job of the principal waits for the device or runs on it, until Leave.
  void Enter(const std::string& device_id, const std::string& owner);
  void Leave(const std::string& device_id, const std::string& owner);
  // The principal has had the device from `begin` to `end`.
  void Add(const std::string& device_id, const std::string& owner, absl::Time begin,
           absl::Time end);
  // The principal's virtual time.
  absl::Duration Had(const std::string& device_id, const std::string& owner) const;

 private:
  struct Share {
    size_t jobs = 0;  // that wait or run; those without are kept while they are ahead of the others
    absl::Duration had;
  };
  using Shares = std::map<std::string, Share>;  // by principal

  // The least time of the principals that have jobs; infinite if none has.
  static absl::Duration LeastOf(const Shares& shares);
  bool IsLight(const Shares& shares, const std::string& owner, absl::Time now) const;

  const absl::Duration turn_;
  DeviceTime& device_time_;
  std::map<std::string, Shares> devices_;
};

}  // namespace tune::server
