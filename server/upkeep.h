// SPDX-License-Identifier: Apache-2.0
// The daemon's upkeep, on a thread of its own: returns freed memory to the system, and retries what
// failed before.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <thread>

#include "base/mutex.h"

namespace tune::server {

// The limit of files that this process may open.
size_t OpenFilesMax();
// The number of files that it has open now.
size_t OpenFiles();

class Upkeep {
 public:
  // `again` is called each second.
  explicit Upkeep(std::function<void()> again);
  ~Upkeep();

 private:
  void Loop();

  const std::function<void()> again_;
  Mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace tune::server
