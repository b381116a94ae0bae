// SPDX-License-Identifier: Apache-2.0
#include "server/gate/gate_work.h"

#include <memory>

#include "base/status_macros.h"
#include "server/gate/gate_convert.h"
#include "server/workload/keep_kernels.h"

namespace tune::server {
namespace {

std::vector<NamedKernel> KernelsOf(const GatePlan& plan) {
  std::vector<NamedKernel> kernels;
  for (const GateSubject& subject : plan.subjects) {
    kernels.push_back(subject.head.named);
    if (subject.base) kernels.push_back(subject.base->named);
  }
  return kernels;
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
        AskedJob asked{
            .subject = plan.run.job.subject,
            .devices = plan.device_ids,
            .keep_sources = KeepKernels(KernelsOf(plan), asker.principal, principals, store)};
        asked.work = std::make_shared<GateWork>(store, workers, std::move(plan));
        return asked;
      });
  kind.runs_again = false;
  return kind;
}

}  // namespace tune::server
