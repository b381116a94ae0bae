// SPDX-License-Identifier: Apache-2.0
// Tells a job that something better exists than what it was answered, and takes it when the job
// says so.
#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "client/libtune/background.h"
#include "client/libtune/job_client.h"

namespace tune::library {

// A question of the job that a newer snapshot answers better.
struct Better {
  std::shared_ptr<const KeptAnswer> before;
  std::shared_ptr<const KeptAnswer> after;
};

bool IsBetter(const Answer& before, const Answer& after);

// Looks for newer snapshots, in a thread of its own. Thread-safe. In a forked child nothing is
// found.
class Watch {
 public:
  // RESOURCE_EXHAUSTED: there can be no more threads or files.
  static absl::StatusOr<std::shared_ptr<Watch>> Open(std::shared_ptr<const JobClient> client,
                                                     std::chrono::milliseconds every);

  struct Found {
    std::shared_ptr<const JobClient> newest;  // null: nothing is newer
    std::vector<Better> better;
  };
  // Returns what was found so far, without waiting.
  Found Newest() const;
  // Looks now. Compares all questions so far, with the snapshot found before if there is no newer
  // one. It may wait some seconds for the daemon; an answer that a process of this node got within
  // `fresh_seconds` will do. Gives up once end_fd can be read from.
  void Look(double fresh_seconds, int end_fd);
  // Makes a client that was found the job's, for later looks.
  void Follow(std::shared_ptr<const JobClient> client);

 private:
  explicit Watch(std::shared_ptr<const JobClient> client) : client_(std::move(client)) {}
  static void Leave(Watch* watch);
  void LookQuietly(double fresh_seconds, int end_fd) noexcept;

  const HomeProcess home_;
  mutable Mutex mutex_;
  std::shared_ptr<const JobClient> client_ ABSL_GUARDED_BY(mutex_);
  Found found_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<Background> background_;  // ends first
};

}  // namespace tune::library
