// SPDX-License-Identifier: Apache-2.0
#include "server/measure/final_rounds.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/status_macros.h"
#include "server/measure/executors.h"

namespace tune::server {

absl::StatusOr<std::vector<Trial>> FinalRounds::Run(const ProblemPlan& problem,
                                                    const std::string& reference_binary,
                                                    uint64_t seed,
                                                    const std::vector<AttemptPtr>& attempts) {
  const bool starts = expected_ > 0 || left_ == 0;
  if (starts) {
    left_ = std::max<size_t>(1, std::exchange(expected_, 0));
    session_ = make_session_(left_);
  }
  ASSIGN_OR_RETURN(const CompilePause quiet, session_->Quiet());
  if (starts) {
    std::vector<size_t> all(left_);
    std::iota(all.begin(), all.end(), size_t{0});
    // Processes that do not start beside one another, for want of memory say, start one by one.
    if (!session_->Renew(all).ok()) session_->Close();
  }
  const size_t twin = --left_;
  RETURN_IF_ERROR(session_->Prepare(twin, problem, reference_binary, seed, IfFull::kUseAlone));
  std::vector<Trial> trials;
  for (const AttemptPtr& attempt : attempts) {
    Trial& trial = trials.emplace_back(attempt->trial);
    if (trial.outcome != Outcome::kOk) continue;
    RETURN_IF_ERROR(MeasureTrial(*session_, twin,
                                 {WithBinary(attempt->plan, attempt->binary), policy_}, trial));
  }
  session_->Retire(twin);
  return trials;
}

}  // namespace tune::server
