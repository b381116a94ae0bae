// SPDX-License-Identifier: Apache-2.0
#include "server/measure/help_offer.h"

#include <memory>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace tune::server {
namespace {

absl::Status CheckAlike(const SweepEvaluator& helper, const std::string& device_id,
                        const SweepEvaluator& helped) {
  const DeviceInfo& here = helper.device();
  const DeviceInfo& there = helped.device();
  if (here.name == there.name && here.target == there.target && here.driver == there.driver &&
      helper.compiler_version() == helped.compiler_version()) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      absl::StrCat("device ", device_id, " is ", here.name, " with driver ", here.driver,
                   " now, and the sweep runs on ", there.name, " with driver ", there.driver));
}

}  // namespace

void HelpOffer::Open(Workers& workers, SweepEvaluator& evaluator,
                     const SweepEvaluatorOptions& like) {
  MutexLock lock(mutex_);
  search_.emplace(Search{workers, evaluator, like});
  changed_.notify_all();
}

void HelpOffer::Close() {
  MutexLock lock(mutex_);
  closed_ = true;
  changed_.notify_all();
  changed_.wait(lock.native(),
                [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return helpers_ == 0; });
}

bool HelpOffer::is_closed() const {
  MutexLock lock(mutex_);
  return closed_;
}

absl::Status HelpOffer::Help(const std::string& device_id, const Cancelled& stop) {
  std::optional<Search> search;
  {
    MutexLock lock(mutex_);
    while (!search_ && !closed_ && !stop()) changed_.wait_for(lock.native(), kCancelPollPeriod);
    if (search_) search.emplace(*search_);
  }
  const Cancelled cancelled = [&] { return is_closed() || stop(); };
  if (!search || cancelled()) return absl::OkStatus();
  const absl::Status helped = HelpWith(*search, device_id, cancelled);
  return absl::IsCancelled(helped) ? absl::OkStatus() : helped;
}

absl::Status HelpOffer::HelpWith(const Search& search, const std::string& device_id,
                                 const Cancelled& cancelled) {
  ASSIGN_OR_RETURN(DeviceSupervisor * device, search.workers.FindDevice(device_id));
  const absl::Cleanup close = [device] { device->Close(); };  // for the device's next job
  SweepEvaluatorOptions options = search.like;
  options.cancelled = cancelled;
  ASSIGN_OR_RETURN(const std::unique_ptr<SweepEvaluator> helper,
                   SweepEvaluator::Create(search.workers, device_id, std::move(options)));
  {
    MutexLock lock(mutex_);
    if (closed_) return absl::OkStatus();
    ++helpers_;
  }
  const absl::Cleanup left = [this] {
    MutexLock lock(mutex_);
    --helpers_;
    changed_.notify_all();
  };
  RETURN_IF_ERROR(CheckAlike(*helper, device_id, search.evaluator));
  return search.evaluator.TakeHelp(*helper, cancelled);
}

}  // namespace tune::server
