// SPDX-License-Identifier: Apache-2.0
#include "tuner/device/cuda/sampler.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "tuner/statistics/median.h"

namespace tune::cuda {
namespace {

constexpr int kBatchMax = 64;
// A batch of a slow kernel must not delay the cancelling of a sweep by more.
constexpr double kBatchNsMax = 50e6;
// Far beyond hopeless: one cold sample will do.
constexpr double kBeyondHope = 4.0;
constexpr int kSamplesOfHopeless = 3;
// Below this length the 2 us that events add are themselves a few percent.
constexpr double kCrossCheckNsMin = 100e3;
constexpr double kCrossCheckSamplesMin = 5;
constexpr double kDisagreementMax = 0.05;
constexpr int kNoEvent = -1;

}  // namespace

int NextBatch(const SamplePolicy& policy, int taken, double estimate_ns) {
  int wanted = std::max(policy.samples_min - taken, taken / 2);
  const double hopeless_ns = policy.rival_latency_ns * policy.hopeless_ratio;
  if (hopeless_ns > 0 && estimate_ns > hopeless_ns && taken < kSamplesOfHopeless) {
    const bool beyond_hope = taken == 0 && estimate_ns > kBeyondHope * hopeless_ns;
    wanted = beyond_hope ? 1 : kSamplesOfHopeless - taken;
  }
  const double ns = std::max(estimate_ns, 1.0);
  const double budget_ns = std::min(kBatchNsMax, policy.seconds_max * 1e9 - taken * ns);
  wanted = std::min({wanted, kBatchMax, policy.samples_max - taken});
  if (wanted * ns > budget_ns) wanted = static_cast<int>(std::floor(budget_ns / ns));
  return std::max(wanted, 1);
}

absl::StatusOr<Sampler> Sampler::Create(const DeviceContext& context, Harness& harness,
                                        ActivityClock* clock) {
  Sampler sampler(context, harness, clock);
  const DriverApi& driver = context.driver;
  for (int i = 0; i < kBatchMax; ++i) {
    EventPair pair = {};
    RETURN_IF_ERROR(
        context.Check(driver.cuEventCreate(&pair.first, CU_EVENT_DEFAULT), "cuEventCreate"));
    RETURN_IF_ERROR(
        context.Check(driver.cuEventCreate(&pair.second, CU_EVENT_DEFAULT), "cuEventCreate"));
    sampler.events_.push_back(pair);
  }
  return sampler;
}

absl::Status Sampler::Launch(const LoadedProgram& program, int event_index) {
  if (event_index == kNoEvent) return program.Launch();
  const DriverApi& driver = context_->driver;
  const EventPair& pair = events_[static_cast<size_t>(event_index)];
  RETURN_IF_ERROR(
      context_->Check(driver.cuEventRecord(pair.first, context_->stream), "cuEventRecord"));
  RETURN_IF_ERROR(program.Launch());
  return context_->Check(driver.cuEventRecord(pair.second, context_->stream), "cuEventRecord");
}

absl::StatusOr<std::vector<double>> Sampler::EventDurations(int count) const {
  std::vector<double> durations_ns;
  for (int i = 0; i < count; ++i) {
    float milliseconds = 0;
    const EventPair& pair = events_[static_cast<size_t>(i)];
    RETURN_IF_ERROR(
        context_->Check(context_->driver.cuEventElapsedTime(&milliseconds, pair.first, pair.second),
                        "cuEventElapsedTime"));
    durations_ns.push_back(static_cast<double>(milliseconds) * 1e6);
  }
  return durations_ns;
}

// Reads the check's verdict into the report; false if something is wrong.
absl::StatusOr<bool> Sampler::Judge(PreparedProblem& problem, RunReport& report) {
  ASSIGN_OR_RETURN(Verdict verdict, problem.ReadVerdict());
  report.error = std::move(verdict.error);
  if (verdict.right) return true;
  report.outcome = verdict.harness_damaged ? Outcome::kFaulted : Outcome::kWrongResult;
  report.message = std::move(verdict.message);
  return false;
}

absl::StatusOr<double> Sampler::CheckLaunch(const LoadedProgram& program, PreparedProblem& problem,
                                            RunReport& report) {
  RETURN_IF_ERROR(problem.RestoreInOuts());
  RETURN_IF_ERROR(problem.PoisonOutputs());
  RETURN_IF_ERROR(program.SetSymbols());
  RETURN_IF_ERROR(Launch(program, 0));
  RETURN_IF_ERROR(problem.EnqueueCheck());
  RETURN_IF_ERROR(context_->Synchronize());
  RETURN_IF_ERROR(Judge(problem, report).status());
  // Events are exact enough for an estimate.
  ASSIGN_OR_RETURN(std::vector<double> durations_ns, EventDurations(1));
  return durations_ns[0];
}

// In a cold batch each launch is preceded by a flush, and the last by poison as well, so that the
// check sees what a timed launch wrote. The flush also outlasts the host's work for one launch:
// the device never waits for the host, and events need nothing that holds it back. In a warm batch
// one launch that does not count comes first, on poisoned outputs.
absl::Status Sampler::EnqueueBatch(const LoadedProgram& program, PreparedProblem& problem,
                                   CacheMode mode, int count, bool with_events) {
  if (mode == CacheMode::kWarm) {
    RETURN_IF_ERROR(problem.RestoreInOuts());
    RETURN_IF_ERROR(problem.PoisonOutputs());
    RETURN_IF_ERROR(program.SetSymbols());
    RETURN_IF_ERROR(program.Launch());
  }
  for (int i = 0; i < count; ++i) {
    RETURN_IF_ERROR(problem.RestoreInOuts());
    RETURN_IF_ERROR(program.SetSymbols());
    if (mode == CacheMode::kCold) {
      if (i + 1 == count) RETURN_IF_ERROR(problem.PoisonOutputs());
      RETURN_IF_ERROR(harness_->FlushCache());
    }
    RETURN_IF_ERROR(Launch(program, with_events ? i : kNoEvent));
  }
  return problem.EnqueueCheck();
}

absl::StatusOr<std::vector<double>> Sampler::TimeBatch(const LoadedProgram& program,
                                                       PreparedProblem& problem, CacheMode mode,
                                                       int count) {
  const int uncounted = mode == CacheMode::kWarm ? 1 : 0;
  const bool cross_check = !cross_checked_ && count >= kCrossCheckSamplesMin;
  // Lost records are rare; losing them twice in a row means that CUPTI cannot be relied on here.
  for (int attempt = 0; activity_ != nullptr && attempt < 2; ++attempt) {
    const absl::Status cleared = activity_->Clear(/*memsets=*/program.leading_memsets() > 0);
    if (!cleared.ok()) {
      clock_note_ = std::string(cleared.message());
      break;
    }
    RETURN_IF_ERROR(EnqueueBatch(program, problem, mode, count, cross_check));
    RETURN_IF_ERROR(context_->Synchronize());
    absl::StatusOr<std::vector<double>> durations_ns =
        activity_->Collect(static_cast<size_t>(count + uncounted),
                           {program.kernel_count(), program.leading_memsets()});
    if (!durations_ns.ok()) {
      clock_note_ = std::string(durations_ns.status().message());
      continue;
    }
    durations_ns->erase(durations_ns->begin(), durations_ns->begin() + uncounted);
    if (cross_check) {
      ASSIGN_OR_RETURN(std::vector<double> events_ns, EventDurations(count));
      CrossCheck(*durations_ns, events_ns);
      if (activity_ == nullptr) return events_ns;
    }
    clock_note_.clear();
    return durations_ns;
  }
  activity_ = nullptr;
  RETURN_IF_ERROR(EnqueueBatch(program, problem, mode, count, /*with_events=*/true));
  RETURN_IF_ERROR(context_->Synchronize());
  return EventDurations(count);
}

void Sampler::CrossCheck(const std::vector<double>& activity_ns,
                         const std::vector<double>& events_ns) {
  cross_checked_ = true;
  const double activity = MedianOf(activity_ns);
  const double events = MedianOf(events_ns);
  if (activity < kCrossCheckNsMin || std::abs(activity / events - 1.0) <= kDisagreementMax) return;
  clock_note_ = absl::StrFormat(
      "CUPTI says %.1f us where events say %.1f us, so events are used for this problem",
      activity / 1e3, events / 1e3);
  activity_ = nullptr;
}

absl::Status Sampler::Sample(const LoadedProgram& program, PreparedProblem& problem,
                             const SamplePolicy& policy, double estimate_ns, RunReport& report) {
  // Lines that an earlier variant asked the cache to keep would outlive the flush. Not every device
  // has such lines; where it has none there is nothing to reset.
  context_->driver.cuCtxResetPersistingL2Cache();
  const Clock first_clock = clock();
  StoppingRule rule(policy);
  StopReason reason = StopReason::kContinue;
  while (reason == StopReason::kContinue) {
    const int taken = static_cast<int>(rule.samples_ns().size());
    const int count = NextBatch(policy, taken, estimate_ns);
    ASSIGN_OR_RETURN(std::vector<double> durations_ns,
                     TimeBatch(program, problem, policy.cache_mode, count));
    ASSIGN_OR_RETURN(bool right, Judge(problem, report));
    if (!right) {
      report.message = absl::StrCat("in a timed launch, not in the first one: ", report.message);
      return absl::OkStatus();
    }
    if (clock() != first_clock && taken > 0) {
      // Times of two clocks are not mixed: begin again with the one that is left.
      return Sample(program, problem, policy, estimate_ns, report);
    }
    for (double ns : durations_ns) rule.Add(ns);
    estimate_ns = MedianOf(durations_ns);
    reason = rule.Decide();
    const double beyond_hope_ns = kBeyondHope * policy.hopeless_ratio * policy.rival_latency_ns;
    if (beyond_hope_ns > 0 && estimate_ns > beyond_hope_ns) reason = StopReason::kHopeless;
    if (taken + count >= policy.samples_max) break;
  }
  report.samples_ns = rule.samples_ns();
  report.stopped_early = reason == StopReason::kHopeless;
  report.clock = clock();
  return absl::OkStatus();
}

}  // namespace tune::cuda
