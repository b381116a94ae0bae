// SPDX-License-Identifier: Apache-2.0
#include "server/sweep/sweep_service.h"

#include <string>
#include <utility>

#include "base/status_macros.h"
#include "server/access/discretion.h"
#include "server/rpc/unary.h"
#include "server/sweep/list_trials_reactor.h"
#include "server/sweep/submission.h"
#include "server/sweep/sweep_convert.h"
#include "server/wire/nouns.h"

namespace tune::server {
namespace {

constexpr absl::Duration kSubmitCap = absl::Minutes(2);  // other large spaces may be found before

}  // namespace

grpc::ServerUnaryReactor* SweepService::SubmitSweep(grpc::CallbackServerContext* context,
                                                    const v1::SubmitSweepRequest* request,
                                                    v1::Sweep* response) {
  const absl::Time deadline = DeadlineOf(*context, kSubmitCap);
  const Principal principal = tools_.principals.Of(*context);
  const auto submit = [=, this](const Cancelled& cancelled) -> absl::Status {
    const absl::Duration most = tools_.principals.JobTimeMaxOf(principal.name);
    RETURN_IF_ERROR(CheckBudgetWithin(most, request->budget()));
    ASSIGN_OR_RETURN(Submission submission,
                     CheckSubmission(*request, catalogue_, devices_, solver_, deadline, cancelled));
    SetOwner(principal, *request, submission.sweep);
    BoundBudget(most, submission.sweep);
    KeepSources keep_sources;  // a kernel of the catalogue is nobody's
    if (request->has_kernel_source()) {
      keep_sources = [&] {
        return tools_.principals.KeepKernel(principal, submission.kernel, store_);
      };
    }
    ASSIGN_OR_RETURN(SweepView view, sweeps_.Submit(submission, keep_sources));
    *response = ToProto(view);
    for (const std::string& warning : submission.warnings) response->add_warnings(Utf8(warning));
    return absl::OkStatus();
  };
  return AnswerOn(tools_.executors.waiting, context, kSubmitCap, submit);
}

grpc::ServerUnaryReactor* SweepService::GetSweep(grpc::CallbackServerContext* context,
                                                 const v1::GetSweepRequest* request,
                                                 v1::Sweep* response) {
  return AnswerOn(tools_.executors.reads, context, [=, this]() -> absl::Status {
    ASSIGN_OR_RETURN(SweepView view, sweeps_.Get(request->sweep_id()));
    *response = ToProto(view);
    HideUnlessSeen(view.row.name_space, *response);
    return absl::OkStatus();
  });
}

grpc::ServerWriteReactor<v1::Trial>* SweepService::ListTrials(
    grpc::CallbackServerContext*, const v1::ListTrialsRequest* request) {
  return ListTrialsReactor::Start(*request, store_, tools_.executors.reads);
}

}  // namespace tune::server
