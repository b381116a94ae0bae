// SPDX-License-Identifier: Apache-2.0
// Times the launches of one variant until its median is known well enough, and checks what the
// timed launches wrote.
//
// The cost on an H200, by the example of a 35 us kernel with 67 MB in and 67 MB out, if 40 to 80
// variants a second leave 8 to 10 ms each on the device:
//   a sample: flush 30 us (120 MB read at 4 TB/s), kernel 35 us              65 us
//   a batch: poison 20 us, check of the result 0.2 ms, CUPTI and wait 0.1 ms  0.3 ms
//   20 samples in one batch                                                  1.6 ms
//   100 samples in 20 + 20 + 20 + 30 + 10                                     8 ms
// A median known to 0.25 % needs about 25 samples where they spread by 0.5 %, 100 where by 1 %.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tuner/device/cuda/activity_clock.h"
#include "tuner/device/cuda/device_context.h"
#include "tuner/device/cuda/harness.h"
#include "tuner/device/cuda/loaded_program.h"
#include "tuner/device/prepared_problem.h"
#include "tuner/device/runner.h"
#include "tuner/statistics/stopping_rule.h"

namespace tune::cuda {

// Not thread-safe. One per prepared problem: it finds out once whether CUPTI and events agree
// there.
class Sampler {
 public:
  // `clock` may be null: then events time the kernels.
  static absl::StatusOr<Sampler> Create(const DeviceContext& context, Harness& harness,
                                        ActivityClock* clock);

  // Checks one launch on poisoned outputs; fills report.error, or its outcome and message. Returns
  // about how long the kernel took, in ns.
  absl::StatusOr<double> CheckLaunch(const LoadedProgram& program, PreparedProblem& problem,
                                     RunReport& report);

  // Fills report.samples_ns, or its outcome and message where a timed launch went wrong.
  // REQUIRES: CheckLaunch found nothing wrong and returned `estimate_ns`.
  absl::Status Sample(const LoadedProgram& program, PreparedProblem& problem,
                      const SamplePolicy& policy, double estimate_ns, RunReport& report);

  Clock clock() const { return activity_ == nullptr ? Clock::kEvents : Clock::kCupti; }
  // Why it changed from CUPTI to events; empty if it did not.
  const std::string& clock_note() const { return clock_note_; }

 private:
  using EventPair = std::pair<CUevent, CUevent>;

  Sampler(const DeviceContext& context, Harness& harness, ActivityClock* clock)
      : context_(&context), harness_(&harness), activity_(clock) {}
  absl::Status EnqueueBatch(const LoadedProgram& program, PreparedProblem& problem, CacheMode mode,
                            int count, bool with_events);
  absl::StatusOr<std::vector<double>> TimeBatch(const LoadedProgram& program,
                                                PreparedProblem& problem, CacheMode mode,
                                                int count);
  absl::StatusOr<std::vector<double>> EventDurations(int count) const;
  absl::Status Launch(const LoadedProgram& program, int event_index);
  void CrossCheck(const std::vector<double>& activity_ns, const std::vector<double>& events_ns);
  absl::StatusOr<bool> Judge(PreparedProblem& problem, RunReport& report);

  const DeviceContext* context_;
  Harness* harness_;
  ActivityClock* activity_;
  bool cross_checked_ = false;
  std::string clock_note_;
  std::vector<EventPair> events_;  // never destroyed: they live as long as the process
};

// How many samples to take next, `taken` having been taken in launches of about `estimate_ns`.
int NextBatch(const SamplePolicy& policy, int taken, double estimate_ns);

}  // namespace tune::cuda
