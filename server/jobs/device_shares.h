// SPDX-License-Identifier: Apache-2.0
// Turns between principals. A device goes to the principal that has had it for the least time, as
// fair queueing does (Demers, Keshav, Shenker, "Analysis and simulation of a fair queueing
// algorithm", SIGCOMM 1989): each principal's time counts from where the least of the others stood
// when its first job came. So who was away has saved nothing up and owes nothing, and many jobs of
// one principal get no more than a single one.
#pragma once

#include <map>
#include <string>

#include "absl/time/time.h"

namespace tune::server {

// Not thread-safe: the scheduler guards it.
class DeviceShares {
 public:
  // A job of the principal waits for the device or runs on it, until Leave.
  void Enter(const std::string& device_id, const std::string& owner);
  void Leave(const std::string& device_id, const std::string& owner);
  void Add(const std::string& device_id, const std::string& owner, absl::Duration had);
  // The time that the principal has had the device, as far as it counts.
  absl::Duration Had(const std::string& device_id, const std::string& owner) const;

 private:
  struct Share {
    size_t jobs = 0;  // that wait or run; those without are kept while they are ahead of the others
    absl::Duration had;
  };
  using Shares = std::map<std::string, Share>;  // by principal

  // The least time of the principals that have jobs; infinite if none has.
  static absl::Duration LeastOf(const Shares& shares);

  std::map<std::string, Shares> devices_;
};

}  // namespace tune::server
