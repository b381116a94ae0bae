// SPDX-License-Identifier: Apache-2.0
#include "server/gate/gate_work.h"

#include <memory>

#include "base/status_macros.h"
#include "server/gate/gate_convert.h"
#include "server/workload/workload.h"

namespace tune::server {
namespace {

absl::Status KeepKernels(const Principals& principals, const Principal& principal,
                         const GatePlan& plan, db::Store& store) {
  for (const GateSubject& subject : plan.subjects) {
    RETURN_IF_ERROR(principals.KeepKernel(principal, ToRow(subject.head.named), store));
    if (!subject.base) continue;
    RETURN_IF_ERROR(principals.KeepKernel(principal, ToRow(subject.base->named), store));
  }
  return absl::OkStatus();
}

}  // namespace

JobWork::End GateWork::Run(JobContext& context) {
  const auto tell = [&](const GateStep& step) {
    context.feed().AddStep(std::make_shared<v1::GateProgress>(ToProto(step)));
  };
  return {.status = RunGate(store_, workers_, std::move(plan_), context, tell).status()};
}

JobKind GateKind(db::Store& store, Workers& workers, const Devices& devices,
                 const Principals& principals) {
  JobKind kind = MakeJobKind<v1::SubmitGateRequest>(
      db::JobKind::kGate, "a gate",
      [&](const v1::SubmitGateRequest& request, const Asker& asker) -> absl::StatusOr<AskedJob> {
        ASSIGN_OR_RETURN(GatePlan plan, CheckGate(request, store, devices, asker.deadline,
                                                  asker.cancelled, NameSpaceOf(asker.principal)));
        RETURN_IF_ERROR(KeepKernels(principals, asker.principal, plan, store));
        AskedJob asked{.subject = plan.run.job.subject, .devices = plan.device_ids};
        asked.work = std::make_shared<GateWork>(store, workers, std::move(plan));
        return asked;
      });
  kind.runs_again = false;
  return kind;
}

}  // namespace tune::server
