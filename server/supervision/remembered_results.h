// SPDX-License-Identifier: Apache-2.0
// Trials by the work that was measured, so that equal work is measured once. Beyond its limit the
// oldest are dropped, and measured again if they come again.
#pragma once

#include <deque>
#include <string>
#include <unordered_map>

#include "absl/strings/string_view.h"
#include "tuner/trial.h"

namespace tune::server {

// Not thread-safe.
class RememberedResults {
 public:
  explicit RememberedResults(size_t count_max) : count_max_(count_max) {}

  // Null if there is none. Valid until the next Keep.
  const Trial* Find(absl::string_view work) const;
  // Without its samples, which are its own. The first trial of a work stays.
  void Keep(absl::string_view work, Trial trial);
  size_t size() const { return trials_.size(); }

 private:
  const size_t count_max_;
  std::unordered_map<std::string, Trial> trials_;  // by the SHA-256 of the work
  std::deque<std::string> oldest_first_;
};

}  // namespace tune::server
