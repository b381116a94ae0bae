// SPDX-License-Identifier: Apache-2.0
// The part of a store (db/store.h) for jobs. Jobs, with the request that queues one again after a
// restart and the event that ended it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "db/job.h"

namespace tune::db {

// Thread-safe.
class JobStore {
 public:
  virtual ~JobStore() = default;

  // Adds a job and returns its id. `request`: what JobRequest returns until the job has ended;
  // empty: nothing can queue the job again.
  virtual absl::StatusOr<int64_t> AddJob(const JobRow& job, const std::string& request = "") = 0;
  // Replaces state, device, message, times and deaths.
  virtual absl::Status UpdateJob(const JobRow& job) = 0;
  // Empty if the job has none, or has ended.
  virtual absl::StatusOr<std::string> JobRequest(int64_t id) = 0;
  // Stores the last event of a job, once; JobEnd returns it, empty if there is none.
  virtual absl::Status PutJobEnd(int64_t id, const std::string& event) = 0;
  virtual absl::StatusOr<std::string> JobEnd(int64_t id) = 0;
  virtual absl::StatusOr<JobRow> GetJob(int64_t id) = 0;
  virtual absl::StatusOr<std::vector<JobRow>> ListJobs(const JobFilter& filter) = 0;
};

}  // namespace tune::db
