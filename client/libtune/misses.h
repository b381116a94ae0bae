// SPDX-License-Identifier: Apache-2.0
// Reports problems that a job asked for and nobody had tuned to the daemon, which tunes them in the
// background. A miss is answered at once with the best there is. A thread collects misses for a
// moment and has tune-fetch send them, so the job never waits. However many ranks miss the same
// problem, one sweep is queued.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "base/mutex.h"
#include "client/libtune/background.h"
#include "client/libtune/environment.h"
#include "client/libtune/resolve.h"

namespace tune::library {

// Thread-safe. In a forked child nothing is told.
class Misses {
 public:
  // The one of this process, for a daemon; with the environment of whoever asked for it first.
  static std::shared_ptr<Misses> Of(const std::string& address,
                                    std::shared_ptr<const Environment> environment);

  // Each problem once, and only of kernels that the snapshot knows.
  void Add(const Answer& answer);
  // Sends the queued misses now. Returns false if some were still unsent when `time` ran out.
  bool Wait(std::chrono::milliseconds time);
  // The results of the reports, a sentence each; null beyond the last. Lives as long as this.
  const char* Note(size_t index) const;

 private:
  struct Miss {
    std::string kernel;
    std::vector<std::pair<std::string, int64_t>> dims;
    std::string dtype;
    std::string device;
  };

  Misses(std::string address, std::shared_ptr<const Environment> environment)
      : address_(std::move(address)), environment_(std::move(environment)) {}
  ~Misses();
  static void Leave(Misses* misses);
  void StartLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TellAll(const Background& background);
  std::vector<Miss> TakeBatchLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns no notes if there is no memory.
  std::vector<std::string> TellQuietly(const std::vector<Miss>& batch, int end_fd) const noexcept;
  void NoteLocked(std::vector<std::string> notes) noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // A sentence of each, or one of all.
  std::vector<std::string> Tell(const std::vector<Miss>& batch, int end_fd) const;

  const HomeProcess home_;
  const std::string address_;
  const std::shared_ptr<const Environment> environment_;
  mutable Mutex mutex_;
  std::condition_variable changed_;
  absl::flat_hash_set<std::string> known_ ABSL_GUARDED_BY(mutex_);
  std::deque<Miss> waiting_ ABSL_GUARDED_BY(mutex_);
  std::deque<std::string> notes_ ABSL_GUARDED_BY(mutex_);
  bool telling_ ABSL_GUARDED_BY(mutex_) = false;  // the thread is there
  bool hurry_ ABSL_GUARDED_BY(mutex_) = false;    // somebody waits
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  std::unique_ptr<Background> background_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tune::library
