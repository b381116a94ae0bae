// SPDX-License-Identifier: Apache-2.0
// This daemon as one of the hosts that share a store (db/fleet_store.h). A thread beats for its
// lease, claims jobs while devices are idle, gives up those that other hosts claimed, looks for
// hosts that beat no more, and learns which records others published. It asks every quarter of a
// second or so, with jitter, rather than being notified: a notification locks the whole database at
// each commit.
//
// While the store cannot be reached, jobs that run go on, and nothing is claimed. A host whose
// lease was ended meanwhile stops its jobs, which go on elsewhere, and joins again.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "absl/random/random.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "db/fleet_store.h"
#include "server/jobs/scheduler.h"

namespace tune::server {

// Thread-safe.
class Fleet {
 public:
  struct Hooks {
    // The names of the devices that are in use, by their ids.
    std::function<std::map<std::string, std::string>()> devices;
    // Queues a job that was claimed for one of these devices.
    std::function<absl::Status(db::JobRow job, std::vector<std::string> device_ids)> take_up;
    // Answers look-ups by what other hosts published.
    std::function<absl::Status()> catch_up;
  };
  // A host that has not been seen to beat for so long is gone.
  static constexpr absl::Duration kGoneAfter = absl::Seconds(6);

  // Both must outlive the fleet.
  Fleet(db::FleetStore& store, Scheduler& scheduler, db::HostRow self, Hooks hooks)
      : store_(store), scheduler_(scheduler), self_(std::move(self)), hooks_(std::move(hooks)) {}
  ~Fleet() { Stop(); }

  // Joins, so that jobs which are submitted from now on are this host's.
  absl::Status Start();
  // Claims nothing more; goes on beating, as jobs are still to end.
  void BeginStop();
  // Leaves: what it had is nobody's. Idempotent. REQUIRES: the scheduler has stopped.
  void Stop();
  // A device may have become idle.
  void Poke();

  // Calls `look` on the fleet's thread a few times a second, until it returns false.
  void Follow(std::function<bool()> look);
  db::FleetStore& store() const { return store_; }

 private:
  // A lease of another host, as it was seen last.
  struct Seen {
    int64_t beats = -1;
    absl::Time since;  // SteadyNow() of the first sight of those beats
  };

  void Loop();
  absl::Status Turn();
  absl::Status Join();
  // Gives up every job, then takes a new lease.
  absl::Status JoinAgain();
  absl::Status BeatIfDue(const std::map<std::string, std::string>& devices);
  absl::Status EndThoseGone();
  absl::Status Claim(const std::map<std::string, std::string>& devices);
  absl::Status Heed();
  void LookForFollowers();

  db::FleetStore& store_;
  Scheduler& scheduler_;
  const db::HostRow self_;
  const Hooks hooks_;

  // The thread alone uses these:
  bool is_out_ = false;  // its lease was ended
  bool drained_ = false;
  absl::Time beat_next_ = absl::InfinitePast();
  std::string devices_told_;
  std::map<int64_t, Seen> seen_;
  std::string problem_;  // that was logged
  absl::BitGen random_;

  Mutex mutex_;
  std::condition_variable changed_;
  bool poked_ ABSL_GUARDED_BY(mutex_) = false;
  bool claims_ ABSL_GUARDED_BY(mutex_) = true;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::function<bool()>> followers_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace tune::server
