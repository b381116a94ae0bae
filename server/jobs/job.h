// SPDX-License-Identifier: Apache-2.0
// A job while it lives: the state that the scheduler, its watchers and its own work share.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/cancelled.h"
#include "base/mutex.h"
#include "db/job_store.h"
#include "server/jobs/feed.h"
#include "server/supervision/compile_pool.h"
#include "tune/v1/job.pb.h"

namespace tune::server {

class JobContext;

// The work of a job, implemented by each kind.
class JobWork {
 public:
  struct End {
    absl::Status status;
    // The job was stopped so that it can go on: the daemon stops, or a background job yields.
    bool interrupted = false;
    // An interrupted job waits for at least this long before it goes on: the disk was full, say.
    absl::Duration pause = absl::ZeroDuration();
    std::string message;  // of a job that is done or pauses; others have that of the status
    // Destroyed once the end of the job is visible, and before the device's next job starts:
    // processes that are still to end, say.
    std::shared_ptr<void> remains = nullptr;
  };

  virtual ~JobWork() = default;
  // Called on a thread of the scheduler's, which has the turn on the context's device. Stores what
  // it measures on the way, and never discards what was acknowledged.
  virtual End Run(JobContext& context) = 0;
  // Whether further devices of the job may help while it runs on one. Must not call the scheduler.
  virtual bool wants_help() const { return false; }
  // Helps Run on a further device, whose turn the calling thread has, until the context says stop
  // or there is nothing left to help with. An error: the device cannot help in this turn of the
  // job.
  virtual absl::Status Help(JobContext& /*context*/) { return absl::OkStatus(); }
  // Makes the job's row durable. The last call has the row of the end.
  virtual absl::Status Store(db::JobStore& jobs, const db::JobRow& row) {
    return jobs.UpdateJob(row);
  }
  // Called once, when the end of the job is stored, also if it never ran.
  virtual void Ended(const absl::Status& /*status*/) {}
  // Adds news of the job to an event; by default each step and result as it is. The calling thread
  // acts for the caller who sees it.
  virtual void AddNews(const Feed::News& news, v1::JobEvent& event) const {
    for (const Feed::Step& step : news.steps) event.add_results()->PackFrom(*step);
    for (const Feed::Step& result : news.results) event.add_results()->PackFrom(*result);
  }
  // The name of the job for others that wait: "sweep 3", "a gate".
  virtual std::string Name() const = 0;
  // Why the job waits for a device that it may run on and that is in use: "device cuda:0 is an H100
  // now"; empty: it does not wait. Asked again every second or so. Must not call the scheduler.
  virtual std::string WhyNotOn(const std::string& /*device_id*/) const { return ""; }
  // Memory that the sources of its kernels, or a sweep's prior, take while it waits. Asked once,
  // when it is submitted.
  virtual size_t source_bytes() const { return 0; }
  // Whether it can go on after it was stopped.
  virtual bool resumable() const { return false; }
  // Whether the next daemon may run it once more from its start, if this one stops it.
  virtual bool runs_again() const { return true; }
  // The longest time that it may run; then it is asked to stop.
  virtual absl::Duration time_max() const { return absl::Hours(1); }
};

// A job at one moment.
struct JobView {
  db::JobRow row;
  bool waiting = false;  // for its turn; the message says who has the device
};

// Thread-safe.
class Job {
 public:
  // `devices`: ids that it may run on, the first preferred. REQUIRES: not empty.
  Job(db::JobRow row, std::vector<std::string> devices, std::shared_ptr<JobWork> work)
      : id_(row.id),
        priority_(row.priority),
        owner_(row.owner),
        devices_(std::move(devices)),
        work_(std::move(work)) {
    view_.row = std::move(row);
  }

  int64_t id() const { return id_; }
  db::JobPriority priority() const { return priority_; }
  const std::string& owner() const { return owner_; }
  const std::vector<std::string>& devices() const { return devices_; }
  JobWork& work() const { return *work_; }
  Feed& feed() { return feed_; }
  std::shared_ptr<Feed> SharedFeed(const std::shared_ptr<Job>& self) { return {self, &feed_}; }

  JobView view() const {
    MutexLock lock(mutex_);
    return view_;
  }
  void Update(const std::function<void(JobView&)>& change) {
    {
      MutexLock lock(mutex_);
      change(view_);
    }
    feed_.Touch();
  }

  // The requests to stop. Written by the scheduler, read by the work.
  struct Control {
    std::atomic<bool> stop = false;       // for whatever reason
    std::atomic<bool> cancelled = false;  // by a user, for good
    std::atomic<bool> yields = false;     // to another job; it goes on later
    std::atomic<bool> overdue = false;    // it ran as long as its kind may
    // Written by the work: in this turn it has stored something that it need not do again.
    std::atomic<bool> got_on = false;
  };
  Control control;

 private:
  const int64_t id_;
  const db::JobPriority priority_;
  const std::string owner_;
  const std::vector<std::string> devices_;
  const std::shared_ptr<JobWork> work_;
  Feed feed_;
  mutable Mutex mutex_;
  JobView view_ ABSL_GUARDED_BY(mutex_);
};

// Pauses the compilers on the processors that a device measures with.
using QuietCompilers = std::function<absl::StatusOr<CompilePause>(const std::string& device_id,
                                                                  const Cancelled& cancelled)>;

// The interface of a job for its work. The calls are for the work's threads.
class JobContext {
 public:
  JobContext(Job& job, std::string device_id, const QuietCompilers& quiet,
             std::string came_from = "")
      : JobContext(job, std::move(device_id), quiet, job.control.stop, std::move(came_from)) {}
  // For work that `stop` alone ends, such as help.
  JobContext(Job& job, std::string device_id, const QuietCompilers& quiet,
             const std::atomic<bool>& stop, std::string came_from = "")
      : job_(job),
        device_id_(std::move(device_id)),
        came_from_(std::move(came_from)),
        stop_(stop),
        quiet_(quiet) {}

  int64_t job_id() const { return job_.id(); }
  const std::string& device_id() const { return device_id_; }
  // Another device, on which the job ran before it was interrupted; empty: there is none.
  const std::string& came_from() const { return came_from_; }
  const std::atomic<bool>& stop() const { return stop_; }
  bool cancelled_for_good() const { return job_.control.cancelled; }
  // Returns true once the work is to end. May outlive the context, not the job.
  Cancelled cancelled() const {
    return [stop = &stop_] { return stop->load(); };
  }
  // Sets the message for people: what the job does now. Empty: nothing special.
  void Say(const std::string& message) {
    job_.Update([&](JobView& view) { view.row.message = message; });
  }
  Feed& feed() { return job_.feed(); }
  // Pauses the compilers that would disturb the device. CANCELLED once the work is to end.
  absl::StatusOr<CompilePause> Quiet() { return quiet_(device_id_, cancelled()); }

 private:
  Job& job_;
  const std::string device_id_;
  const std::string came_from_;
  const std::atomic<bool>& stop_;
  const QuietCompilers& quiet_;
};

}  // namespace tune::server
