// SPDX-License-Identifier: Apache-2.0
// A gate as a job.
#pragma once

#include <mutex>
#include <string>

#include "db/store.h"
#include "server/gate/gate_plan.h"
#include "server/gate/gate_runner.h"
#include "server/jobs/job.h"
#include "server/supervision/workers.h"

namespace tune::server {

// Thread-safe.
class GateWork : public JobWork {
 public:
  // Both must outlive the work.
  GateWork(db::Store& store, Workers& workers, GatePlan plan)
      : store_(store), workers_(workers), plan_(std::move(plan)) {}

  // Its newest step; while the job waits, what it waits for.
  GateStep Step(const Job& job) const;

  End Run(JobContext& context) override;
  absl::Status Store(const db::JobRow& row) override { return store_.UpdateJob(row); }
  // Its result is the finished run, a v1::GateRun with its rounds.
  void Ended(const absl::Status& status) override;
  std::string Name() const override { return "a gate"; }
  // Its size is the request's, which has limits of its own.
  absl::Duration time_max() const override { return absl::InfiniteDuration(); }
  size_t source_bytes() const override { return plan_.SourceBytes(); }

 private:
  db::Store& store_;
  Workers& workers_;
  GatePlan plan_;
  Feed* feed_ = nullptr;  // of its job, once it runs
  int64_t run_id_ = 0;    // once it has ended well
  mutable std::mutex mutex_;
  GateStep step_;  // guarded by mutex_
};

}  // namespace tune::server
