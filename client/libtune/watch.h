// SPDX-License-Identifier: Apache-2.0
// Tells a job that something better exists than what it was answered, and takes it when the job
// says so. The Python package has the same rule (client/python/src/tunectl/_watch.py).
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/status/statusor.h"
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
  // What is known. Waits for nobody.
  Found Newest() const;
  // Looks now, and compares all that was asked by now, with what was found before if nothing is
  // newer. For a daemon it waits some seconds; what a process of this node was told by it within
  // `fresh_seconds` will do. Given up where end_fd can be read from.
  void Look(double fresh_seconds, int end_fd);
  // From here on the job asks this one, which was found.
  void Follow(std::shared_ptr<const JobClient> client);

 private:
  explicit Watch(std::shared_ptr<const JobClient> client) : client_(std::move(client)) {}
  static void Leave(Watch* watch);
  void LookQuietly(double fresh_seconds, int end_fd) noexcept;

  const HomeProcess home_;
  mutable std::mutex mutex_;
  // Guarded by mutex_.
  std::shared_ptr<const JobClient> client_;
  Found found_;
  std::unique_ptr<Background> background_;  // ends first
};

}  // namespace tune::library
