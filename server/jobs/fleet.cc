// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/fleet.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "absl/time/clock.h"
#include "base/contained.h"
#include "base/status_macros.h"
#include "base/steady_time.h"

namespace tune::server {
namespace {

constexpr int kTurnMsLeast = 120;
constexpr int kTurnMsMost = 330;
constexpr absl::Duration kBeat = absl::Seconds(1);

std::string TextOf(const std::map<std::string, std::string>& devices) {
  return nlohmann::json(devices).dump();
}

}  // namespace

absl::Status Fleet::Start() {
  RETURN_IF_ERROR(Join());
  thread_ = std::thread([this] { Loop(); });
  return absl::OkStatus();
}

void Fleet::BeginStop() {
  MutexLock lock(mutex_);
  claims_ = false;
}

void Fleet::Stop() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (!thread_.joinable()) return;
  thread_.join();
  if (is_out_) return;
  // If the store is away, the other hosts see that this one is gone.
  if (const absl::Status left = store_.Leave(); !left.ok()) {
    spdlog::warn("the other hosts were not told that this one leaves: {}", left.ToString());
  }
}

void Fleet::Poke() {
  MutexLock lock(mutex_);
  poked_ = true;
  changed_.notify_all();
}

void Fleet::Follow(std::function<bool()> look) {
  MutexLock lock(mutex_);
  followers_.push_back(std::move(look));
}

void Fleet::Loop() {
  while (true) {
    {
      const int pause = absl::Uniform(random_, kTurnMsLeast, kTurnMsMost);
      MutexLock lock(mutex_);
      changed_.wait_for(lock.native(), std::chrono::milliseconds(pause),
                        [this]()
                            ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stopping_ || poked_; });
      if (stopping_) return;
      poked_ = false;
    }
    absl::Status turn;
    const absl::Status contained = Contained([&] { turn = Turn(); });
    if (turn.ok()) turn = contained;
    if (!turn.ok()) seen_.clear();  // what others did meanwhile was not seen
    const std::string problem(turn.message());
    if (problem != problem_) {
      turn.ok() ? spdlog::info("the store of the fleet is back")
                : spdlog::error("the store of the fleet: {}", problem);
    }
    problem_ = problem;
    LookForFollowers();
  }
}

absl::Status Fleet::Turn() {
  if (is_out_) RETURN_IF_ERROR(JoinAgain());
  if (is_out_) return absl::OkStatus();
  const std::map<std::string, std::string> devices = hooks_.devices();
  const absl::Status beat = BeatIfDue(devices);
  if (absl::IsAborted(beat)) {
    spdlog::error("{}; its jobs stop here and go on elsewhere", std::string(beat.message()));
    is_out_ = true;
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(beat);
  RETURN_IF_ERROR(Heed());
  RETURN_IF_ERROR(Claim(devices));
  return hooks_.catch_up();
}

absl::Status Fleet::Join() {
  db::HostRow host = self_;
  host.devices = TextOf(hooks_.devices());
  host.joined_unix_ms = absl::ToUnixMillis(absl::Now());
  ASSIGN_OR_RETURN(const int64_t lease, store_.Join(host));
  spdlog::info("host {} shares the store, with lease {}", host.name, lease);
  devices_told_ = host.devices;
  return absl::OkStatus();
}

absl::Status Fleet::JoinAgain() {
  const std::vector<int64_t> left = scheduler_.live_ids();
  for (const int64_t id : left) scheduler_.LeaveToOthers(id);
  // A job that still runs must not write under the new lease.
  if (!left.empty()) return absl::OkStatus();
  RETURN_IF_ERROR(Join());
  is_out_ = false;
  return absl::OkStatus();
}

absl::Status Fleet::BeatIfDue(const std::map<std::string, std::string>& devices) {
  const std::string text = TextOf(devices);
  if (SteadyNow() < beat_next_ && text == devices_told_) return absl::OkStatus();
  RETURN_IF_ERROR(store_.Beat(text));
  devices_told_ = text;
  beat_next_ = SteadyNow() + kBeat;
  return EndThoseGone();
}

absl::Status Fleet::EndThoseGone() {
  ASSIGN_OR_RETURN(const auto beats, store_.Beats());
  const absl::Time now = SteadyNow();
  std::erase_if(seen_, [&](const auto& one) { return !beats.contains(one.first); });
  for (const auto& [lease, count] : beats) {
    Seen& seen = seen_[lease];
    if (seen.beats != count) {
      seen = {.beats = count, .since = now};
    } else if (now - seen.since > kGoneAfter) {
      spdlog::warn("lease {} has not beaten for {}: its jobs go on elsewhere", lease,
                   absl::FormatDuration(kGoneAfter));
      RETURN_IF_ERROR(store_.EndLease(lease, count));
    }
  }
  ASSIGN_OR_RETURN(const bool drained, store_.IsDrained(self_.name));
  if (drained != drained_) scheduler_.SetDraining(drained);
  drained_ = drained;
  return absl::OkStatus();
}

absl::Status Fleet::Claim(const std::map<std::string, std::string>& devices) {
  {
    MutexLock lock(mutex_);
    if (!claims_) return absl::OkStatus();
  }
  std::map<std::string, std::vector<std::string>> ids_by_name;
  std::map<std::string, uint32_t> idle_by_name;
  for (const auto& [id, name] : devices) {
    ids_by_name[name].push_back(id);
    if (scheduler_.IsIdle(id)) ++idle_by_name[name];
  }
  for (const auto& [name, idle] : idle_by_name) {
    const std::vector<std::string>& ids = ids_by_name.at(name);
    ASSIGN_OR_RETURN(std::vector<db::JobRow> jobs, store_.Claim(name, ids, idle));
    for (db::JobRow& job : jobs) {
      const int64_t id = job.id;
      const absl::Status taken = hooks_.take_up(std::move(job), ids);
      if (!taken.ok()) spdlog::error("job {} is left as it is: {}", id, taken.ToString());
    }
  }
  return absl::OkStatus();
}

absl::Status Fleet::Heed() {
  const std::vector<int64_t> live = scheduler_.live_ids();
  if (live.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const db::FleetStore::Asked asked, store_.AskedOf(live));
  for (const int64_t id : asked.lost) scheduler_.LeaveToOthers(id);
  for (const int64_t id : asked.cancelled) {
    scheduler_.Cancel(id, SteadyNow()).status().IgnoreError();  // it ends by itself
  }
  return absl::OkStatus();
}

void Fleet::LookForFollowers() {
  std::vector<std::function<bool()>> followers;
  {
    MutexLock lock(mutex_);
    followers.swap(followers_);
  }
  std::erase_if(followers, [](const std::function<bool()>& look) {
    bool goes_on = false;
    return !Contained([&] { goes_on = look(); }).ok() || !goes_on;
  });
  MutexLock lock(mutex_);
  std::move(followers.begin(), followers.end(), std::back_inserter(followers_));
}

}  // namespace tune::server
