// SPDX-License-Identifier: Apache-2.0
// The queue of the scheduler: who has a place in it, who is next, who makes room.
#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "base/plural.h"
#include "base/status_macros.h"
#include "base/steady_time.h"
#include "server/jobs/scheduler.h"
#include "server/rpc/error_detail.h"

namespace tune::server {
namespace {

constexpr int64_t kRetryAfterMs = 5000;  // of a full queue: a job takes seconds at least
// A job that gets nowhere within a turn, since its reference takes longer, has so many in a row.
constexpr int kTurnsWithoutResult = 10;
constexpr absl::Duration kLookAgain = absl::Seconds(1);  // for a device that is away

absl::Status QueueFull(const std::string& why) {
  v1::ErrorDetail detail;
  detail.set_reason(v1::ERROR_REASON_QUEUE_FULL);
  detail.set_retry_after_ms(kRetryAfterMs);
  return WithDetail(absl::ResourceExhaustedError(why), detail);
}

}  // namespace

absl::Duration Scheduler::DeviceTimeLeft(const std::string& owner) const {
  if (!options_.device_time_max_of) return absl::InfiniteDuration();
  return options_.device_time_max_of(owner) - device_time_.Of(owner, SteadyNow());
}

absl::Status Scheduler::CheckDeviceTime(const std::string& owner) const {
  if (DeviceTimeLeft(owner) > absl::ZeroDuration()) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "jobs of ", owner, " have had a device for ",
      absl::FormatDuration(absl::Trunc(device_time_.Of(owner, SteadyNow()), absl::Seconds(1))),
      " within ", DeviceTime::kHours, " hours, and may for ",
      absl::FormatDuration(options_.device_time_max_of(owner)),
      ". Try again in some hours; an "
      "operator may start tunerd with a larger --device-seconds-per-principal"));
}

absl::Status Scheduler::CheckQuotas(const std::string& owner) const {
  RETURN_IF_ERROR(CheckDeviceTime(owner));
  return options_.may_store ? options_.may_store(owner) : absl::OkStatus();
}

Scheduler::Place::~Place() {
  if (scheduler_ == nullptr) return;
  MutexLock lock(scheduler_->mutex_);
  scheduler_->places_.erase(place_);
}

absl::StatusOr<Scheduler::Place> Scheduler::TakePlace(const std::string& owner,
                                                      size_t source_bytes) {
  RETURN_IF_ERROR(CheckQuotas(owner));
  const bool is_operator = !options_.is_operator || options_.is_operator(owner);
  const size_t places = options_.unfinished_max + (is_operator ? options_.operator_jobs : 0);
  const size_t of_owner_max = options_.jobs_max_of ? options_.jobs_max_of(owner) : places;
  MutexLock lock(mutex_);
  if (stopping_) {
    return WithReason(absl::UnavailableError("the daemon is stopping"), v1::ERROR_REASON_STOPPING);
  }
  if (draining_) {
    return WithReason(
        absl::UnavailableError("the daemon is draining and takes no jobs; an operator ends that "
                               "with `tunectl server drain --undo`"),
        v1::ERROR_REASON_STOPPING);
  }
  const size_t taken = live_.size() + places_.size();
  if (taken >= places) {
    return QueueFull(absl::StrCat("the queue is full: ", places,
                                  " jobs wait or run. `tunectl job cancel` one, try again later, "
                                  "or start tunerd with a larger --queue"));
  }
  size_t of_owner = 0;
  size_t held = source_bytes;
  for (auto [place, end] = places_.equal_range(owner); place != end; ++place) {
    ++of_owner;
    held += place->second;
  }
  for (const auto& [id, entry] : live_) {
    if (entry.job->owner() != owner) continue;
    ++of_owner;
    held += entry.source_bytes;
  }
  if (of_owner >= of_owner_max) {
    return QueueFull(absl::StrCat(of_owner_max, " jobs of ", owner,
                                  " wait or run already, as many "
                                  "as may. `tunectl job cancel` one, or try again later; an "
                                  "operator may start tunerd with a larger --jobs-per-principal"));
  }
  if (!is_operator && of_owner >= places - taken) {
    return QueueFull(absl::StrCat(
        of_owner, " jobs of ", owner, " wait or run already, and ", places - taken,
        " places of the queue are left, which are for others. `tunectl job cancel` one, or try "
        "again later; an operator may start tunerd with a larger --queue"));
  }
  if (!is_operator && held > kSourceBytesMax) {
    return QueueFull(absl::StrCat("jobs of ", owner, " that wait or run would hold ", held >> 20,
                                  " MiB of sources, and may ", kSourceBytesMax >> 20,
                                  ": submit it again once some of them have ended"));
  }
  return Place(this, places_.emplace(owner, source_bytes));
}

bool Scheduler::IsFor(const Job& job, const std::string& device_id) {
  const std::vector<std::string>& devices = job.devices();
  return std::find(devices.begin(), devices.end(), device_id) != devices.end();
}

std::string Scheduler::WhyNotOn(const Job& job, const std::string& device_id) const {
  std::string why;
  if (options_.why_out_of_use) why = options_.why_out_of_use(device_id);
  return why.empty() ? job.work().WhyNotOn(device_id) : why;
}

bool Scheduler::MayRunOn(const Job& job, const std::string& device_id) const {
  return IsFor(job, device_id) && WhyNotOn(job, device_id).empty();
}

std::string Scheduler::WhyNowhere(const Job& job) const {
  std::string first;
  for (const std::string& id : job.devices()) {
    std::string why = WhyNotOn(job, id);
    if (why.empty()) return "";
    if (first.empty()) first = std::move(why);
  }
  return first;
}

void Scheduler::EnterShares(const Job& job) {
  for (const std::string& id : job.devices()) shares_.Enter(id, job.owner());
}

void Scheduler::LeaveShares(const Job& job) {
  for (const std::string& id : job.devices()) shares_.Leave(id, job.owner());
}

void Scheduler::Charge(absl::Time now) {
  for (auto& [id, device] : devices_) Charge(device, id, now);
}

void Scheduler::Charge(Device& device, const std::string& device_id, absl::Time now) {
  const auto running = live_.find(device.running);
  if (running == live_.end() || now <= device.charged) return;
  const std::string& owner = running->second.job->owner();
  shares_.Add(device_id, owner, device.charged, now);
  device.charged = now;
}

// Jobs that wait come before help for one that runs.
Scheduler::Choice Scheduler::NextFor(const std::string& device_id) {
  const absl::Time now = SteadyNow();
  const auto rank = [&](const Entry& entry) {
    return std::tuple(entry.job->priority(), entry.running,
                      shares_.Had(device_id, entry.job->owner()), entry.number);
  };
  Choice choice;
  if (draining_) return choice;
  for (auto& [id, entry] : live_) {
    if (!IsFor(*entry.job, device_id)) continue;
    if (entry.running && !CanHelp(entry, device_id)) continue;
    if (now < entry.not_before) {
      choice.look_again = std::min(choice.look_again, entry.not_before);
    } else if (!WhyNotOn(*entry.job, device_id).empty()) {
      choice.look_again = std::min(choice.look_again, now + kLookAgain);
    } else if (choice.next == nullptr || rank(entry) < rank(*choice.next)) {
      choice.next = &entry;
    }
  }
  choice.helps = choice.next != nullptr && choice.next->running;
  return choice;
}

std::vector<const Scheduler::Entry*> Scheduler::Waiting() const {
  const absl::Time now = SteadyNow();
  std::vector<const Entry*> waiting;
  for (const auto& [id, entry] : live_) {
    if (!entry.running && now >= entry.not_before) waiting.push_back(&entry);
  }
  std::sort(waiting.begin(), waiting.end(),
            [](const Entry* a, const Entry* b) { return a->number < b->number; });
  // The first job of each principal comes in its first turn, the second in its second.
  std::map<std::tuple<std::string, db::JobPriority, std::string>, size_t> turns;
  std::map<std::tuple<db::JobPriority, size_t, absl::Duration, uint64_t>, const Entry*> ranked;
  for (const Entry* entry : waiting) {
    const Job& job = *entry->job;
    const std::string& device_id = job.devices().front();
    const size_t turn = turns[{device_id, job.priority(), job.owner()}]++;
    ranked[{job.priority(), turn, shares_.Had(device_id, job.owner()), entry->number}] = entry;
  }
  waiting.clear();
  for (const auto& [rank, entry] : ranked) waiting.push_back(entry);
  return waiting;
}

bool Scheduler::IsFree(const std::string& device_id) const {
  const Device& device = devices_.at(device_id);
  const auto running = live_.find(device.running);
  if (running == live_.end() || !running->second.running || device.leave) return true;
  return running->second.job->control.yields;
}

bool Scheduler::Yields(const std::string& device_id, const Job& waiting) {
  Device& device = devices_.at(device_id);
  const auto running = live_.find(device.running);
  if (running == live_.end() || !running->second.running) return false;
  Job& job = *running->second.job;
  if (!IsToYield(device_id, device, job, waiting)) return false;
  if (device.helps) {
    device.leave = true;
  } else {
    job.control.yields = true;
    job.control.stop = true;
  }
  return true;
}

bool Scheduler::IsToYield(const std::string& device_id, const Device& device, const Job& job,
                          const Job& waiting) const {
  if (!job.work().resumable()) return false;
  if (waiting.priority() < job.priority()) return true;
  if (waiting.priority() > job.priority() || waiting.owner() == job.owner()) return false;
  if (device.charged == absl::InfiniteFuture()) return false;  // its turn has not begun
  const absl::Duration turn = shares_.Had(device_id, job.owner()) - device.had_before;
  return turn >= options_.turn * (job.control.got_on ? 1 : kTurnsWithoutResult) &&
         shares_.Had(device_id, job.owner()) > shares_.Had(device_id, waiting.owner());
}

void Scheduler::MakeRoom() {
  Charge(SteadyNow());
  if (draining_) return;
  std::set<std::string> promised;  // devices that one of those who wait will have
  for (const Entry* entry : Waiting()) {
    const std::vector<std::string>& devices = entry->job->devices();
    const auto device = std::find_if(devices.begin(), devices.end(), [&](const std::string& id) {
      return IsFree(id) && !promised.contains(id) && MayRunOn(*entry->job, id);
    });
    if (device != devices.end()) {
      promised.insert(*device);
      continue;
    }
    for (const std::string& id : devices) {
      const bool may = !promised.contains(id) && MayRunOn(*entry->job, id);
      if (!may || !Yields(id, *entry->job)) continue;
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
        absl::StrAppend(&message, "; ", Counted(others, "other job is", "other jobs are"),
                        " ahead of it");
      }
    }
    // The job is queued even though no other job has the device.
    const std::string away =
        draining_ ? "the daemon is draining and starts no jobs" : WhyNowhere(*entry->job);
    if (!away.empty()) message = absl::StrCat("waiting: ", away);
    entry->job->Update([&](JobView& view) {
      view.waiting = away.empty() && !message.empty();
      view.row.message = message;
    });
  }
}

void Scheduler::SetDraining(bool draining) {
  MutexLock lock(mutex_);
  draining_ = draining;
  if (draining_) {
    for (auto& [id, entry] : live_) {
      if (!entry.running || !entry.job->work().resumable()) continue;
      entry.job->control.yields = true;
      entry.job->control.stop = true;
    }
  } else {
    MakeRoom();
  }
  TellWaiting();
  changed_.notify_all();
}

bool Scheduler::draining() const {
  MutexLock lock(mutex_);
  return draining_;
}

Scheduler::Counts Scheduler::counts() const {
  MutexLock lock(mutex_);
  Counts counts;
  for (const auto& [id, entry] : live_) ++(entry.running ? counts.running : counts.queued);
  return counts;
}

Scheduler::Queue Scheduler::queue() const {
  const absl::Time now = SteadyNow();
  std::map<std::string, OwnerQueue> owners;
  for (const std::string& owner : device_time_.Owners(now)) owners[owner];
  Queue queue;
  {
    MutexLock lock(mutex_);
    for (const auto& [id, entry] : live_) {
      OwnerQueue& one = owners[entry.job->owner()];
      ++(entry.running ? one.running : one.waiting);
      if (!entry.running) queue.oldest_wait = std::max(queue.oldest_wait, now - entry.waits_since);
    }
  }
  for (auto& [owner, one] : owners) {
    one.owner = owner;
    one.device_time = device_time_.Of(owner, now);
    queue.owners.push_back(std::move(one));
  }
  return queue;
}

}  // namespace tune::server
