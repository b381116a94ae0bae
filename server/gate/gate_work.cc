// SPDX-License-Identifier: Apache-2.0
#include "server/gate/gate_work.h"

#include <spdlog/spdlog.h>

#include <memory>
#include <utility>

#include "server/gate/gate_convert.h"
#include "server/gate/gate_evidence.h"

namespace tune::server {

GateStep GateWork::Step(const Job& job) const {
  std::lock_guard lock(mutex_);
  GateStep step = step_;
  if (step.phase != GatePhase::kNone) return step;
  step.phase = GatePhase::kWaiting;
  step.message = job.view().row.message;
  if (step.message.empty()) step.message = ToText(step.phase);
  return step;
}

JobWork::End GateWork::Run(JobContext& context) {
  feed_ = &context.feed();
  const auto tell = [this](const GateStep& step) {
    std::lock_guard lock(mutex_);
    step_ = step;
  };
  absl::StatusOr<int64_t> id = RunGate(store_, workers_, std::move(plan_), context, tell);
  if (id.ok()) run_id_ = *id;
  return {.status = id.status()};
}

void GateWork::Ended(const absl::Status&) {
  if (run_id_ == 0) return;
  const absl::StatusOr<GateEvidence> evidence = LoadEvidence(store_, run_id_, {});
  if (!evidence.ok()) {
    spdlog::error("gate run {} cannot be read: {}", run_id_, evidence.status().ToString());
    return;
  }
  feed_->AddResult(
      std::make_shared<v1::GateRun>(ToProto(*evidence, evidence->verdicts, Rounds::kInclude)));
}

}  // namespace tune::server
