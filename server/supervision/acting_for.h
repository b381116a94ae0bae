// SPDX-License-Identifier: Apache-2.0
// For whom a thread works. What callers share (threads, the solver of spaces, compile workers) is
// shared out by principal, and a queue takes the principal of a task from the thread that queues
// it. So the name is written down twice only: where a call comes in (server/access/guard.h),
// and where a job begins to run (server/jobs/scheduler.cc). Queues carry it on to the threads that
// do their work.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

namespace tune::server {

// By default the daemon itself.
struct Sharer {
  std::string name;  // the principal's; empty: the daemon's
  // May take places that are kept from all others: calls of operators, jobs that have a device, and
  // the daemon's own work.
  bool has_reserve = true;
  // A client's call: no device waits for what it computes.
  bool is_call = false;

  bool operator==(const Sharer&) const = default;
};

// The calling thread works for `sharer` while this lives.
class ActingFor {
 public:
  explicit ActingFor(Sharer sharer) : before_(std::exchange(current_, std::move(sharer))) {}
  ~ActingFor() { current_ = std::move(before_); }
  ActingFor(const ActingFor&) = delete;
  ActingFor& operator=(const ActingFor&) = delete;

  static const Sharer& Current() { return current_; }

 private:
  inline static thread_local Sharer current_;
  Sharer before_;
};

// The job that a thread works on; the log says so (server/log.h).
struct JobInHand {
  int64_t id = 0;  // 0: none
  std::string device_id;
};

// The calling thread works on a job while this lives.
class WorkingOn {
 public:
  explicit WorkingOn(JobInHand job) : before_(std::exchange(current_, std::move(job))) {}
  ~WorkingOn() { current_ = std::move(before_); }
  WorkingOn(const WorkingOn&) = delete;
  WorkingOn& operator=(const WorkingOn&) = delete;

  static const JobInHand& Current() { return current_; }

 private:
  inline static thread_local JobInHand current_;
  JobInHand before_;
};

}  // namespace tune::server
