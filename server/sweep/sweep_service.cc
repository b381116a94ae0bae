// SPDX-License-Identifier: Apache-2.0
#include "server/sweep/sweep_service.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "server/rpc/unary.h"
#include "server/sweep/list_trials_reactor.h"
#include "server/sweep/submission.h"
#include "server/sweep/sweep_convert.h"
#include "server/sweep/watch_sweep_reactor.h"
#include "server/wire/nouns.h"
#include "tuner/status_macros.h"

namespace tune::server {
namespace {

constexpr absl::Duration kSubmitCap = absl::Minutes(2);  // other large spaces may be found before
constexpr absl::Duration kCancelCap = absl::Seconds(30);
constexpr uint32_t kSweepsListed = 50;
constexpr uint32_t kSweepsListedMax = 1000;

}  // namespace

grpc::ServerUnaryReactor* SweepService::SubmitSweep(grpc::CallbackServerContext* context,
                                                    const v1::SubmitSweepRequest* request,
                                                    v1::Sweep* response) {
  const absl::Time deadline = DeadlineOf(*context, kSubmitCap);
  const auto submit = [=, this](const Cancelled& cancelled) -> absl::Status {
    ASSIGN_OR_RETURN(Submission submission,
                     CheckSubmission(*request, catalogue_, devices_, solver_, deadline, cancelled));
    ASSIGN_OR_RETURN(SweepView view, queue_.Submit(submission));
    *response = ToProto(view);
    for (const std::string& warning : submission.warnings) response->add_warnings(Utf8(warning));
    return absl::OkStatus();
  };
  return AnswerOn(executors_.waiting, context, kSubmitCap, submit);
}

grpc::ServerWriteReactor<v1::SweepEvent>* SweepService::WatchSweep(
    grpc::CallbackServerContext*, const v1::WatchSweepRequest* request) {
  return WatchSweepReactor::Start(queue_, ticker_, executors_.reads, request->sweep_id());
}

grpc::ServerUnaryReactor* SweepService::CancelSweep(grpc::CallbackServerContext* context,
                                                    const v1::CancelSweepRequest* request,
                                                    v1::Sweep* response) {
  const absl::Time deadline = DeadlineOf(*context, kCancelCap);
  return AnswerOn(executors_.cancels, context, [=, this]() -> absl::Status {
    ASSIGN_OR_RETURN(SweepView view, queue_.Cancel(request->sweep_id(), deadline));
    *response = ToProto(view);
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* SweepService::GetSweep(grpc::CallbackServerContext* context,
                                                 const v1::GetSweepRequest* request,
                                                 v1::Sweep* response) {
  return AnswerOn(executors_.reads, context, [=, this]() -> absl::Status {
    ASSIGN_OR_RETURN(SweepView view, queue_.Get(request->sweep_id()));
    *response = ToProto(view);
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* SweepService::ListSweeps(grpc::CallbackServerContext* context,
                                                   const v1::ListSweepsRequest* request,
                                                   v1::ListSweepsResponse* response) {
  const uint32_t limit = request->limit() == 0 ? kSweepsListed : request->limit();
  if (limit > kSweepsListedMax) {
    return Answer(context, absl::InvalidArgumentError(
                               absl::StrCat("limit ", limit, " is over ", kSweepsListedMax)));
  }
  return AnswerOn(executors_.reads, context, [=, this]() -> absl::Status {
    ASSIGN_OR_RETURN(std::vector<SweepView> views, queue_.List(limit));
    for (const SweepView& view : views) *response->add_sweeps() = ToProto(view);
    return absl::OkStatus();
  });
}

grpc::ServerWriteReactor<v1::Trial>* SweepService::ListTrials(
    grpc::CallbackServerContext*, const v1::ListTrialsRequest* request) {
  return ListTrialsReactor::Start(*request, store_, executors_.reads);
}

}  // namespace tune::server
