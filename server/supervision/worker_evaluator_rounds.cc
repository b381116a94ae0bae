// SPDX-License-Identifier: Apache-2.0
// The rounds that confirm a winner, each in a fresh twin of the device's worker.
#include <chrono>
#include <future>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/contained.h"
#include "base/status_macros.h"
#include "base/steady_time.h"
#include "server/supervision/worker_evaluator.h"

namespace tune::server {

// Leaves out a twin that cannot be opened, for want of memory say.
void WorkerEvaluator::OpenTwins() {
  std::vector<std::unique_ptr<DeviceSupervisor>> opening;
  std::vector<absl::Status> opened(static_cast<size_t>(rounds_expected_));
  std::vector<std::jthread> threads;  // joined whatever happens
  for (int i = 0; i < rounds_expected_; ++i) {
    opening.push_back(options_.device->MakeTwin(absl::StrCat("round", i)));
    threads.emplace_back(
        [this, &status = opened[static_cast<size_t>(i)], twin = opening.back().get()] {
          status = Contained([&] { return twin->Open(cancelled_); });
        });
  }
  options_.device->Close();  // it and a twin may not fit with their buffers
  for (std::jthread& thread : threads) thread.join();
  for (size_t i = 0; i < opening.size(); ++i) {
    if (opened[i].ok()) twins_.push_back(std::move(opening[i]));
  }
  rounds_expected_ = 0;
}

absl::StatusOr<std::vector<Trial>> WorkerEvaluator::Remeasure(const std::vector<Config>& configs) {
  absl::StatusOr<std::vector<Trial>> trials = RunRound(configs);
  if (trials.ok()) return trials;
  return Explained(trials.status(), "there was no time left to measure the best configs again");
}

void WorkerEvaluator::ExpectRounds(int rounds, absl::Duration limit) {
  AbandonFlight();
  rounds_expected_ = rounds;
  Limit(limit);
}

absl::StatusOr<std::vector<Trial>> WorkerEvaluator::RunRound(const std::vector<Config>& configs) {
  AbandonFlight();
  ASSIGN_OR_RETURN(const std::vector<ItemPtr> items, ReadyForConfirming(configs));
  ASSIGN_OR_RETURN(const CompilePause quiet, PauseCompilers(cancelled_));
  if (rounds_expected_ > 0) OpenTwins();
  std::unique_ptr<DeviceSupervisor> twin;
  if (!twins_.empty()) {
    twin = std::move(twins_.back());
    twins_.pop_back();
    const absl::Status prepared =
        twin->Prepare(problem_plan_, reference_binary_, options_.seed, cancelled_);
    if (absl::IsResourceExhausted(prepared)) {
      twin.reset();  // the contexts of the others are in the way
      twins_.clear();
      leaving_.clear();
    } else if (!prepared.ok()) {
      twins_.push_back(std::move(twin));  // ended later: that may take a while
      return prepared;
    }
  }
  if (twin == nullptr) {  // a fresh worker in the place of the last
    options_.device->Close();
    RETURN_IF_ERROR(
        options_.device->Prepare(problem_plan_, reference_binary_, options_.seed, cancelled_));
  }
  std::vector<Trial> trials;
  for (const ItemPtr& item : items) {
    absl::StatusOr<Trial> trial = MeasureAgain(*item, twin != nullptr ? *twin : *options_.device);
    if (!trial.ok()) {
      if (twin != nullptr) twins_.push_back(std::move(twin));
      return trial.status();
    }
    trials.push_back(*std::move(trial));
  }
  if (twin != nullptr) {
    leaving_.push_back(
        std::async(std::launch::async, [gone = std::move(twin)]() mutable { gone.reset(); }));
  }
  return trials;
}

absl::StatusOr<std::vector<WorkerEvaluator::ItemPtr>> WorkerEvaluator::ReadyForConfirming(
    const std::vector<Config>& configs) {
  std::vector<ItemPtr> items;
  std::vector<ItemPtr> to_compile;
  for (const Config& config : configs) {
    ItemPtr& item = finalists_[ToText(config)];
    if (item == nullptr) {
      item = Plan(config);
      if (item->trial.outcome == Outcome::kOk) to_compile.push_back(item);
    }
    items.push_back(item);
  }
  Lock lock(mutex_);
  confirming_ = true;
  compiling_ += to_compile.size();
  lock.unlock();
  for (const ItemPtr& item : to_compile) SubmitCompile(item);
  lock.lock();
  const bool compiled = AwaitCompiles(lock);
  confirming_ = false;
  if (compiled) return items;
  finalists_.clear();
  RETURN_IF_ERROR(failure_);
  return absl::CancelledError("cancelled while confirming the winner");
}

std::optional<Program> WorkerEvaluator::MeasuredProgram(const Config& config) const {
  const auto found = finalists_.find(ToText(config));
  if (found == finalists_.end() || found->second->binary.empty()) return std::nullopt;
  return WithBinary(found->second->plan, found->second->binary);
}

absl::StatusOr<Trial> WorkerEvaluator::MeasureAgain(const Item& item, DeviceSupervisor& device) {
  if (item.trial.outcome != Outcome::kOk) return item.trial;
  Item again = item;
  const absl::Time start = SteadyNow();
  ASSIGN_OR_RETURN(
      const RunReport report,
      device.Run({WithBinary(item.plan, item.binary), options_.confirm_policy}, cancelled_));
  again.trial.evaluate_seconds = absl::ToDoubleSeconds(SteadyNow() - start);
  Judge(report, again);
  return std::move(again.trial);
}

}  // namespace tune::server
