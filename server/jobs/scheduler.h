// SPDX-License-Identifier: Apache-2.0
// Runs jobs, one at a time on each device. Interactive jobs come first, then the oldest. A
// background job that runs yields to an interactive one that waits for its device, and goes on
// afterwards.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "db/store.h"
#include "server/devices/device_turns.h"
#include "server/jobs/device_time.h"
#include "server/jobs/job.h"
#include "server/jobs/watch_ticker.h"

namespace tune::server {

// What is done for every job, whatever its kind. Any of them may be empty.
struct DeviceCare {
  std::function<void(const std::string& device_id)> before;  // ceilings are restored
  std::function<void(const std::string& device_id)> after;   // ceilings are kept
  QuietCompilers quiet;
};

// Thread-safe.
class Scheduler {
 public:
  struct Options {
    size_t unfinished_max = Limits().unfinished_jobs;
    // Inside tunectl: a job that is interrupted is nobody's to take up, so it stays as it is.
    bool embedded = false;
    // How many jobs of an owner may be unfinished; empty: any number. Must not call the scheduler.
    std::function<size_t(const std::string& owner)> jobs_max_of;
    // For how long an owner's jobs may have a device within a day; empty: any time. Likewise.
    std::function<absl::Duration(const std::string& owner)> device_time_max_of;
  };
  // All must outlive the scheduler.
  Scheduler(const Options& options, db::Store& store, DeviceTurns& turns, WatchTicker& ticker,
            DeviceCare care);
  ~Scheduler() { Stop(); }

  // A place among the unfinished jobs, held until it is used or destroyed.
  class Place {
   public:
    Place(Place&& other) noexcept
        : scheduler_(std::exchange(other.scheduler_, nullptr)), owner_(std::move(other.owner_)) {}
    Place& operator=(Place&&) = delete;
    ~Place();

   private:
    friend class Scheduler;
    Place(Scheduler* scheduler, const std::string& owner) : scheduler_(scheduler), owner_(owner) {}
    Scheduler* scheduler_;
    std::string owner_;
  };
  // RESOURCE_EXHAUSTED when too many jobs are unfinished, of all or of the owner, or the owner's
  // have had a device for as long as they may; UNAVAILABLE when the daemon stops.
  absl::StatusOr<Place> TakePlace(const std::string& owner);

  // Stores a job and queues it. Durable when it returns.
  absl::StatusOr<std::shared_ptr<Job>> Submit(db::JobRow row, std::vector<std::string> devices,
                                              std::shared_ptr<JobWork> work);
  // Queues a job that is stored. Null if the daemon stops.
  std::shared_ptr<Job> Enqueue(std::shared_ptr<Job> job);

  // Null if the job is finished or unknown.
  std::shared_ptr<Job> Find(int64_t id) const;
  // Returns when the job has ended; what it ran may still be on its way out, and the device waits
  // for it. DEADLINE_EXCEEDED: it will stop, but has not yet. NOT_FOUND: no such unfinished job.
  absl::StatusOr<JobView> Cancel(int64_t id, absl::Time deadline);
  struct Counts {
    uint32_t queued = 0;
    uint32_t running = 0;
  };
  Counts counts() const;
  // As Cancel, but does not wait, and may be called from anywhere: a job that waits ends once its
  // turn comes.
  void BeginCancel(int64_t id);
  // Was the job asked for before this scheduler was there?
  bool IsOlder(const db::JobRow& row) const { return row.created_unix_ms < started_unix_ms_; }

  // Tells the running jobs to stop; those that can go on later stay unfinished in the store.
  void BeginStop();
  // The same, and waits for them. Idempotent.
  void Stop();

 private:
  struct Entry {
    std::shared_ptr<Job> job;
    uint64_t number = 0;  // in the order of Enqueue
    bool running = false;
  };
  struct Device {
    int64_t running = 0;  // the job that has it
    std::thread thread;
  };

  void Loop(const std::string& device_id, Device& device);
  // The job that is next on a device; null if none waits. REQUIRES: mutex_ is held.
  Entry* NextFor(const std::string& device_id);
  static bool ComesBefore(const Entry& a, const Entry& b);
  static bool MayRunOn(const Job& job, const std::string& device_id);
  void RunOne(const std::shared_ptr<Job>& job, const std::string& device_id);
  JobWork::End RunWork(Job& job, const std::string& device_id);
  // Takes account of jobs that an earlier daemon ran.
  void CountEarlier();
  absl::Duration DeviceTimeLeft(const std::string& owner) const;
  // RESOURCE_EXHAUSTED.
  absl::Status CheckDeviceTime(const std::string& owner) const;
  // CANCELLED is what a user did; else it is said who ended the job.
  absl::Status TrueStatus(const Job& job, const absl::Status& status) const;
  void Finish(Job& job, const JobWork::End& end);
  // Puts a job that was interrupted back; it is not run again where the daemon stops.
  void PutBack(const std::shared_ptr<Job>& job);
  // Waits out a full or failing disk, until the daemon stops.
  absl::Status StoreEnd(Job& job, const db::JobRow& row);
  void Forget(Job& job, const db::JobRow& row, const absl::Status& status);
  absl::Status CancelWaiting(const std::shared_ptr<Job>& job);
  // It waits for its turn as if nothing had been asked of it. REQUIRES: mutex_ is held.
  void WaitAgain(Job& job);
  // Says to each that waits who is ahead of it. REQUIRES: mutex_ is held.
  void TellWaiting();
  // Asks background jobs to make room for interactive ones that wait. REQUIRES: mutex_ is held.
  void MakeRoom();
  // Those that wait, the next first. REQUIRES: mutex_ is held.
  std::vector<const Entry*> Waiting() const;
  bool IsFree(const std::string& device_id) const;
  // May the job that has the device be asked to yield it?
  Job* WhoYields(const std::string& device_id) const;

  const Options options_;
  db::Store& store_;
  DeviceTurns& turns_;
  WatchTicker& ticker_;
  const DeviceCare care_;
  DeviceTime device_time_;
  const int64_t started_unix_ms_ = absl::ToUnixMillis(absl::Now());

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  std::map<int64_t, Entry> live_;
  std::map<std::string, Device> devices_;  // nodes stay where they are
  uint64_t next_number_ = 0;
  std::multiset<std::string> places_;  // by owner
  bool stopping_ = false;
};

}  // namespace tune::server
