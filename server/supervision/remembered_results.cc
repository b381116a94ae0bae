// SPDX-License-Identifier: Apache-2.0
#include "server/supervision/remembered_results.h"

#include <utility>

#include "base/sha256.h"

namespace tune::server {

const Trial* RememberedResults::Find(absl::string_view work) const {
  const auto found = trials_.find(Sha256(work));
  return found == trials_.end() ? nullptr : &found->second;
}

void RememberedResults::Keep(absl::string_view work, Trial trial) {
  std::string key = Sha256(work);
  trial.measurement.samples_ns = {};
  if (!trials_.emplace(key, std::move(trial)).second) return;
  oldest_first_.push_back(std::move(key));
  if (oldest_first_.size() <= count_max_) return;
  trials_.erase(oldest_first_.front());
  oldest_first_.pop_front();
}

}  // namespace tune::server
