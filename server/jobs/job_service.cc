// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/job_service.h"

#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/rpc/unary.h"
#include "server/wire/nouns.h"
#include "tuner/status_macros.h"

namespace tune::server {
namespace {

constexpr uint32_t kListed = 50;
constexpr uint32_t kListedMax = 1000;
constexpr absl::Duration kCancelCap = absl::Seconds(30);

}  // namespace

v1::Job ToProto(const JobView& view) {
  auto proto = Encoded<v1::Job>(view.row, {"deaths"});
  if (view.waiting) proto.set_state(v1::JOB_STATE_WAITING);
  return proto;
}

absl::StatusOr<JobView> JobService::Look(int64_t id) const {
  if (const std::shared_ptr<Job> job = tools_.scheduler.Find(id)) return job->view();
  ASSIGN_OR_RETURN(db::JobRow row, store_.GetJob(id));
  return JobView{.row = std::move(row)};
}

absl::Status JobService::EndLeft(JobView& view) const {
  if (db::IsFinished(view.row.state)) return absl::OkStatus();
  view.row.state = db::JobState::kCancelled;
  view.row.message.clear();
  view.row.finished_unix_ms = absl::ToUnixMillis(absl::Now());
  return store_.UpdateJob(view.row);
}

grpc::ServerUnaryReactor* JobService::ListJobs(grpc::CallbackServerContext* context,
                                               const v1::ListJobsRequest* request,
                                               v1::ListJobsResponse* response) {
  const uint32_t limit = request->limit() == 0 ? kListed : request->limit();
  if (limit > kListedMax || !v1::JobKind_IsValid(request->kind())) {
    return Answer(context, absl::InvalidArgumentError(absl::StrCat(
                               "limit ", limit, " and kind ", request->kind(), "; the limit is at "
                               "most ", kListedMax, ", and kinds are those of JobKind")));
  }
  return AnswerOn(tools_.executors.reads, context, [=, this]() -> absl::Status {
    ASSIGN_OR_RETURN(std::vector<db::JobRow> rows,
                     store_.ListJobs({.kind = static_cast<db::JobKind>(request->kind()),
                                      .unfinished = request->unfinished(),
                                      .limit = limit}));
    for (db::JobRow& row : rows) {
      const std::shared_ptr<Job> live = tools_.scheduler.Find(row.id);
      *response->add_jobs() = ToProto(live ? live->view() : JobView{.row = std::move(row)});
    }
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* JobService::GetJob(grpc::CallbackServerContext* context,
                                             const v1::GetJobRequest* request, v1::Job* response) {
  return AnswerOn(tools_.executors.reads, context, [=, this]() -> absl::Status {
    ASSIGN_OR_RETURN(const JobView view, Look(request->job_id()));
    *response = ToProto(view);
    return absl::OkStatus();
  });
}

grpc::ServerWriteReactor<v1::Job>* JobService::WatchJob(grpc::CallbackServerContext*,
                                                        const v1::WatchJobRequest* request) {
  using Reactor = FeedReactor<v1::Job>;
  std::shared_ptr<Reactor> reactor = Reactor::Make(tools_.ticker);
  const absl::Status queued =
      tools_.executors.reads
          .Run([this, reactor, id = request->job_id()] {
            if (const std::shared_ptr<Job> job = tools_.scheduler.Find(id)) {
              const auto make = [job](const Feed::News&, std::deque<v1::Job>& events) {
                events.push_back(ToProto(job->view()));
              };
              return reactor->Follow(id, job->SharedFeed(job), make);
            }
            const absl::StatusOr<JobView> view = Look(id);
            if (!view.ok()) return reactor->End(ToGrpc(view.status()));
            auto feed = std::make_shared<Feed>();
            feed->End(absl::OkStatus());
            reactor->Follow(id, std::move(feed),
                            [job = ToProto(*view)](const Feed::News&, std::deque<v1::Job>& events) {
                              events.push_back(job);
                            });
          })
          .status();
  if (!queued.ok()) reactor->End(ToGrpc(queued));
  return reactor.get();
}

grpc::ServerUnaryReactor* JobService::CancelJob(grpc::CallbackServerContext* context,
                                                const v1::CancelJobRequest* request,
                                                v1::Job* response) {
  const absl::Time deadline = DeadlineOf(*context, kCancelCap);
  return AnswerOn(tools_.executors.cancels, context, [=, this]() -> absl::Status {
    absl::StatusOr<JobView> view = tools_.scheduler.Cancel(request->job_id(), deadline);
    if (absl::IsNotFound(view.status())) {
      ASSIGN_OR_RETURN(view, Look(request->job_id()));
      RETURN_IF_ERROR(EndLeft(*view));
    }
    RETURN_IF_ERROR(view.status());
    *response = ToProto(*view);
    return absl::OkStatus();
  });
}

}  // namespace tune::server
