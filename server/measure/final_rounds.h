// SPDX-License-Identifier: Apache-2.0
// The rounds that measure the best configs again, each in a fresh process of the device.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "server/measure/session.h"
#include "server/measure/trial_executor.h"

namespace tune::server {

// Not thread-safe.
class FinalRounds {
 public:
  using MakeSession = std::function<std::unique_ptr<Session>(size_t twins)>;

  FinalRounds(MakeSession make_session, const SamplePolicy& policy)
      : make_session_(std::move(make_session)), policy_(policy) {}

  // This many rounds follow, so that their processes can start at the same time: starting one takes
  // longer than a round of a fast kernel. Only one works at a time.
  void Expect(int rounds) { expected_ = static_cast<size_t>(rounds); }
  // A trial for each attempt, in their order. Those that did not compile stay as they are.
  absl::StatusOr<std::vector<Trial>> Run(const ProblemPlan& problem,
                                         const std::string& reference_binary, uint64_t seed,
                                         const std::vector<AttemptPtr>& attempts);

 private:
  const MakeSession make_session_;
  const SamplePolicy policy_;
  size_t expected_ = 0;
  size_t left_ = 0;  // twins that have had no round yet
  std::unique_ptr<Session> session_;
};

}  // namespace tune::server
