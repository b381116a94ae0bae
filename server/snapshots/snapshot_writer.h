// SPDX-License-Identifier: Apache-2.0
// Writes what is published as snapshots, on a thread of its own that gives way to all others, or on
// that of a caller who waits. A publish never waits: publishes that come faster than they can be
// written share a file. Between two files is a rest, so that writing takes at most a tenth of a
// processor; the rest is by the processor time of a file, since a thread that gives way to others
// may take long for little work.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/cancelled.h"
#include "base/mutex.h"
#include "server/snapshots/snapshot_folder.h"

namespace tune::server {

// Thread-safe.
class SnapshotWriter {
 public:
  // `text` makes the text of the newest snapshot. Both must outlive the writer.
  SnapshotWriter(SnapshotFolder& folder, std::function<absl::StatusOr<std::string>()> text)
      : folder_(folder), text_(std::move(text)) {}
  ~SnapshotWriter() { Stop(); }

  // Something was published. Returns at once.
  void Notice();
  // Waits until all that was noticed before the call is in a file, or returns the reason why it is
  // not.
  absl::Status Flush(const Cancelled& cancelled);
  // Like Flush, but respects the rest between files, and waits for about `most` at most. Writes the
  // file itself if the writer's thread has not begun to.
  void Await(absl::Duration most);
  // Why the last try failed; OK if it did not.
  absl::Status problem() const;
  // Writes what is not written, then ends. Idempotent.
  void Stop();

 private:
  void Loop();
  // Writes a file; releases the mutex meanwhile.
  void Write() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool MayWrite() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsDue() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !writing_ && MayWrite(); }

  SnapshotFolder& folder_;
  const std::function<absl::StatusOr<std::string>()> text_;
  mutable Mutex mutex_;
  std::condition_variable changed_;
  std::thread thread_ ABSL_GUARDED_BY(mutex_);    // started by the first notice
  uint64_t noticed_ ABSL_GUARDED_BY(mutex_) = 0;  // publishes
  uint64_t tried_ ABSL_GUARDED_BY(mutex_) = 0;    // of them, also in vain
  int flushing_ ABSL_GUARDED_BY(mutex_) = 0;      // calls that wait
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Duration cost_ ABSL_GUARDED_BY(mutex_);  // processor time of the last file
  // Before the next file, unless somebody waits for it.
  absl::Time rest_until_ ABSL_GUARDED_BY(mutex_);
  absl::Status problem_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace tune::server
