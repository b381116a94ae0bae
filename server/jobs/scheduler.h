// SPDX-License-Identifier: Apache-2.0
// Runs jobs, one at a time on each device. Interactive jobs come first; among those of one priority
// principals share the device (device_shares.h), and the oldest job of a principal is its next.
//
// A job that can go on later yields its device in two cases: a background job to an interactive one
// that waits, and any job that has had the device for a turn to a job of another principal whose
// virtual time is less. Jobs that cannot go on later are bounded by job_time_max_of instead.
//
// A job may also have help (JobWork::wants_help): those of its other devices that no job waits for.
// A device that helps has its turn, is charged to the job's owner and yields as a job does, but by
// itself: the job goes on without it.
//
// A job that ends is over once its end is stored. While the disk cannot take that, it waits for the
// disk on a thread of its own and the device goes to the next job.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "db/job_store.h"
#include "server/devices/device_turns.h"
#include "server/jobs/device_shares.h"
#include "server/jobs/device_time.h"
#include "server/jobs/job.h"
#include "server/jobs/watch_ticker.h"

namespace tune::server {

// Care for the device around every job, whatever its kind. Any of them may be empty.
struct DeviceCare {
  std::function<void(const std::string& device_id)> before;  // ceilings are restored
  std::function<void(const std::string& device_id)> after;   // ceilings are kept
  QuietCompilers quiet;
};

// Stores the sources that a job refers to, within its owner's quota. Empty: there are none.
using KeepSources = std::function<absl::Status()>;

// Thread-safe.
class Scheduler {
 public:
  struct Options {
    size_t unfinished_max = Limits().unfinished_jobs;
    // Places beyond those, for operators alone.
    size_t operator_jobs = 0;
    // Virtual time (device_shares.h) after which a job makes room for another principal's.
    absl::Duration turn = absl::Seconds(Limits().turn_seconds);
    // Inside tunectl: no other process takes up an interrupted job, so it stays as it is.
    bool embedded = false;
    // How many jobs of an owner may be unfinished; empty: any number. Must not call the scheduler.
    std::function<size_t(const std::string& owner)> jobs_max_of;
    // RESOURCE_EXHAUSTED once an owner's jobs have stored as much as they may; empty: any amount.
    // Must not call the scheduler. Asked a few times a second while a job runs.
    std::function<absl::Status(const std::string& owner)> may_store;
    // For how long an owner's jobs may have a device within a day; empty: any time. Likewise.
    std::function<absl::Duration(const std::string& owner)> device_time_max_of;
    // For how long one job of an owner may have it that cannot go on later; empty: any time.
    std::function<absl::Duration(const std::string& owner)> job_time_max_of;
    // Why a device cannot be used for now; empty: it can, or if there is no such function, all can.
    // Jobs of every kind wait for such a device. Asked again every second or so. Must not call the
    // scheduler.
    std::function<std::string(const std::string& device_id)> why_out_of_use;
    // Empty: every owner is an operator.
    std::function<bool(const std::string& owner)> is_operator;
    // Told of each end of a job, and of the time that its work had a device; may be empty.
    std::function<void(const db::JobRow& row)> job_ended;
    std::function<void(const std::string& owner, const std::string& device_id, absl::Duration time)>
        had_device;
    // Called when a device has ended a job; may be empty.
    std::function<void()> freed;
  };
  // All must outlive the scheduler.
  Scheduler(const Options& options, db::JobStore& store, DeviceTurns& turns, WatchTicker& ticker,
            DeviceCare care);
  ~Scheduler() { Stop(); }

  // A place among the unfinished jobs, held until it is used or destroyed.
  class Place {
   public:
    Place(Place&& other) noexcept
        : scheduler_(std::exchange(other.scheduler_, nullptr)), place_(other.place_) {}
    Place& operator=(Place&&) = delete;
    ~Place();

   private:
    friend class Scheduler;
    using Places = std::multimap<std::string, size_t>;  // source bytes by owner
    Place(Scheduler* scheduler, Places::iterator place) : scheduler_(scheduler), place_(place) {}
    Scheduler* scheduler_;
    Places::iterator place_;
  };
  // RESOURCE_EXHAUSTED when too many jobs are unfinished, of all or of the owner, or the owner's
  // have had a device for as long as they may; UNAVAILABLE when the daemon drains or stops. No
  // principal but an operator may have more places than it leaves to others, so a newcomer finds
  // one, nor may its jobs hold more than kSourceBytesMax of sources while they wait.
  absl::StatusOr<Place> TakePlace(const std::string& owner, size_t source_bytes = 0);
  static constexpr size_t kSourceBytesMax = size_t{64} << 20;

  // Stores a job with its request and queues it. Durable when it returns. `keep_sources` is called
  // once the job has its place, so a job that is refused leaves no sources.
  absl::StatusOr<std::shared_ptr<Job>> Submit(db::JobRow row, std::vector<std::string> devices,
                                              std::shared_ptr<JobWork> work,
                                              const std::string& request = "",
                                              const KeepSources& keep_sources = {});
  // Queues a job that is stored. Null if the daemon stops.
  std::shared_ptr<Job> Enqueue(std::shared_ptr<Job> job);

  // Null if the job is finished or unknown.
  std::shared_ptr<Job> Find(int64_t id) const;
  // Returns when the job has ended; what it ran may still be on its way out, and the device waits
  // for it. DEADLINE_EXCEEDED: it will stop, but has not yet. NOT_FOUND: no such unfinished job. An
  // error of the store: it does not run, and its end is stored once the disk takes it.
  absl::StatusOr<JobView> Cancel(int64_t id, absl::Time deadline);
  struct Counts {
    uint32_t queued = 0;
    uint32_t running = 0;
  };
  Counts counts() const;
  // A principal's part of the queue and of the devices.
  struct OwnerQueue {
    std::string owner;
    uint32_t waiting = 0;
    uint32_t running = 0;
    absl::Duration device_time;  // within DeviceTime::kHours
  };
  struct Queue {
    std::vector<OwnerQueue> owners;  // that have jobs or had a device, by name
    absl::Duration oldest_wait;      // of the jobs that wait now
  };
  Queue queue() const;
  // Cancels without waiting, and may be called from anywhere: a job that waits ends once its turn
  // comes.
  void BeginCancel(int64_t id);
  // The jobs that wait or run here.
  std::vector<int64_t> live_ids() const;
  // Whether no job runs on the device, and none that may run on it waits.
  bool IsIdle(const std::string& device_id) const;
  // Another host has the job now: it is dropped, or stops and is dropped then.
  void LeaveToOthers(int64_t id);
  // Why a job has to wait for a device although the device may be free: it is out of use, or is not
  // for the job's work now. Empty: it need not.
  std::string WhyNotOn(const Job& job, const std::string& device_id) const;
  // Was the job asked for before this scheduler was there?
  bool IsOlder(const db::JobRow& row) const { return row.created_unix_ms < started_unix_ms_; }

  // While it drains, it neither takes nor starts jobs; those that run and can go on later stop and
  // wait. Jobs that wait stay in the queue.
  void SetDraining(bool draining);
  bool draining() const;

  // Tells the running jobs to stop; those that can go on later stay unfinished in the store.
  void BeginStop();
  // BeginStop, then waits for the jobs. Idempotent.
  void Stop();

 private:
  // Times are those of SteadyNow().
  struct Entry {
    std::shared_ptr<Job> job;
    uint64_t number = 0;  // in the order of Enqueue
    size_t source_bytes = 0;
    bool running = false;
    absl::Time waits_since;
    absl::Time not_before = absl::InfinitePast();  // it pauses until then
    std::set<std::string> cannot_help;             // devices, until it waits again
  };
  struct Device {
    int64_t running = 0;              // the job that has it
    bool helps = false;               // that job, which runs on another device
    std::atomic<bool> leave = false;  // it is to end its help
    // Until when its time was added to its owner's; infinite: its work does not run.
    absl::Time charged = absl::InfiniteFuture();
    absl::Duration had_before;  // its owner's virtual time when its work began to run
    std::thread thread;
  };
  // A job that has ended, whose end the disk has not taken yet.
  struct Unstored {
    std::shared_ptr<Job> job;
    db::JobRow row;
    absl::Status status;
  };
  class RunWatch;

  void Loop(const std::string& device_id, Device& device);
  struct Choice {
    Entry* next = nullptr;  // null if no job can run now
    bool helps = false;     // the job runs on another device already
    // The time to choose again although changed_ is not notified: a pause ends, or the device that
    // a job waits for may be usable by then.
    absl::Time look_again = absl::InfiniteFuture();
  };
  // Chooses the device's next job. Each job is asked once whether it can run, so that a device
  // which becomes usable during the choice is never taken for one that nobody waits for.
  Choice NextFor(const std::string& device_id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Is there anything that the device can help the job with?
  bool CanHelp(const Entry& entry, const std::string& device_id) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static bool IsFor(const Job& job, const std::string& device_id);
  bool MayRunOn(const Job& job, const std::string& device_id) const;
  // Why it can run on none of its devices for now; empty: it can. Of the first of them.
  std::string WhyNowhere(const Job& job) const;
  // Enters or leaves the shares of the devices that a job may run on.
  void EnterShares(const Job& job) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void LeaveShares(const Job& job) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Adds to its owner's time what the job on each device has had since the last charge.
  void Charge(absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Charge(Device& device, const std::string& device_id, absl::Time now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RunOne(const std::shared_ptr<Job>& job, const std::string& device_id);
  // Stores that the job runs; a job of which that is not stored stays queued.
  absl::Status Begin(Job& job, const std::string& device_id);
  // `came_from`: see JobContext.
  JobWork::End RunWork(Job& job, const std::string& device_id, const std::string& came_from);
  // Runs the work with its device charged to its owner, until it ends.
  JobWork::End RunCharged(Job& job, JobContext& context);
  // Has the device help a job that runs on another one.
  void Help(const std::shared_ptr<Job>& job, const std::string& device_id, Device& device);
  // Charges the device from now until StopCharging, which is called `over`.
  void StartCharging(const Job& job, const std::string& device_id, absl::Time begin);
  void StopCharging(const Job& job, const std::string& device_id, absl::Time begin,
                    absl::Time over);
  // Ends the help that a job has.
  void EndHelp(int64_t job_id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The time for which the work may have the device now.
  absl::Duration TimeFor(const Job& job) const;
  // Takes account of jobs that an earlier daemon ran.
  void CountEarlier();
  absl::Duration DeviceTimeLeft(const std::string& owner) const;
  // RESOURCE_EXHAUSTED.
  absl::Status CheckDeviceTime(const std::string& owner) const;
  // Also RESOURCE_EXHAUSTED if another quota is used up.
  absl::Status CheckQuotas(const std::string& owner) const;
  bool HasStoredAll(const std::string& owner) const {
    return options_.may_store && absl::IsResourceExhausted(options_.may_store(owner));
  }
  // CANCELLED is what a user did; else it is said who ended the job.
  absl::Status TrueStatus(const Job& job, const absl::Status& status) const;
  // Is a job that did not end well to be run again: by this daemon, or by the next?
  bool GoesOn(const Job& job, const JobWork::End& end) const;
  // Stores how a job ended, then tells it. An error: the disk has not taken it, nobody is told, and
  // StoreLoop tries again. The job does not run any more.
  absl::Status Finish(const std::shared_ptr<Job>& job, const JobWork::End& end);
  // Puts a job that was interrupted or could not start back; it is not run again where the daemon
  // stops. A job whose new state is not stored pauses, and says why.
  void PutBack(const std::shared_ptr<Job>& job, JobWork::End end);
  // OK once nothing is left to do: the end is told, or that it never can be stored.
  absl::Status TryEnd(Unstored& ended);
  absl::Status StoreEnd(const Unstored& ended);
  // Waits out a full or failing disk for the jobs that ended, until the daemon stops.
  void StoreLoop();
  // The daemon stops before an end could be stored, so watchers do not get that end.
  void LeaveUnstored(Unstored& ended);
  void Forget(Job& job, const db::JobRow& row, const absl::Status& status);
  // Drops a job whose lease this host has lost: watchers are told that it goes on elsewhere.
  void Drop(Job& job);
  // Takes a job that is over here out of the queue, and returns it; null if it was not there.
  std::shared_ptr<Job> Remove(Job& job);
  // Has the work give out its result; returns the status that ends the calls of those who follow.
  static absl::Status GiveResult(Job& job, const absl::Status& status);
  // It waits for its turn as if nothing had been asked of it.
  void WaitAgain(Job& job, absl::Duration pause = absl::ZeroDuration())
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Says to each that waits who is ahead of it.
  void TellWaiting() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Asks jobs to yield that are to.
  void MakeRoom() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The jobs that wait and do not pause, in the order in which they will run if all take equally
  // long.
  std::vector<const Entry*> Waiting() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsFree(const std::string& device_id) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Has what holds the device yield it to a job that waits, if it is to.
  bool Yields(const std::string& device_id, const Job& waiting)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // `job` has the device.
  bool IsToYield(const std::string& device_id, const Device& device, const Job& job,
                 const Job& waiting) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Options options_;
  db::JobStore& store_;
  DeviceTurns& turns_;
  WatchTicker& ticker_;
  const DeviceCare care_;
  DeviceTime device_time_;  // thread-safe
  const int64_t started_unix_ms_ = absl::ToUnixMillis(absl::Now());

  mutable Mutex mutex_;
  std::condition_variable changed_;
  std::map<int64_t, Entry> live_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, Device> devices_ ABSL_GUARDED_BY(mutex_);  // nodes stay where they are
  uint64_t next_number_ ABSL_GUARDED_BY(mutex_) = 0;
  Place::Places places_ ABSL_GUARDED_BY(mutex_);
  DeviceShares shares_ ABSL_GUARDED_BY(mutex_){options_.turn, device_time_};
  std::vector<Unstored> unstored_ ABSL_GUARDED_BY(mutex_);
  // Runs StoreLoop; started by the first end that cannot be stored.
  std::thread storer_ ABSL_GUARDED_BY(mutex_);
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace tune::server
