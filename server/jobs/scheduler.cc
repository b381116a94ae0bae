// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/scheduler.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/contained.h"
#include "base/status_macros.h"
#include "base/steady_time.h"
#include "db/store_faults.h"
#include "server/rpc/error_detail.h"
#include "server/supervision/acting_for.h"

namespace tune::server {
namespace {

constexpr std::chrono::seconds kStoreAgain(1);
constexpr absl::Duration kStorePause = absl::Seconds(5);
constexpr std::chrono::milliseconds kLookAtTurns(250);
constexpr absl::Duration kClocksDiffer = absl::Milliseconds(10);

db::JobState StateOf(const absl::Status& status) {
  if (status.ok()) return db::JobState::kDone;
  return absl::IsCancelled(status) ? db::JobState::kCancelled : db::JobState::kFailed;
}

absl::Status Stopping() {
  return WithReason(absl::UnavailableError("the daemon is stopping"), v1::ERROR_REASON_STOPPING);
}

constexpr uint32_t kCountedJobs = 10'000;  // the newest

// May the end of a job be stored later? One that hangs may be stored already, which does no harm.
bool IsWorthAnotherTry(const absl::Status& stored) {
  return db::MayPass(stored) || absl::IsDeadlineExceeded(stored);
}

std::string NotStored(const char* what, const absl::Status& stored) {
  return absl::StrCat("waiting for the disk: that ", what, " is not stored: ", stored.message());
}

absl::Status StoreRow(db::JobStore& store, Job& job, const db::JobRow& row) {
  return Contained([&] { return job.work().Store(store, row); });
}

// The end of a job that is cancelled while it waits.
JobWork::End CancelledWaiting(const Job& job) {
  const bool started = job.view().row.started_unix_ms != 0;
  return {.status = absl::CancelledError(started ? "" : "it had not started")};
}

}  // namespace

// Looks after work while it runs: ends it when its time is over, and sees whether its turn is.
class Scheduler::RunWatch {
 public:
  RunWatch(Scheduler& scheduler, Job& job, absl::Duration limit)
      : thread_([this, &scheduler, &job, until = SteadyNow() + limit] {
          while (!IsOverWithin(job.control.overdue ? kLookAtTurns
                                                   : std::min(kLookAtTurns, LeftUntil(until)))) {
            // Devices that help use up the owner's time as well.
            if (SteadyNow() >= until || scheduler.HasStoredAll(job.owner()) ||
                scheduler.DeviceTimeLeft(job.owner()) <= absl::ZeroDuration()) {
              job.control.overdue = true;
              job.control.stop = true;
            }
            MutexLock lock(scheduler.mutex_);
            scheduler.MakeRoom();
            if (job.work().wants_help()) scheduler.changed_.notify_all();
          }
        }) {}
  ~RunWatch() {
    {
      MutexLock lock(mutex_);
      over_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

 private:
  bool IsOverWithin(std::chrono::milliseconds time) {
    MutexLock lock(mutex_);
    return changed_.wait_for(lock.native(), time,
                             [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return over_; });
  }

  Mutex mutex_;
  std::condition_variable changed_;
  bool over_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: it uses all of the above
};

Scheduler::Scheduler(const Options& options, db::JobStore& store, DeviceTurns& turns,
                     WatchTicker& ticker, DeviceCare care)
    : options_(options), store_(store), turns_(turns), ticker_(ticker), care_([&] {
        if (!care.quiet) care.quiet = [](const auto&, const auto&) { return CompilePause(); };
        return std::move(care);
      }()) {
  CountEarlier();
}

// Charges earlier jobs to their owners, for quotas and shares. This is an upper bound: an
// interrupted job is charged from its first start to its end, including the time between its turns.
void Scheduler::CountEarlier() {
  if (options_.embedded) return;  // its jobs are one user's
  const absl::StatusOr<std::vector<db::JobRow>> rows = store_.ListJobs({.limit = kCountedJobs});
  if (!rows.ok()) {
    spdlog::error("quotas and shares of device time begin anew: {}", rows.status().ToString());
    return;
  }
  const absl::Time now = absl::Now();
  for (const db::JobRow& row : *rows) {
    if (row.started_unix_ms == 0 || row.finished_unix_ms == 0) continue;
    // If the clock was set back, a job may have ended in the future.
    const absl::Duration ago =
        std::max(absl::ZeroDuration(), now - absl::FromUnixMillis(row.finished_unix_ms));
    const absl::Time end = SteadyNow() - ago;
    device_time_.Add(row.owner,
                     end - absl::Milliseconds(row.finished_unix_ms - row.started_unix_ms), end);
  }
}

absl::StatusOr<std::shared_ptr<Job>> Scheduler::Submit(db::JobRow row,
                                                       std::vector<std::string> devices,
                                                       std::shared_ptr<JobWork> work,
                                                       const std::string& request,
                                                       const KeepSources& keep_sources) {
  ASSIGN_OR_RETURN(const Place place, TakePlace(row.owner, work->source_bytes()));
  if (keep_sources) RETURN_IF_ERROR(keep_sources());
  row.device_id = devices.front();
  row.created_unix_ms = absl::ToUnixMillis(absl::Now());
  // A job of a tunectl ends with it.
  ASSIGN_OR_RETURN(row.id, store_.AddJob(row, options_.embedded ? "" : request));
  std::shared_ptr<Job> job =
      Enqueue(std::make_shared<Job>(std::move(row), std::move(devices), std::move(work)));
  if (job == nullptr) return Stopping();
  return job;
}

std::shared_ptr<Job> Scheduler::Enqueue(std::shared_ptr<Job> job) {
  MutexLock lock(mutex_);
  if (stopping_ || live_.contains(job->id())) return nullptr;
  Charge(SteadyNow());
  EnterShares(*job);
  live_[job->id()] = {.job = job,
                      .number = next_number_++,
                      .source_bytes = job->work().source_bytes(),
                      .waits_since = SteadyNow()};
  for (const std::string& id : job->devices()) {
    Device& device = devices_[id];
    if (device.thread.joinable()) continue;
    device.thread = std::thread([this, id, &device] { Loop(id, device); });
  }
  MakeRoom();
  TellWaiting();
  changed_.notify_all();
  spdlog::info("job {}: {} of {} waits, {}", job->id(), job->work().Name(), job->owner(),
               job->view().row.subject);
  return job;
}

void Scheduler::Loop(const std::string& device_id, Device& device) {
  while (true) {
    std::shared_ptr<Job> job;
    {
      MutexLock lock(mutex_);
      Choice choice;
      while (!stopping_ && (choice = NextFor(device_id)).next == nullptr) {
        if (changed_.wait_for(lock.native(), LeftUntil(choice.look_again)) ==
            std::cv_status::timeout) {
          TellWaiting();
        }
      }
      if (stopping_) return;
      choice.next->running = true;
      job = choice.next->job;
      device.running = job->id();
      device.helps = choice.helps;
      device.leave = false;
      TellWaiting();
    }
    // An exception is the end of its job and of nothing else.
    const absl::Status contained =
        Contained([&] { device.helps ? Help(job, device_id, device) : RunOne(job, device_id); });
    if (!contained.ok() && !device.helps) {
      spdlog::error("job {}: {}", job->id(), contained.ToString());
      Contained([&] { Finish(job, {.status = contained}); }).IgnoreError();
    }
    {
      MutexLock lock(mutex_);
      device.running = 0;
      device.helps = false;
      device.charged = absl::InfiniteFuture();
      MakeRoom();
      TellWaiting();
      changed_.notify_all();
    }
    if (options_.freed) options_.freed();
  }
}

void Scheduler::RunOne(const std::shared_ptr<Job>& job, const std::string& device_id) {
  const ActingFor acting({.name = job->owner()});
  const WorkingOn working({.id = job->id(), .device_id = device_id});
  absl::StatusOr<DeviceTurns::Turn> turn = turns_.Take(
      device_id, job->work().Name(), [&] { return job->control.stop.load(); },
      [&](const std::string& holder) {
        job->Update([&](JobView& view) {
          view.waiting = true;
          view.row.message = absl::StrCat("waiting for ", device_id, ", which ", holder, " has");
        });
      });
  JobWork::End end{.status = turn.status(), .interrupted = true};
  if (turn.ok() && !job->control.cancelled) {
    const db::JobRow before = job->view().row;
    const bool moves = before.started_unix_ms != 0 && before.device_id != device_id;
    // Jobs that were queued with it may have used up a quota since.
    const absl::Status allowed = CheckQuotas(job->owner());
    const absl::Status begun = allowed.ok() ? Begin(*job, device_id) : allowed;
    if (absl::IsAborted(begun)) return Drop(*job);
    // The work has not run, so that any kind of job can wait for the disk.
    if (allowed.ok() && IsWorthAnotherTry(begun)) {
      return PutBack(job, {.pause = kStorePause, .message = NotStored("it starts", begun)});
    }
    end = begun.ok() ? RunWork(*job, device_id, moves ? before.device_id : "")
                     : JobWork::End{.status = begun};
  }
  if (end.interrupted && job->control.cancelled) end.status = absl::CancelledError("cancelled");
  end.status = TrueStatus(*job, end.status);
  if (GoesOn(*job, end)) {
    PutBack(job, end);
  } else {
    Finish(job, end).IgnoreError();  // it is tried again
  }
  end.remains.reset();
}

bool Scheduler::GoesOn(const Job& job, const JobWork::End& end) const {
  if (job.control.cancelled) return false;
  if (end.interrupted && job.work().resumable()) return true;
  if (end.status.ok() || job.control.overdue || options_.embedded) return false;
  MutexLock lock(mutex_);
  return stopping_ && (job.work().runs_again() || job.view().row.started_unix_ms == 0);
}

absl::Status Scheduler::TrueStatus(const Job& job, const absl::Status& status) const {
  if (!absl::IsCancelled(status) || job.control.cancelled) return status;
  if (job.control.overdue) {
    RETURN_IF_ERROR(CheckQuotas(job.owner()));
    if (TimeFor(job) < job.work().time_max()) {
      return absl::ResourceExhaustedError(
          absl::StrCat(job.work().Name(), " has had the device for ",
                       absl::FormatDuration(TimeFor(job)), ", as long as one job of ", job.owner(),
                       " may: ask for less at once; an operator may "
                       "start tunerd with a larger --job-seconds-per-principal"));
    }
    return absl::DeadlineExceededError(absl::StrCat(job.work().Name(), " took longer than ",
                                                    absl::FormatDuration(job.work().time_max()),
                                                    " and was stopped"));
  }
  MutexLock lock(mutex_);
  return stopping_ ? absl::UnavailableError("the daemon stopped before it was done") : status;
}

absl::Status Scheduler::Begin(Job& job, const std::string& device_id) {
  db::JobRow row = job.view().row;
  row.state = db::JobState::kRunning;
  row.device_id = device_id;
  row.message.clear();
  if (row.started_unix_ms == 0) row.started_unix_ms = absl::ToUnixMillis(absl::Now());
  RETURN_IF_ERROR(StoreRow(store_, job, row));
  spdlog::info("job {}: {}, {} on {}", row.id, job.work().Name(), row.subject, device_id);
  job.Update([&](JobView& view) { view = {.row = std::move(row)}; });
  return absl::OkStatus();
}

JobWork::End Scheduler::RunWork(Job& job, const std::string& device_id,
                                const std::string& came_from) {
  if (care_.before) care_.before(device_id);
  JobContext context(job, device_id, care_.quiet, came_from);
  JobWork::End end = RunCharged(job, context);
  if (care_.after) care_.after(device_id);
  return end;
}

absl::Duration Scheduler::TimeFor(const Job& job) const {
  const absl::Duration most = job.work().time_max();
  if (job.work().resumable() || !options_.job_time_max_of) return most;
  return std::min(most, options_.job_time_max_of(job.owner()));
}

JobWork::End Scheduler::RunCharged(Job& job, JobContext& context) {
  const std::string& device_id = context.device_id();
  const absl::Time begin = SteadyNow();
  const absl::Duration left = DeviceTimeLeft(job.owner());
  const absl::Duration limit = std::min(TimeFor(job), left);
  job.control.got_on = false;
  StartCharging(job, device_id, begin);
  JobWork::End end;
  {
    const RunWatch watch(*this, job, limit);
    const absl::Status contained = Contained([&] { end = job.work().Run(context); });
    if (!contained.ok()) {
      spdlog::error("job {}: {}", job.id(), contained.ToString());
      end = {.status = contained};
    }
  }
  absl::Time over = SteadyNow();
  // Clocks differ by a little: what was stopped for its quota has used it up.
  const absl::Duration unused = std::max(begin + left - over, absl::ZeroDuration());
  if (job.control.overdue && left == limit && unused < kClocksDiffer) over += unused;
  StopCharging(job, device_id, begin, over);
  return end;
}

void Scheduler::StartCharging(const Job& job, const std::string& device_id, absl::Time begin) {
  MutexLock lock(mutex_);
  Device& device = devices_.at(device_id);
  device.charged = begin;
  device.had_before = shares_.Had(device_id, job.owner());
}

void Scheduler::StopCharging(const Job& job, const std::string& device_id, absl::Time begin,
                             absl::Time over) {
  if (options_.had_device) options_.had_device(job.owner(), device_id, over - begin);
  MutexLock lock(mutex_);
  Device& device = devices_.at(device_id);
  Charge(device, device_id, over);
  device.charged = absl::InfiniteFuture();
}

// Stopped in order: no death of the daemon.
void Scheduler::PutBack(const std::shared_ptr<Job>& job, JobWork::End end) {
  job->Update([&](JobView& view) {
    view.row.state = db::JobState::kQueued;
    view.row.message = end.pause > absl::ZeroDuration() ? end.message : "";
  });
  bool stopping = false;
  {
    MutexLock lock(mutex_);
    stopping = stopping_;
  }
  if (stopping && options_.embedded) return;  // it is told to be interrupted
  const db::JobRow row = job->view().row;
  if (absl::Status stored = StoreRow(store_, *job, row); absl::IsAborted(stored)) {
    return Drop(*job);
  } else if (!stored.ok()) {
    end.pause = std::max(end.pause, kStorePause);  // then it says so when it starts
    if (row.message.empty()) {
      job->Update([&](JobView& view) { view.row.message = NotStored("it waits", stored); });
    }
    spdlog::error("job {}: {}", row.id, job->view().row.message);
  }
  {
    MutexLock lock(mutex_);
    if (!job->control.cancelled) {
      if (!stopping_) WaitAgain(*job, end.pause);
      return;
    }
  }
  Finish(job, CancelledWaiting(*job)).IgnoreError();  // cancelled since it was asked to yield
}

void Scheduler::WaitAgain(Job& job, absl::Duration pause) {
  job.control.cancelled = false;
  job.control.yields = false;
  job.control.stop = stopping_;
  const auto it = live_.find(job.id());
  if (it == live_.end()) return;
  EndHelp(job.id());
  it->second.running = false;
  it->second.cannot_help.clear();
  it->second.waits_since = SteadyNow();
  it->second.not_before = SteadyNow() + pause;
  TellWaiting();
  changed_.notify_all();
}

absl::Status Scheduler::Finish(const std::shared_ptr<Job>& job, const JobWork::End& end) {
  Unstored ended{.job = job, .row = job->view().row, .status = end.status};
  db::JobRow& row = ended.row;
  row.state =
      job->control.cancelled && !end.status.ok() ? db::JobState::kCancelled : StateOf(end.status);
  row.message = end.message.empty() ? std::string(end.status.message()) : end.message;
  row.finished_unix_ms = absl::ToUnixMillis(absl::Now());
  absl::Status stored = TryEnd(ended);
  if (stored.ok()) return stored;
  {
    MutexLock lock(mutex_);
    if (!stopping_) {
      unstored_.push_back(std::move(ended));
      if (!storer_.joinable()) storer_ = std::thread([this] { StoreLoop(); });
      changed_.notify_all();
      return stored;
    }
  }
  LeaveUnstored(ended);
  return stored;
}

absl::Status Scheduler::TryEnd(Unstored& ended) {
  Job& job = *ended.job;
  const absl::Status stored = StoreEnd(ended);
  if (IsWorthAnotherTry(stored)) {
    const std::string message =
        absl::StrCat("ended, but that is not stored yet: ", stored.message());
    if (job.view().row.message != message) {
      spdlog::warn("job {}: {}", ended.row.id, message);
      job.Update([&](JobView& view) { view.row.message = message; });
    }
    return absl::Status(stored.code(), message);
  }
  if (stored.ok()) {
    Forget(job, ended.row, ended.status);
    return stored;
  }
  if (absl::IsAborted(stored)) {
    Drop(job);
    return absl::OkStatus();
  }
  // Nobody is told an end that the next daemon does not know of.
  spdlog::error("job {}: its end is not stored: {}", ended.row.id, stored.ToString());
  db::JobRow row = ended.row;
  row.state = db::JobState::kFailed;
  row.message = absl::StrCat("it ended, but that could not be stored: ", stored.message());
  Forget(job, row, absl::Status(stored.code(), row.message));
  return absl::OkStatus();
}

// A sweep has what it found in its own tables.
absl::Status Scheduler::StoreEnd(const Unstored& ended) {
  v1::JobEvent event;
  for (const Feed::Step& result : ended.job->feed().results()) {
    event.add_results()->PackFrom(*result);
  }
  if (ended.row.state == db::JobState::kFailed) {
    event.set_error_code(static_cast<int32_t>(ended.status.code()));
  }
  if (ended.row.kind != db::JobKind::kSweep && event.ByteSizeLong() > 0) {
    RETURN_IF_ERROR(store_.PutJobEnd(ended.row.id, event.SerializeAsString()));
  }
  return StoreRow(store_, *ended.job, ended.row);
}

void Scheduler::StoreLoop() {
  MutexLock lock(mutex_);
  while (!stopping_) {
    while (!stopping_ && unstored_.empty()) changed_.wait(lock.native());
    changed_.wait_for(lock.native(), kStoreAgain,
                      [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stopping_; });
    std::vector<Unstored> ended = std::exchange(unstored_, {});
    lock.Unlock();
    std::erase_if(ended, [this](Unstored& one) { return TryEnd(one).ok(); });
    lock.Lock();
    std::move(ended.begin(), ended.end(), std::back_inserter(unstored_));
  }
  std::vector<Unstored> left = std::exchange(unstored_, {});
  lock.Unlock();
  for (Unstored& one : left) LeaveUnstored(one);
}

void Scheduler::LeaveUnstored(Unstored& ended) {
  {
    MutexLock lock(mutex_);
    live_.erase(ended.row.id);
  }
  const absl::Status status = absl::UnavailableError(
      absl::StrCat("the daemon stopped before the end of job ", ended.row.id,
                   " was stored; what it measured is, and the next daemon ends it"));
  ended.job->feed().End(GiveResult(*ended.job, status));
}

absl::Status Scheduler::GiveResult(Job& job, const absl::Status& status) {
  const absl::Status given = Contained([&] { job.work().Ended(status); });
  if (given.ok()) return status;
  spdlog::error("job {}: its result is not given: {}", job.id(), given.ToString());
  return given;
}

void Scheduler::Forget(Job& job, const db::JobRow& row, const absl::Status& status) {
  spdlog::info("job {}: ended{}{}", row.id, row.message.empty() ? "" : "; ", row.message);
  job.Update([&](JobView& view) { view = {.row = row}; });
  if (options_.job_ended) options_.job_ended(row);
  const absl::Status given = GiveResult(job, status);
  const std::shared_ptr<Job> kept = Remove(job);
  job.feed().End(given);
  ticker_.Poke();
}

std::shared_ptr<Job> Scheduler::Remove(Job& job) {
  MutexLock lock(mutex_);
  std::shared_ptr<Job> removed;
  if (auto it = live_.find(job.id()); it != live_.end()) {
    Charge(SteadyNow());
    LeaveShares(job);
    EndHelp(job.id());
    removed = std::move(it->second.job);
    live_.erase(it);
  }
  changed_.notify_all();
  return removed;
}

absl::StatusOr<JobView> Scheduler::Cancel(int64_t id, absl::Time deadline) {
  std::shared_ptr<Job> job;
  bool waiting = false;
  {
    MutexLock lock(mutex_);
    auto it = live_.find(id);
    if (it == live_.end()) {
      return WithReason(absl::NotFoundError(absl::StrCat("no job ", id, " waits or runs here")),
                        v1::ERROR_REASON_NO_SUCH_JOB);
    }
    job = it->second.job;
    job->control.cancelled = true;
    job->control.stop = true;
    if (!it->second.running) {
      it->second.running = waiting = true;  // this call ends it
      TellWaiting();
    }
  }
  if (waiting) RETURN_IF_ERROR(Finish(job, CancelledWaiting(*job)));
  MutexLock lock(mutex_);
  if (!changed_.wait_for(lock.native(), LeftUntil(deadline),
                         [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
                           return stopping_ || !live_.contains(id);
                         })) {
    return absl::DeadlineExceededError(absl::StrCat("job ", id, " is still stopping"));
  }
  return job->view();
}

void Scheduler::BeginCancel(int64_t id) {
  MutexLock lock(mutex_);
  const auto it = live_.find(id);
  if (it == live_.end()) return;
  it->second.job->control.cancelled = true;
  it->second.job->control.stop = true;
}

std::shared_ptr<Job> Scheduler::Find(int64_t id) const {
  MutexLock lock(mutex_);
  const auto it = live_.find(id);
  return it == live_.end() ? nullptr : it->second.job;
}

void Scheduler::BeginStop() {
  MutexLock lock(mutex_);
  stopping_ = true;
  changed_.notify_all();
  for (auto& [id, entry] : live_) {
    entry.job->control.stop = true;
    EndHelp(id);
  }
}

void Scheduler::Stop() {
  BeginStop();
  std::vector<std::thread> threads;
  {
    MutexLock lock(mutex_);
    for (auto& [id, device] : devices_) threads.push_back(std::move(device.thread));
    threads.push_back(std::move(storer_));
  }
  for (std::thread& thread : threads) {
    if (thread.joinable()) thread.join();
  }
  std::map<int64_t, Entry> left;
  {
    MutexLock lock(mutex_);
    left.swap(live_);
  }
  // Who waits for a job that never ran is told; the next start of the daemon ends its row.
  for (auto& [id, entry] : left) {
    const absl::Status status = Stopping();
    const bool goes_on = entry.job->work().resumable();
    entry.job->feed().End(goes_on ? status : GiveResult(*entry.job, status));
  }
}

}  // namespace tune::server
