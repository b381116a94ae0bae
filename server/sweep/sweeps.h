// SPDX-License-Identifier: Apache-2.0
// The sweeps of a daemon: those that wait or run, and those in the store. Each is a job.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "db/store.h"
#include "server/jobs/job.h"
#include "server/jobs/job_kinds.h"
#include "server/jobs/scheduler.h"
#include "server/measure/help_offer.h"
#include "server/supervision/device_supervisor.h"
#include "server/supervision/limits.h"
#include "server/sweep/submission.h"
#include "server/sweep/sweep_view.h"

namespace tune::server {

class Sweeps;

// A sweep while it waits or runs. Thread-safe.
class SweepWork : public JobWork {
 public:
  SweepWork(Sweeps& sweeps, SweepView view) : sweeps_(sweeps), view_(std::move(view)) {}

  // Returns the sweep as it is now, with its job.
  SweepView view() const;
  // Replaces all but the job's row.
  void Update(SweepView view);
  void AddTrial(const Trial& trial);

  // Whether a run that failed is to be queued again, since the device is away. A sweep that makes a
  // device fall out of use is queued again a few times at most.
  bool WaitsFor(const std::string& device_id);

  // The offer in which further devices find the search; null if it has one device.
  std::shared_ptr<HelpOffer> offer() const;

  End Run(JobContext& context) override;
  bool wants_help() const override;
  absl::Status Help(JobContext& context) override;
  absl::Status Store(db::JobStore& jobs, const db::JobRow& row) override;
  void Ended(const absl::Status& status) override;
  // Adds the sweep as it is now, then the trials that have finished.
  void AddNews(const Feed::News& news, v1::JobEvent& event) const override;
  std::string Name() const override;
  std::string WhyNotOn(const std::string& device_id) const override;
  bool resumable() const override { return true; }
  size_t source_bytes() const override;
  absl::Duration time_max() const override { return absl::InfiniteDuration(); }

 private:
  friend class Sweeps;

  std::shared_ptr<Job> job() const;

  Sweeps& sweeps_;
  mutable Mutex mutex_;
  SweepView view_ ABSL_GUARDED_BY(mutex_);
  std::weak_ptr<Job> job_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<HelpOffer> offer_ ABSL_GUARDED_BY(mutex_);  // null: it has one device
  int put_back_ ABSL_GUARDED_BY(mutex_) = 0;                  // how often WaitsFor was true
};

// Runs a sweep. Passes each newer state to `work`, which has the last one when this returns.
using RunSweepJob = std::function<JobWork::End(SweepWork& work, JobContext& context)>;

// NOT_FOUND, with the numbers of existing sweeps; and with the sweep, if the number is its job's.
absl::Status NoSuchSweep(db::Store& store, int64_t id);

// Thread-safe.
class Sweeps {
 public:
  using KnownDevices = std::function<std::shared_ptr<const std::vector<DeviceStatus>>()>;
  struct Options {
    LeftJobRules left = {};
    bool shared = false;         // the store is; what is unfinished in it may be another host's
    size_t views_kept_max = 16;  // finished sweeps that need no look into the store
    // The process that owns the store, if this one only reads it.
    std::string other_owner;
    // The devices as they are known now, without waiting; empty: they stay what they are.
    KnownDevices known_devices;
  };

  // Takes up the sweeps that an earlier daemon left. All must outlive the sweeps, but the scheduler
  // must be stopped before they are destroyed.
  static absl::StatusOr<std::unique_ptr<Sweeps>> Start(const Options& options, db::Store& store,
                                                       Scheduler& scheduler, RunSweepJob run);

  // Stores and queues a sweep. Durable when it returns. Returns the existing sweep of a known
  // idempotency key. Other errors are those of Scheduler::TakePlace.
  // `keep_sources` is called once the sweep has its place.
  absl::StatusOr<SweepView> Submit(const Submission& submission,
                                   const KeepSources& keep_sources = {});
  // Queues a sweep of another host's for one of these devices.
  absl::Status TakeUp(int64_t job_id, std::vector<std::string> devices);
  absl::StatusOr<SweepView> Get(int64_t id);
  absl::StatusOr<SweepView> OfJob(int64_t job_id);
  // Stores that a sweep of no job in this scheduler is cancelled.
  absl::Status CancelLeft(int64_t job_id);

 private:
  friend class SweepWork;

  Sweeps(const Options& options, db::Store& store, Scheduler& scheduler, RunSweepJob run)
      : options_(options), store_(store), scheduler_(scheduler), run_(std::move(run)) {}

  // Queues a stored sweep with the scheduler, unless that was done.
  void Enqueue(const SweepView& view, std::vector<std::string> devices);
  // Implements JobWork::WhyNotOn: the device is another one now while others of the sweep's devices
  // are those that it was submitted for.
  std::string WhyNotOn(const db::SweepRow& row, const std::string& device_id) const;
  // Takes up sweeps that a daemon died with after the others, and not more often than is allowed.
  // Ends sweeps that an earlier tunectl left, which no process takes up.
  absl::Status Inherit();
  // False if daemons died with it too often, or its row cannot be changed.
  bool MayRunAgain(db::SweepRow& row);
  // Counts the stored trials of an unfinished sweep, and finds the best of them.
  absl::Status AddUpTrials(SweepView& view);
  // Stores that a sweep without a running job is cancelled, with the best of its stored trials.
  absl::Status EndFromTrials(SweepView& view);
  std::shared_ptr<SweepWork> FindLive(int64_t id) const;
  std::shared_ptr<SweepWork> FindByKey(const std::string& idempotency_key) const;
  void Forget(SweepView view);
  // The view of a stored sweep.
  absl::StatusOr<SweepView> ViewOf(const db::SweepRow& row);

  const Options options_;
  db::Store& store_;
  Scheduler& scheduler_;
  const RunSweepJob run_;

  mutable Mutex mutex_;
  std::map<int64_t, std::shared_ptr<SweepWork>> live_ ABSL_GUARDED_BY(mutex_);
  std::map<int64_t, SweepView> finished_ ABSL_GUARDED_BY(mutex_);  // the newest few
};

// Sweeps as a kind of job. A sweep's row is its request, by which Sweeps queues it again.
JobKind SweepKind(Sweeps& sweeps);

}  // namespace tune::server
