// SPDX-License-Identifier: Apache-2.0
// News of a job for its watchers. The job writes and never waits for a reader. A slow reader misses
// steps, never a result, the newest state or the end. Steps are bounded by their number and by
// their bytes: a step may be as large as a request, as the orders of comparisons are.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "base/mutex.h"
#include "google/protobuf/message.h"

namespace tune::server {

// Thread-safe.
class Feed {
 public:
  static constexpr size_t kStepsKept = 64;
  static constexpr size_t kStepBytesKept = size_t{1} << 20;
  // A message of the kind of job: a trial, a profile.
  using Step = std::shared_ptr<const google::protobuf::Message>;

  // The job's state is another than before.
  void Touch();
  // Keeps the newest steps: kStepsKept of kStepBytesKept in all, and the last one whatever its
  // size. Results are kept until the end.
  void AddStep(Step step);
  void AddResult(Step result);
  // Ends the feed. `status` ends the calls of the watchers.
  void End(const absl::Status& status);

  // A reader's position. A new reader gets the state now, all results and the newest steps.
  struct Cursor {
    uint64_t version = 0;
    uint64_t next_step = 0;
    size_t next_result = 0;
  };
  struct News {
    std::vector<Step> steps;    // since the cursor, oldest first
    std::vector<Step> results;  // likewise
    bool ended = false;
    absl::Status status;
  };
  std::vector<Step> results() const;
  // Returns what is new since the cursor and advances it; nullopt if nothing is new.
  std::optional<News> ReadSince(Cursor& cursor) const;

 private:
  mutable Mutex mutex_;
  uint64_t version_ ABSL_GUARDED_BY(mutex_) = 1;
  struct Kept {
    Step step;
    size_t bytes = 0;
  };
  std::deque<Kept> steps_;
  size_t step_bytes_ = 0;    // of steps_
  uint64_t step_count_ = 0;  // ever added
  std::vector<Step> results_;
  bool ended_ = false;
  absl::Status status_;
};

}  // namespace tune::server
