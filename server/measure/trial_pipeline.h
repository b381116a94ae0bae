// SPDX-License-Identifier: Apache-2.0
// Keeps an executor busy: attempts compile as they are started, and a thread of the pipeline, the
// device thread, measures those that have compiled, one at a time. Threads of other devices may
// help it.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/cancelled.h"
#include "base/mutex.h"
#include "server/measure/trial_executor.h"

namespace tune::server {

// Used from one thread. The executor must call nothing back any more when the pipeline is
// destroyed: Stop it, withdraw its compiles, then destroy it.
class TrialPipeline {
 public:
  // `prepare` runs on the device thread before anything is measured; if it fails, its error is
  // Next's. While `interrupted` returns true nothing new is measured; what is measured then is the
  // executor's to end.
  TrialPipeline(TrialExecutor& executor, std::function<absl::Status()> prepare,
                Cancelled interrupted);
  ~TrialPipeline() { Stop(); }

  // Starts an attempt. One whose trial is not kOk is finished.
  absl::Status Start(const AttemptPtr& attempt);
  // The next finished trial, in any order; nullopt if none finishes within `wait`.
  absl::StatusOr<std::optional<Trial>> Next(absl::Duration wait);

  // Measures what has compiled on the calling thread, too, until `leave` returns true or the
  // pipeline is interrupted or stopped. An attempt whose measurement fails is left to the others; a
  // status that is not CANCELLED is returned. Thread-safe.
  using MeasureHere = std::function<absl::Status(Attempt&)>;
  absl::Status Help(const MeasureHere& measure, const Cancelled& leave);

  // "THREADS=64 was still running after 44 s" of an attempt whose measurement runs or failed; else
  // empty. Thread-safe.
  std::string WhatWasCutShort() const;

  // Waits until `prepare` is done, and returns its error, which no trial may have reported.
  absl::Status AwaitPrepared(const Cancelled& cancelled);
  // Waits until nothing is measured and nobody helps; false if it was stopped, or cancelled while
  // the device was prepared. REQUIRES: it is interrupted.
  bool AwaitRest(const Cancelled& cancelled);
  // Forgets every attempt. REQUIRES: it rests, and nothing compiles.
  void Clear();
  // Ends the device thread, and help.
  void Stop();

 private:
  void OnCompiled(const AttemptPtr& attempt, const absl::Status& status)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Finish(Trial trial) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Loop();
  // Releases the mutex while it measures.
  void MeasureNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  TrialExecutor& executor_;
  const std::function<absl::Status()> prepare_;
  const Cancelled interrupted_;
  mutable Mutex mutex_;
  std::condition_variable changed_;
  std::deque<AttemptPtr> ready_ ABSL_GUARDED_BY(mutex_);  // compiled, to be measured
  std::deque<Trial> finished_ ABSL_GUARDED_BY(mutex_);
  bool prepared_ ABSL_GUARDED_BY(mutex_) = false;
  AttemptPtr measured_ ABSL_GUARDED_BY(mutex_);            // that runs, or that failed last
  absl::Time start_ ABSL_GUARDED_BY(mutex_);               // of measured_, as SteadyNow() counts
  std::optional<absl::Time> end_ ABSL_GUARDED_BY(mutex_);  // nullopt while it runs
  int helpers_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
  std::thread device_thread_;
};

}  // namespace tune::server
