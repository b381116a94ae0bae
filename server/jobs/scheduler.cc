// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/scheduler.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "db/store_faults.h"
#include "server/rpc/error_detail.h"
#include "tuner/status_macros.h"
#include "tuner/steady_time.h"

namespace tune::server {
namespace {

constexpr std::chrono::seconds kStoreAgain(1);
constexpr int64_t kRetryAfterMs = 5000;  // of a full queue: a job takes seconds at least

db::JobState StateOf(const absl::Status& status) {
  if (status.ok()) return db::JobState::kDone;
  return absl::IsCancelled(status) ? db::JobState::kCancelled : db::JobState::kFailed;
}

absl::Status Stopping() {
  return WithReason(absl::UnavailableError("the daemon is stopping"), v1::ERROR_REASON_STOPPING);
}

constexpr uint32_t kCountedJobs = 10'000;  // the newest

absl::Status QueueFull(const std::string& why) {
  v1::ErrorDetail detail;
  detail.set_reason(v1::ERROR_REASON_QUEUE_FULL);
  detail.set_retry_after_ms(kRetryAfterMs);
  return WithDetail(absl::ResourceExhaustedError(why), detail);
}

// Ends work that takes longer than its kind may.
class TimeLimit {
 public:
  TimeLimit(Job& job, absl::Duration limit) {
    if (limit == absl::InfiniteDuration()) return;
    thread_ = std::thread([this, &job, until = SteadyNow() + limit] {
      std::unique_lock lock(mutex_);
      if (!changed_.wait_for(lock, LeftUntil(until), [this] { return over_; })) {
        job.control.overdue = true;
        job.control.stop = true;
      }
    });
  }
  ~TimeLimit() {
    {
      std::lock_guard lock(mutex_);
      over_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool over_ = false;  // guarded by mutex_
  std::thread thread_;
};

}  // namespace

Scheduler::Scheduler(const Options& options, db::Store& store, DeviceTurns& turns,
                     WatchTicker& ticker, DeviceCare care)
    : options_(options), store_(store), turns_(turns), ticker_(ticker), care_([&] {
        if (!care.quiet) care.quiet = [](const auto&, const auto&) { return CompilePause(); };
        return std::move(care);
      }()) {
  CountEarlier();
}

// As far as their rows tell: between its turns, what was interrupted waited.
void Scheduler::CountEarlier() {
  if (!options_.device_time_max_of) return;
  const absl::StatusOr<std::vector<db::JobRow>> rows = store_.ListJobs({.limit = kCountedJobs});
  if (!rows.ok()) {
    spdlog::error("the quotas of device time begin anew: {}", rows.status().ToString());
    return;
  }
  for (const db::JobRow& row : *rows) {
    if (row.started_unix_ms == 0 || row.finished_unix_ms == 0) continue;
    device_time_.Add(row.owner, absl::FromUnixMillis(row.started_unix_ms),
                     absl::FromUnixMillis(row.finished_unix_ms));
  }
}

absl::Duration Scheduler::DeviceTimeLeft(const std::string& owner) const {
  if (!options_.device_time_max_of) return absl::InfiniteDuration();
  return options_.device_time_max_of(owner) - device_time_.Of(owner, absl::Now());
}

absl::Status Scheduler::CheckDeviceTime(const std::string& owner) const {
  if (DeviceTimeLeft(owner) > absl::ZeroDuration()) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "jobs of ", owner, " have had a device for ",
      absl::FormatDuration(absl::Trunc(device_time_.Of(owner, absl::Now()), absl::Seconds(1))),
      " within ", DeviceTime::kHours, " hours, and may for ",
      absl::FormatDuration(options_.device_time_max_of(owner)), ". Try again in some hours; an "
      "operator may start tunerd with a larger --device-seconds-per-principal"));
}

Scheduler::Place::~Place() {
  if (scheduler_ == nullptr) return;
  std::lock_guard lock(scheduler_->mutex_);
  scheduler_->places_.erase(scheduler_->places_.find(owner_));
}

absl::StatusOr<Scheduler::Place> Scheduler::TakePlace(const std::string& owner) {
  RETURN_IF_ERROR(CheckDeviceTime(owner));
  const size_t of_owner_max =
      options_.jobs_max_of ? options_.jobs_max_of(owner) : options_.unfinished_max;
  std::lock_guard lock(mutex_);
  if (stopping_) return Stopping();
  if (live_.size() + places_.size() >= options_.unfinished_max) {
    return QueueFull(absl::StrCat("the queue is full: ", options_.unfinished_max,
                                  " jobs wait or run. `tunectl job cancel` one, try again later, "
                                  "or start tunerd with a larger --queue"));
  }
  const auto of_owner = std::count_if(live_.begin(), live_.end(), [&](const auto& entry) {
    return entry.second.job->owner() == owner;
  });
  if (static_cast<size_t>(of_owner) + places_.count(owner) >= of_owner_max) {
    return QueueFull(absl::StrCat(of_owner_max, " jobs of ", owner, " wait or run already, as many "
                                  "as may. `tunectl job cancel` one, or try again later; an "
                                  "operator may start tunerd with a larger --jobs-per-principal"));
  }
  places_.insert(owner);
  return Place(this, owner);
}

absl::StatusOr<std::shared_ptr<Job>> Scheduler::Submit(db::JobRow row,
                                                       std::vector<std::string> devices,
                                                       std::shared_ptr<JobWork> work) {
  ASSIGN_OR_RETURN(const Place place, TakePlace(row.owner));
  row.device_id = devices.front();
  row.created_unix_ms = absl::ToUnixMillis(absl::Now());
  ASSIGN_OR_RETURN(row.id, store_.AddJob(row));
  std::shared_ptr<Job> job =
      Enqueue(std::make_shared<Job>(std::move(row), std::move(devices), std::move(work)));
  if (job == nullptr) return Stopping();
  return job;
}

std::shared_ptr<Job> Scheduler::Enqueue(std::shared_ptr<Job> job) {
  std::lock_guard lock(mutex_);
  if (stopping_ || live_.contains(job->id())) return nullptr;
  live_[job->id()] = {.job = job, .number = next_number_++};
  for (const std::string& id : job->devices()) {
    Device& device = devices_[id];
    if (device.thread.joinable()) continue;
    device.thread = std::thread([this, id, &device] { Loop(id, device); });
  }
  MakeRoom();
  TellWaiting();
  changed_.notify_all();
  return job;
}

bool Scheduler::MayRunOn(const Job& job, const std::string& device_id) {
  const std::vector<std::string>& devices = job.devices();
  return std::find(devices.begin(), devices.end(), device_id) != devices.end();
}

bool Scheduler::ComesBefore(const Entry& a, const Entry& b) {
  const auto rank = [](const Entry& entry) {
    return std::pair(entry.job->priority(), entry.number);
  };
  return rank(a) < rank(b);
}

Scheduler::Entry* Scheduler::NextFor(const std::string& device_id) {
  Entry* next = nullptr;
  for (auto& [id, entry] : live_) {
    if (entry.running || !MayRunOn(*entry.job, device_id)) continue;
    if (next == nullptr || ComesBefore(entry, *next)) next = &entry;
  }
  return next;
}

std::vector<const Scheduler::Entry*> Scheduler::Waiting() const {
  std::vector<const Entry*> waiting;
  for (const auto& [id, entry] : live_) {
    if (!entry.running) waiting.push_back(&entry);
  }
  std::sort(waiting.begin(), waiting.end(),
            [](const Entry* a, const Entry* b) { return ComesBefore(*a, *b); });
  return waiting;
}

bool Scheduler::IsFree(const std::string& device_id) const {
  const auto running = live_.find(devices_.at(device_id).running);
  if (running == live_.end() || !running->second.running) return true;
  return running->second.job->control.yields;
}

Job* Scheduler::WhoYields(const std::string& device_id) const {
  const auto running = live_.find(devices_.at(device_id).running);
  if (running == live_.end() || !running->second.running) return nullptr;
  Job& job = *running->second.job;
  const bool background = job.priority() == db::JobPriority::kBackground;
  return background && job.work().resumable() ? &job : nullptr;
}

void Scheduler::MakeRoom() {
  std::set<std::string> promised;  // devices that one of those who wait will have
  for (const Entry* entry : Waiting()) {
    if (entry->job->priority() != db::JobPriority::kInteractive) continue;
    const std::vector<std::string>& devices = entry->job->devices();
    const auto device =
        std::find_if(devices.begin(), devices.end(), [&](const std::string& id) {
          return IsFree(id) && !promised.contains(id);
        });
    if (device != devices.end()) {
      promised.insert(*device);
      continue;
    }
    for (const std::string& id : devices) {
      Job* other = promised.contains(id) ? nullptr : WhoYields(id);
      if (other == nullptr) continue;
      other->control.yields = true;
      other->control.stop = true;
      promised.insert(id);
      break;
    }
  }
}

void Scheduler::TellWaiting() {
  std::map<std::string, size_t> ahead;
  for (const Entry* entry : Waiting()) {
    const std::string& device_id = entry->job->devices().front();
    const auto holder = live_.find(devices_[device_id].running);
    const size_t others = ahead[device_id]++;
    std::string message;
    if (holder != live_.end()) {
      message = absl::StrCat("waiting for ", device_id, ", which ",
                             holder->second.job->work().Name(), " has");
      if (others > 0) {
        absl::StrAppend(&message, "; ", others, others == 1 ? " other job is" : " other jobs are",
                        " ahead of it");
      }
    }
    entry->job->Update([&](JobView& view) {
      view.waiting = !message.empty();
      view.row.message = message;
    });
  }
}

void Scheduler::Loop(const std::string& device_id, Device& device) {
  while (true) {
    std::shared_ptr<Job> job;
    {
      std::unique_lock lock(mutex_);
      Entry* next = nullptr;
      changed_.wait(lock, [&] { return stopping_ || (next = NextFor(device_id)) != nullptr; });
      if (stopping_) return;
      next->running = true;
      job = next->job;
      device.running = job->id();
      TellWaiting();
    }
    RunOne(job, device_id);
    std::lock_guard lock(mutex_);
    device.running = 0;
    MakeRoom();
    TellWaiting();
    changed_.notify_all();
  }
}

void Scheduler::RunOne(const std::shared_ptr<Job>& job, const std::string& device_id) {
  absl::StatusOr<DeviceTurns::Turn> turn = turns_.Take(
      device_id, job->work().Name(), [&] { return job->control.stop.load(); },
      [&](const std::string& holder) {
        job->Update([&](JobView& view) {
          view.waiting = true;
          view.row.message = absl::StrCat("waiting for ", device_id, ", which ", holder, " has");
        });
      });
  JobWork::End end{.status = turn.status(), .interrupted = true};
  if (turn.ok()) {
    // Jobs that were queued with it may have used up the time since.
    const absl::Status allowed = CheckDeviceTime(job->owner());
    end = allowed.ok() ? RunWork(*job, device_id) : JobWork::End{.status = allowed};
  }
  if (end.interrupted && job->control.cancelled) end.status = absl::CancelledError("cancelled");
  end.status = TrueStatus(*job, end.status);
  if (end.interrupted && job->work().resumable() && !job->control.cancelled) {
    PutBack(job);
  } else {
    Finish(*job, end);
  }
  end.remains.reset();
}

absl::Status Scheduler::TrueStatus(const Job& job, const absl::Status& status) const {
  if (!absl::IsCancelled(status) || job.control.cancelled) return status;
  if (job.control.overdue) {
    RETURN_IF_ERROR(CheckDeviceTime(job.owner()));
    return absl::DeadlineExceededError(
        absl::StrCat(job.work().Name(), " took longer than ",
                     absl::FormatDuration(job.work().time_max()), " and was stopped"));
  }
  std::lock_guard lock(mutex_);
  return stopping_ ? absl::UnavailableError("the daemon stopped before it was done") : status;
}

JobWork::End Scheduler::RunWork(Job& job, const std::string& device_id) {
  job.Update([&](JobView& view) {
    view.waiting = false;
    view.row.state = db::JobState::kRunning;
    view.row.device_id = device_id;
    view.row.message.clear();
    if (view.row.started_unix_ms == 0) {
      view.row.started_unix_ms = absl::ToUnixMillis(absl::Now());
    }
  });
  const db::JobRow row = job.view().row;
  if (absl::Status stored = job.work().Store(row); !stored.ok()) {
    spdlog::error("job {}: that it runs is not stored: {}", row.id, stored.ToString());
  }
  spdlog::info("job {}: {}, {} on {}", row.id, job.work().Name(), row.subject, device_id);
  if (care_.before) care_.before(device_id);
  JobContext context(job, device_id, care_.quiet);
  JobWork::End end;
  const absl::Time begin = absl::Now();
  const absl::Duration left = DeviceTimeLeft(job.owner());
  {
    const TimeLimit limit(job, std::min(job.work().time_max(), left));
    end = job.work().Run(context);
  }
  absl::Time over = absl::Now();
  // Clocks differ by a little: what was stopped for its quota has used it up.
  if (job.control.overdue && left < job.work().time_max()) over = std::max(over, begin + left);
  device_time_.Add(job.owner(), begin, over);
  if (care_.after) care_.after(device_id);
  return end;
}

// Stopped in order: no death of the daemon.
void Scheduler::PutBack(const std::shared_ptr<Job>& job) {
  job->Update([](JobView& view) {
    view.row.state = db::JobState::kQueued;
    view.row.message.clear();
  });
  bool stopping = false;
  {
    std::lock_guard lock(mutex_);
    stopping = stopping_;
  }
  if (stopping && options_.embedded) return;  // it is told to be interrupted
  const db::JobRow row = job->view().row;
  if (absl::Status stored = job->work().Store(row); !stored.ok()) {
    spdlog::error("job {}: that it was interrupted is not stored: {}", row.id, stored.ToString());
  }
  {
    std::lock_guard lock(mutex_);
    if (!job->control.cancelled) {
      if (!stopping_) WaitAgain(*job);
      return;
    }
  }
  // Cancelled since it was asked to yield.
  if (absl::Status stored = CancelWaiting(job); !stored.ok()) {
    spdlog::error("job {}: that it was cancelled is not stored: {}", row.id, stored.ToString());
  }
}

void Scheduler::WaitAgain(Job& job) {
  job.control.cancelled = false;
  job.control.yields = false;
  job.control.stop = stopping_;
  const auto it = live_.find(job.id());
  if (it == live_.end()) return;
  it->second.running = false;
  TellWaiting();
  changed_.notify_all();
}

void Scheduler::Finish(Job& job, const JobWork::End& end) {
  db::JobRow row = job.view().row;
  row.state =
      job.control.cancelled && !end.status.ok() ? db::JobState::kCancelled : StateOf(end.status);
  row.message = end.message.empty() ? std::string(end.status.message()) : end.message;
  row.finished_unix_ms = absl::ToUnixMillis(absl::Now());
  if (absl::Status status = StoreEnd(job, row); !status.ok()) {
    // What it measured is stored: the next start of the daemon finishes it from that.
    spdlog::error("job {}: its end was not stored: {}", row.id, status.ToString());
  }
  Forget(job, row, end.status);
}

absl::Status Scheduler::StoreEnd(Job& job, const db::JobRow& row) {
  while (true) {
    const absl::Status stored = job.work().Store(row);
    if (stored.ok() || !db::MayPass(stored)) return stored;
    const std::string message =
        absl::StrCat("ended, but that is not stored yet: ", stored.message());
    if (job.view().row.message != message) {
      spdlog::warn("job {}: {}", row.id, message);
      job.Update([&](JobView& view) { view.row.message = message; });
    }
    std::unique_lock lock(mutex_);
    if (changed_.wait_for(lock, kStoreAgain, [this] { return stopping_; })) return stored;
  }
}

void Scheduler::Forget(Job& job, const db::JobRow& row, const absl::Status& status) {
  spdlog::info("job {}: ended{}{}", row.id, row.message.empty() ? "" : "; ", row.message);
  job.Update([&](JobView& view) { view = {.row = row}; });
  job.work().Ended(status);
  std::shared_ptr<Job> kept;
  {
    std::lock_guard lock(mutex_);
    if (auto it = live_.find(row.id); it != live_.end()) {
      kept = std::move(it->second.job);
      live_.erase(it);
    }
    changed_.notify_all();
  }
  job.feed().End(status);
  ticker_.Poke();
}

absl::StatusOr<JobView> Scheduler::Cancel(int64_t id, absl::Time deadline) {
  std::shared_ptr<Job> job;
  bool waiting = false;
  {
    std::lock_guard lock(mutex_);
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
  if (waiting) RETURN_IF_ERROR(CancelWaiting(job));
  std::unique_lock lock(mutex_);
  if (!changed_.wait_for(lock, LeftUntil(deadline),
                         [&] { return stopping_ || !live_.contains(id); })) {
    return absl::DeadlineExceededError(absl::StrCat("job ", id, " is still stopping"));
  }
  return job->view();
}

// Nobody is told that it is cancelled before that is durable.
absl::Status Scheduler::CancelWaiting(const std::shared_ptr<Job>& job) {
  db::JobRow row = job->view().row;
  row.state = db::JobState::kCancelled;
  row.message = row.started_unix_ms == 0 ? "it had not started" : "";
  row.finished_unix_ms = absl::ToUnixMillis(absl::Now());
  const absl::Status stored = job->work().Store(row);
  if (stored.ok()) {
    Forget(*job, row, absl::CancelledError(row.message));
    return stored;
  }
  std::lock_guard lock(mutex_);
  WaitAgain(*job);
  return stored;
}

void Scheduler::BeginCancel(int64_t id) {
  std::lock_guard lock(mutex_);
  const auto it = live_.find(id);
  if (it == live_.end()) return;
  it->second.job->control.cancelled = true;
  it->second.job->control.stop = true;
}

std::shared_ptr<Job> Scheduler::Find(int64_t id) const {
  std::lock_guard lock(mutex_);
  const auto it = live_.find(id);
  return it == live_.end() ? nullptr : it->second.job;
}

Scheduler::Counts Scheduler::counts() const {
  std::lock_guard lock(mutex_);
  Counts counts;
  for (const auto& [id, entry] : live_) ++(entry.running ? counts.running : counts.queued);
  return counts;
}

void Scheduler::BeginStop() {
  std::lock_guard lock(mutex_);
  stopping_ = true;
  changed_.notify_all();
  for (auto& [id, entry] : live_) entry.job->control.stop = true;
}

void Scheduler::Stop() {
  BeginStop();
  std::vector<std::thread> threads;
  {
    std::lock_guard lock(mutex_);
    for (auto& [id, device] : devices_) threads.push_back(std::move(device.thread));
  }
  for (std::thread& thread : threads) {
    if (thread.joinable()) thread.join();
  }
  std::map<int64_t, Entry> left;
  {
    std::lock_guard lock(mutex_);
    left.swap(live_);
  }
  // Who waits for a job that never ran is told; the next start of the daemon ends its row.
  for (auto& [id, entry] : left) {
    const absl::Status status = Stopping();
    if (!entry.job->work().resumable()) entry.job->work().Ended(status);
    entry.job->feed().End(status);
  }
}

}  // namespace tune::server
