// SPDX-License-Identifier: Apache-2.0
// An executor turns attempts into trials in two steps, so that many attempts compile while one is
// measured. Executors wrap one another, and each adds one thing: see executors.h.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "tuner/plan.h"
#include "tuner/trial.h"

namespace tune::server {

// A config on its way to a trial: planned, compiled, measured.
struct Attempt {
  Trial trial;
  ProgramPlan plan;
  std::string binary;           // empty until it is compiled, and once it runs
  std::shared_ptr<void> space;  // that the binary takes up while it waits (BoundedExecutor)
};
using AttemptPtr = std::shared_ptr<Attempt>;

class TrialExecutor {
 public:
  // The status is not OK if the harness cannot go on; CANCELLED if it was told not to. A trial
  // whose outcome is not kOk is complete.
  using Done = std::function<void(absl::Status)>;

  virtual ~TrialExecutor() = default;
  // Compiles an attempt, then calls `done`, from any thread and maybe at once.
  virtual void Compile(const AttemptPtr& attempt, Done done) = 0;
  // Completes the trial of an attempt that compiled. Called from one thread. Errors as Done's.
  virtual absl::Status Measure(Attempt& attempt) = 0;
};

}  // namespace tune::server
