// SPDX-License-Identifier: Apache-2.0
// Detects whether the last daemon was killed: an empty file lies in the state folder while a daemon
// runs. Removing a file takes no space, so this works on a full disk too, where a daemon cannot
// store that the sweeps which it stopped are to be queued again.
#pragma once

#include <string>

namespace tune::server {

// Not thread-safe. REQUIRES: this process owns the state folder.
class RunMark {
 public:
  // Leaves the mark. Logs a failure: the next daemon then takes this one's end for an orderly one.
  explicit RunMark(const std::string& state_dir);

  // Whether the last daemon here ended in order.
  bool ended_in_order() const { return ended_in_order_; }
  // Records that this daemon ends in order: it stopped its jobs itself. Idempotent.
  void EndInOrder();

 private:
  const std::string path_;
  bool ended_in_order_ = false;
};

}  // namespace tune::server
