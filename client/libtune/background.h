// SPDX-License-Identifier: Apache-2.0
// Background threads of the library, beside those of the job.
#pragma once

#include <unistd.h>

#include <chrono>
#include <functional>
#include <memory>
#include <thread>

#include "absl/status/statusor.h"
#include "base/descriptor.h"

namespace tune::library {

// The process that something was made in. In a forked child of it threads are gone, and locks may
// be held by nobody, so there such a thing is neither used nor destroyed.
class HomeProcess {
 public:
  bool IsHere() const { return getpid() == pid_; }

 private:
  const pid_t pid_ = getpid();
};

// Can it be read from? -1: no.
bool HasEnded(int end_fd);

// A thread that handles no signal of the job. It is ended and joined at the end.
class Background {
 public:
  // `body` returns soon once it has to end. An exception that it lets out ends it, and no more.
  // RESOURCE_EXHAUSTED: there can be no more threads or files.
  static absl::StatusOr<std::unique_ptr<Background>> Start(
      std::function<void(const Background&)> body);
  ~Background();

  // Waits, and says whether to end instead.
  bool EndsWithin(std::chrono::milliseconds time) const;
  // Can be read from once it has to end.
  int end_fd() const { return end_.get(); }

 private:
  explicit Background(Descriptor end) : end_(std::move(end)) {}

  const Descriptor end_;
  std::thread thread_;
};

}  // namespace tune::library
