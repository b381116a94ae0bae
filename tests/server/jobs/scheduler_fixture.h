// SPDX-License-Identifier: Apache-2.0
// A scheduler with a store of its own, and jobs that run until a test lets them go.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/steady_time.h"
#include "db/store.h"
#include "server/jobs/scheduler.h"
#include "tests/server/temp_dir.h"

namespace tune::server {

inline constexpr std::chrono::seconds kPatience(30);

// What happened, in order; tests wait for lines of it.
class Journal {
 public:
  void Write(std::string line) {
    std::lock_guard lock(mutex_);
    lines_.push_back(std::move(line));
    changed_.notify_all();
  }
  bool Await(const std::string& line) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kPatience, [&] {
      return std::find(lines_.begin(), lines_.end(), line) != lines_.end();
    });
  }
  std::vector<std::string> lines() const {
    std::lock_guard lock(mutex_);
    return lines_;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> lines_;
};

// Runs until it is let go or asked to stop.
class HeldWork : public JobWork {
 public:
  HeldWork(std::string name, Journal& journal, db::Store& store, bool resumable = false)
      : name_(std::move(name)), journal_(journal), store_(store), resumable_(resumable) {}

  void LetGo() {
    std::lock_guard lock(mutex_);
    free_ = true;
    changed_.notify_all();
  }

  End Run(JobContext& context) override {
    context.Say("at work");
    journal_.Write(absl::StrCat(name_, " on ", context.device_id()));
    if (act_) return act_(context);
    std::unique_lock lock(mutex_);
    while (!free_ && !context.stop()) changed_.wait_for(lock, std::chrono::milliseconds(5));
    if (free_) return {.message = "well"};
    if (resumable_ && !context.cancelled_for_good()) {
      journal_.Write(name_ + " stopped");
      changed_.wait(lock, [this] { return !lingers_; });
      return {.interrupted = true};
    }
    return {.status = absl::CancelledError("stopped")};
  }
  // Whether it takes its time to stop.
  void Linger(bool lingers) {
    std::lock_guard lock(mutex_);
    lingers_ = lingers;
    changed_.notify_all();
  }
  bool runs_again() const override { return runs_again_; }
  void RunOnce() { runs_again_ = false; }
  absl::Duration time_max() const override { return time_max_; }
  void LimitTime(absl::Duration time_max) { time_max_ = time_max; }

  absl::Status Store(db::JobStore& jobs, const db::JobRow& row) override {
    {
      std::lock_guard lock(mutex_);
      if (!store_error_.ok()) return store_error_;
    }
    return jobs.UpdateJob(row);
  }
  void FailStore(const absl::Status& error) {
    std::lock_guard lock(mutex_);
    store_error_ = error;
  }
  // Run calls `act` and does nothing else.
  void Do(std::function<End(JobContext&)> act) { act_ = std::move(act); }
  void Ended(const absl::Status& status) override {
    journal_.Write(absl::StrCat(name_, " ended ", absl::StatusCodeToString(status.code())));
  }
  std::string Name() const override { return name_; }
  std::string WhyNotOn(const std::string& device_id) const override {
    return why_not_on_ ? why_not_on_(device_id) : "";
  }
  void WaitBecause(std::function<std::string(const std::string&)> why) {
    why_not_on_ = std::move(why);
  }
  bool resumable() const override { return resumable_; }
  // Other devices help it until it ends or they are to leave.
  void WantHelp() { wants_help_ = true; }
  bool wants_help() const override { return wants_help_; }
  absl::Status Help(JobContext& context) override {
    journal_.Write(absl::StrCat(name_, " has help of ", context.device_id()));
    std::unique_lock lock(mutex_);
    while (!free_ && !context.stop()) changed_.wait_for(lock, std::chrono::milliseconds(5));
    journal_.Write(absl::StrCat(name_, " has no help of ", context.device_id()));
    return help_error_;
  }
  void FailHelp(const absl::Status& error) { help_error_ = error; }

 private:
  const std::string name_;
  Journal& journal_;
  db::Store& store_;
  const bool resumable_;
  bool runs_again_ = true;
  std::atomic<bool> wants_help_ = false;
  absl::Status help_error_;
  std::mutex mutex_;
  std::condition_variable changed_;
  absl::Duration time_max_ = absl::InfiniteDuration();
  std::function<End(JobContext&)> act_;
  std::function<std::string(const std::string&)> why_not_on_;
  // Guarded by mutex_.
  absl::Status store_error_;
  bool free_ = false;
  bool lingers_ = false;
};

class SchedulerTest : public testing::Test {
 protected:
  SchedulerTest() { Start({}); }
  ~SchedulerTest() override { scheduler_->Stop(); }

  void Start(const Scheduler::Options& options) {
    DeviceCare care;
    care.before = [this](const std::string& id) { journal_.Write("before " + id); };
    care.after = [this](const std::string& id) { journal_.Write("after " + id); };
    scheduler_ = std::make_unique<Scheduler>(options, *store_, turns_, ticker_, std::move(care));
  }
  std::shared_ptr<HeldWork> Make(const std::string& name, bool resumable = false) {
    return std::make_shared<HeldWork>(name, journal_, *store_, resumable);
  }
  std::shared_ptr<Job> Submit(const std::shared_ptr<HeldWork>& work,
                              std::vector<std::string> devices = {"cuda:0"},
                              db::JobPriority priority = db::JobPriority::kInteractive,
                              const std::string& owner = "me") {
    return scheduler_
        ->Submit({.kind = db::JobKind::kBench, .priority = priority, .owner = owner},
                 std::move(devices), work)
        .value();
  }
  std::shared_ptr<Job> SubmitAs(const std::string& owner, const std::shared_ptr<HeldWork>& work) {
    return Submit(work, {"cuda:0"}, db::JobPriority::kInteractive, owner);
  }
  absl::Status Refusal(const std::string& owner) {
    return scheduler_
        ->Submit({.kind = db::JobKind::kBench, .owner = owner}, {"cuda:0"}, Make("refused"))
        .status();
  }
  // Lines of the journal about jobs that began, in order.
  std::vector<std::string> Begun() const {
    std::vector<std::string> begun;
    for (const std::string& line : journal_.lines()) {
      const size_t on = line.find(" on cuda:0");
      if (on != std::string::npos) begun.push_back(line.substr(0, on));
    }
    return begun;
  }
  static absl::Time Soon() { return SteadyNow() + absl::Seconds(30); }

  TempDir dir_;
  std::unique_ptr<db::Store> store_ = db::Store::Open(dir_.path() + "/tune.db").value();
  DeviceTurns turns_;
  WatchTicker ticker_{{.period = absl::Milliseconds(20)}};
  Journal journal_;
  std::unique_ptr<Scheduler> scheduler_;
};

}  // namespace tune::server
