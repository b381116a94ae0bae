// SPDX-License-Identifier: Apache-2.0
// Tells a daemon whether the one before it ended in order: an empty file lies in the state folder
// while a daemon runs. Removing a file takes no space, so this holds on a full disk too, where a
// daemon cannot store that the sweeps which it stopped are to be queued again.
#pragma once

#include <string>

namespace tune::server {

// Not thread-safe. REQUIRES: this process owns the state folder.
class RunMark {
 public:
  // Leaves the mark. A mark that cannot be left is logged: the next daemon takes this one's end for
  // one in order.
  explicit RunMark(const std::string& state_dir);

  // No daemon was killed here since the last one that ended in order.
  bool ended_in_order() const { return ended_in_order_; }
  // This daemon ends in order: what ran was stopped by it. Idempotent.
  void EndInOrder();

 private:
  const std::string path_;
  bool ended_in_order_ = false;
};

}  // namespace tune::server
