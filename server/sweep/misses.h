// SPDX-License-Identifier: Apache-2.0
// Tunes problems that look-ups missed, as sweeps in the background: each problem once, however many
// callers miss it, and again after a pause if a sweep left no record.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "server/devices/devices.h"
#include "server/kernels/catalogue.h"
#include "server/kernels/space_solver.h"
#include "server/records/record_book.h"
#include "server/records/recorded_miss.h"
#include "server/sweep/submission.h"
#include "server/sweep/sweeps.h"

namespace tune::server {

// The ids of the host's usable devices of that name, beginning with another at each `turn`, so that
// misses are spread over them. NOT_FOUND: no device has the name. UNAVAILABLE: none of them can be
// used.
absl::StatusOr<std::vector<std::string>> DevicesForMiss(const std::vector<DeviceStatus>& known,
                                                        const std::string& name, uint64_t turn);

// The time from which a problem may be tried again, of which `tries` sweeps left no record: 10
// minutes after the first sweep, then after pauses each four times as long, a day at most; a day
// after a cancelled sweep.
absl::Time RetryTime(int tries, const db::JobRow& last);

// Thread-safe.
class Misses {
 public:
  struct Tools {
    const RecordBook& records;
    const Catalogue& catalogue;
    const Devices& devices;
    SpaceSolver& solver;
    Sweeps& sweeps;
    bool embedded = false;  // inside tunectl nothing goes on in the background
  };
  explicit Misses(const Tools& tools) : tools_(tools) {}

  // Records a miss (server/records/recorded_miss.h). Waits for the devices and the space, at most
  // until `deadline`.
  RecordedMiss Record(const RecordQuery& query, const std::string& owner, absl::Time deadline,
                      const Cancelled& cancelled) const;

 private:
  absl::StatusOr<RecordedMiss> Queue(const RecordQuery& query, const std::string& owner,
                                     absl::Time deadline, const Cancelled& cancelled) const;
  // Submits a sweep, or returns the existing one of the submission's key.
  absl::StatusOr<db::SweepRow> SubmitOnce(Submission& submission) const;

  const Tools tools_;
  mutable std::atomic<uint64_t> next_turn_ = 0;  // of the devices of a name
  mutable Mutex mutex_;
  mutable int64_t last_created_unix_ms_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace tune::server
