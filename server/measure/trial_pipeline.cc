// SPDX-License-Identifier: Apache-2.0
#include "server/measure/trial_pipeline.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "base/contained.h"
#include "base/steady_time.h"

namespace tune::server {
TrialPipeline::TrialPipeline(TrialExecutor& executor, std::function<absl::Status()> prepare,
                             Cancelled interrupted)
    : executor_(executor),
      prepare_(std::move(prepare)),
      interrupted_(std::move(interrupted)),
      prepared_(prepare_ == nullptr),
      device_thread_([this] { Loop(); }) {}

void TrialPipeline::Stop() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (device_thread_.joinable()) device_thread_.join();
  MutexLock lock(mutex_);
  changed_.wait(lock.native(),
                [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return helpers_ == 0; });
}

absl::Status TrialPipeline::Start(const AttemptPtr& attempt) {
  {
    MutexLock lock(mutex_);
    if (!failure_.ok()) return failure_;
    if (attempt->trial.outcome != Outcome::kOk) {
      Finish(attempt->trial);
      return absl::OkStatus();
    }
  }
  executor_.Compile(attempt, [this, attempt](const absl::Status& status) {
    MutexLock lock(mutex_);
    OnCompiled(attempt, status);
    changed_.notify_all();
  });
  return absl::OkStatus();
}

void TrialPipeline::OnCompiled(const AttemptPtr& attempt, const absl::Status& status) {
  if (!status.ok()) {
    if (!absl::IsCancelled(status)) failure_ = status;
  } else if (attempt->trial.outcome == Outcome::kOk) {
    ready_.push_back(attempt);
  } else {
    Finish(attempt->trial);
  }
}

void TrialPipeline::Finish(Trial trial) {
  if (trial.finished_unix_ms == 0) trial.finished_unix_ms = absl::ToUnixMillis(absl::Now());
  finished_.push_back(std::move(trial));
}

absl::StatusOr<std::optional<Trial>> TrialPipeline::Next(absl::Duration wait) {
  MutexLock lock(mutex_);
  changed_.wait_for(lock.native(), absl::ToChronoMilliseconds(std::min(wait, absl::Hours(1))),
                    [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
                      return (prepared_ && !finished_.empty()) || !failure_.ok();
                    });
  // Before the device is prepared, a failure may be that of one variant or of all.
  if (prepared_ && !finished_.empty()) {
    std::optional<Trial> trial = std::move(finished_.front());
    finished_.pop_front();
    return trial;
  }
  if (!failure_.ok()) return failure_;
  return std::nullopt;
}

absl::Status TrialPipeline::Help(const MeasureHere& measure, const Cancelled& leave) {
  MutexLock lock(mutex_);
  ++helpers_;
  absl::Status helped;
  while (helped.ok() && !stopping_ && !interrupted_() && !leave()) {
    if (ready_.empty() || !failure_.ok()) {
      changed_.wait_for(lock.native(), kCancelPollPeriod);
      continue;
    }
    const AttemptPtr attempt = std::move(ready_.front());
    ready_.pop_front();
    lock.Unlock();
    // Kept as it was for the others, should this device fail.
    Attempt tried = *attempt;
    helped = Contained([&] { return measure(tried); });
    lock.Lock();
    if (helped.ok()) {
      Finish(std::move(tried.trial));
    } else {
      ready_.push_front(attempt);
    }
    changed_.notify_all();
  }
  --helpers_;
  changed_.notify_all();
  return absl::IsCancelled(helped) ? absl::OkStatus() : helped;
}

std::string TrialPipeline::WhatWasCutShort() const {
  MutexLock lock(mutex_);
  if (measured_ == nullptr) return "";
  return absl::StrFormat("%s was still running after %.3g s", ToText(measured_->trial.config),
                         absl::ToDoubleSeconds(end_.value_or(SteadyNow()) - start_));
}

absl::Status TrialPipeline::AwaitPrepared(const Cancelled& cancelled) {
  MutexLock lock(mutex_);
  while (!changed_.wait_for(
      lock.native(), kCancelPollPeriod,
      [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return prepared_ || !failure_.ok(); })) {
    if (cancelled()) return absl::CancelledError("cancelled while the device was prepared");
  }
  return prepared_ ? absl::OkStatus() : failure_;
}

bool TrialPipeline::AwaitRest(const Cancelled& cancelled) {
  MutexLock lock(mutex_);
  const auto at_rest = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return (prepared_ || !failure_.ok()) && (measured_ == nullptr || end_) && helpers_ == 0;
  };
  while (!changed_.wait_for(lock.native(), kCancelPollPeriod, at_rest)) {
    if (stopping_ || (!prepared_ && cancelled())) return false;
  }
  return true;
}

void TrialPipeline::Clear() {
  MutexLock lock(mutex_);
  ready_.clear();
  finished_.clear();
}

void TrialPipeline::Loop() {
  MutexLock lock(mutex_);
  if (!prepared_) {
    lock.Unlock();
    const absl::Status prepared = Contained(prepare_);
    lock.Lock();
    prepared_ = prepared.ok();
    if (!prepared.ok() && !absl::IsCancelled(prepared)) failure_ = prepared;
    changed_.notify_all();
  }
  while (true) {
    while (!stopping_ && (ready_.empty() || !failure_.ok() || interrupted_())) {
      changed_.wait(lock.native());
    }
    if (stopping_) return;
    MeasureNext();
  }
}

void TrialPipeline::MeasureNext() {
  const AttemptPtr attempt = measured_ = std::move(ready_.front());
  ready_.pop_front();
  start_ = SteadyNow();
  end_.reset();
  mutex_.Unlock();
  const absl::Status measured = Contained([&] { return executor_.Measure(*attempt); });
  mutex_.Lock();
  end_ = SteadyNow();
  if (measured.ok()) {
    Finish(std::exchange(measured_, nullptr)->trial);
  } else if (!absl::IsCancelled(measured)) {
    failure_ = measured;
  }
  changed_.notify_all();
}

}  // namespace tune::server
