// SPDX-License-Identifier: Apache-2.0
// An evaluator turns configs into trials: it compiles, runs and measures them. A sweep starts up to
// capacity() trials and takes finished ones with Next(), so that some configs compile while one is
// measured. After the search the sweep measures the best ones again with Remeasure().
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/steady_time.h"
#include "tuner/config.h"
#include "tuner/trial.h"

namespace tune {

// Not thread-safe: used by one sweep.
class Evaluator {
 public:
  virtual ~Evaluator() = default;
  // How many configs it can use at once.
  virtual size_t capacity() const = 0;
  // Starts a trial. REQUIRES: fewer than capacity() in flight.
  virtual absl::Status Start(const Config& config) = 0;
  // The next finished trial in any order, or nothing if none finishes within the time. A non-OK
  // status means the harness cannot go on (device lost, disk full).
  virtual absl::StatusOr<std::optional<Trial>> Next(absl::Duration wait) = 0;
  // The time that a budget in seconds is of; not the host's where trials are replayed.
  virtual absl::Time Now() const { return SteadyNow(); }
  // At most this many calls of Remeasure follow, so that what they need can be got ready at once.
  // Once `limit` has passed they give DEADLINE_EXCEEDED.
  virtual void ExpectRounds(int /*rounds*/, absl::Duration /*limit*/) {}
  // Measures these configs again, one after the other, in a fresh worker; in the order given. One
  // round of several: what is in flight is abandoned, and rates are left to Appraise.
  virtual absl::StatusOr<std::vector<Trial>> Remeasure(const std::vector<Config>& configs) = 0;
  // Fills in what follows from the median of a trial that was ok, such as its share of the peak;
  // may change the outcome to kAboveRoof. For trials put together from several rounds.
  virtual void Appraise(Trial&) const {}
  // Tells the evaluator the best latency so far, so that hopeless configs can be cut short.
  virtual void SetRival(double latency_ns) = 0;
};

}  // namespace tune
