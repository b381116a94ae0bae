// SPDX-License-Identifier: Apache-2.0
#include "server/sweep/sweep_service.h"

#include <deque>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/contained.h"
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
constexpr absl::Duration kCancelCap = absl::Seconds(30);
constexpr uint32_t kSweepsListed = 50;
constexpr uint32_t kSweepsListedMax = 1000;
constexpr size_t kListBytesMax = 16 << 20;

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
    RETURN_IF_ERROR(tools_.principals.KeepKernel(principal, submission.kernel, store_));
    ASSIGN_OR_RETURN(SweepView view, sweeps_.Submit(submission));
    *response = ToProto(view);
    for (const std::string& warning : submission.warnings) response->add_warnings(Utf8(warning));
    return absl::OkStatus();
  };
  return AnswerOn(tools_.executors.waiting, context, kSubmitCap, submit);
}

grpc::ServerWriteReactor<v1::SweepEvent>* SweepService::WatchSweep(
    grpc::CallbackServerContext* context, const v1::WatchSweepRequest* request) {
  using Reactor = FeedReactor<v1::SweepEvent>;
  std::shared_ptr<Reactor> reactor = Reactor::Make(tools_.ticker);
  const absl::Status queued =
      tools_.executors.reads
          .Run([this, reactor, id = request->sweep_id(),
                principal = tools_.principals.Of(*context)] {
            absl::StatusOr<Sweeps::Watched> watched = Contained([&] { return sweeps_.Watch(id); });
            if (!watched.ok()) return reactor->End(ToGrpc(watched.status()));
            reactor->Claim(ClaimOf(principal, watched->owner));
            const std::string name_space = watched->view().row.name_space;
            const auto make = [view = std::move(watched->view), name_space,
                               sees_words = SeesWordsOf(name_space)](
                                  const Feed::News& news, std::deque<v1::SweepEvent>& events) {
              v1::SweepEvent& event = events.emplace_back();
              *event.mutable_sweep() = ToProto(view());
              for (const Feed::Step& step : news.steps) event.add_trials()->CopyFrom(*step);
              if (!sees_words) HideWords(name_space, event);
            };
            reactor->Follow(watched->job_id, std::move(watched->feed), make);
          })
          .status();
  if (!queued.ok()) reactor->End(ToGrpc(queued));
  return reactor.get();
}

grpc::ServerUnaryReactor* SweepService::CancelSweep(grpc::CallbackServerContext* context,
                                                    const v1::CancelSweepRequest* request,
                                                    v1::Sweep* response) {
  const absl::Time deadline = DeadlineOf(*context, kCancelCap);
  const Principal principal = tools_.principals.Of(*context);
  return AnswerOn(tools_.executors.cancels, context, [=, this]() -> absl::Status {
    ASSIGN_OR_RETURN(const SweepView asked, sweeps_.Get(request->sweep_id()));
    RETURN_IF_ERROR(CheckMayCancel(principal, asked.row.job));
    ASSIGN_OR_RETURN(SweepView view, sweeps_.Cancel(request->sweep_id(), deadline));
    *response = ToProto(view);
    return absl::OkStatus();
  });
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

grpc::ServerUnaryReactor* SweepService::ListSweeps(grpc::CallbackServerContext* context,
                                                   const v1::ListSweepsRequest* request,
                                                   v1::ListSweepsResponse* response) {
  const uint32_t limit = request->limit() == 0 ? kSweepsListed : request->limit();
  if (limit > kSweepsListedMax) {
    return Answer(context, absl::InvalidArgumentError(
                               absl::StrCat("limit ", limit, " is over ", kSweepsListedMax)));
  }
  return AnswerOn(tools_.executors.reads, context, [=, this]() -> absl::Status {
    ASSIGN_OR_RETURN(std::vector<SweepView> views, sweeps_.List(limit));
    size_t bytes = 0;
    for (const SweepView& view : views) {
      v1::Sweep& sweep = *response->add_sweeps();
      sweep = ToProto(view);
      HideUnlessSeen(view.row.name_space, sweep);
      bytes += sweep.ByteSizeLong();
      if (bytes > kListBytesMax) break;  // the newest are in it
    }
    return absl::OkStatus();
  });
}

grpc::ServerWriteReactor<v1::Trial>* SweepService::ListTrials(
    grpc::CallbackServerContext*, const v1::ListTrialsRequest* request) {
  return ListTrialsReactor::Start(*request, store_, tools_.executors.reads);
}

}  // namespace tune::server
