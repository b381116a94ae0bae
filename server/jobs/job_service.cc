// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/job_service.h"

#include <spdlog/spdlog.h>

#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "base/contained.h"
#include "base/mutex.h"
#include "base/plural.h"
#include "base/status_macros.h"
#include "base/steady_time.h"
#include "server/access/discretion.h"
#include "server/jobs/left_job.h"
#include "server/rpc/connections.h"
#include "server/rpc/error_detail.h"
#include "server/rpc/page.h"
#include "server/rpc/unary.h"
#include "server/supervision/acting_for.h"
#include "server/wire/nouns.h"

namespace tune::server {
namespace {

constexpr uint32_t kNamed = 5;  // where one is asked for that there is not
constexpr size_t kListBytesMax = 16 << 20;
constexpr absl::Duration kCancelCap = absl::Seconds(30);
constexpr absl::Duration kLookAtOtherHost = absl::Milliseconds(200);  // at a job of another host
constexpr uint32_t kCancelledMax = 100000;  // of one owner: a queue has no more

// The claim with which a principal watches a job of `owner`.
WatchClaim ClaimOf(const Principal& principal, const std::string& owner) {
  WatchClaim claim{.principal = principal.name};
  if (!owner.empty() && principal.name == owner) claim.kind = WatchClaim::Kind::kOwner;
  if (principal.role == db::Role::kOperator) claim.kind = WatchClaim::Kind::kOperator;
  return claim;
}

// Has the host that has the job cancel it. NOT_FOUND: none has it.
absl::Status CancelElsewhere(const JobTools& tools, int64_t id, absl::Time deadline) {
  if (tools.fleet == nullptr) return absl::NotFoundError("no other host");
  db::FleetStore& store = tools.fleet->store();
  ASSIGN_OR_RETURN(const auto holders, store.Holders());
  const auto holder = holders.find(id);
  if (holder == holders.end()) return absl::NotFoundError("no host has it");
  RETURN_IF_ERROR(store.AskToCancel(id));
  while (SteadyNow() < deadline) {
    ASSIGN_OR_RETURN(const db::JobRow row, tools.store.GetJob(id));
    if (db::IsFinished(row.state)) return absl::OkStatus();
    absl::SleepFor(kLookAtOtherHost);
  }
  return absl::DeadlineExceededError(
      absl::StrCat("job ", id, " is still stopping at host ", holder->second));
}

absl::Status CancelLeft(const JobTools& tools, int64_t id, absl::Time deadline) {
  ASSIGN_OR_RETURN(db::JobRow row, tools.store.GetJob(id));
  if (db::IsFinished(row.state)) return absl::OkStatus();
  if (const absl::Status there = CancelElsewhere(tools, id, deadline); !absl::IsNotFound(there)) {
    return there;
  }
  if (tools.fleet == nullptr && !tools.scheduler.IsOlder(row)) {
    return absl::UnavailableError(
        absl::StrCat("job ", id, " is being queued or is just ending; try again"));
  }
  const JobKind& kind = KindOf(tools.kinds, row.kind);
  if (kind.cancel_left) return kind.cancel_left(row);
  row.state = db::JobState::kCancelled;
  row.message.clear();
  row.finished_unix_ms = absl::ToUnixMillis(absl::Now());
  return tools.store.UpdateJob(row);
}

absl::StatusOr<JobView> CancelOne(const JobTools& tools, int64_t id, absl::Time deadline) {
  absl::StatusOr<JobView> view = tools.scheduler.Cancel(id, deadline);
  if (!absl::IsNotFound(view.status())) return view;
  RETURN_IF_ERROR(CancelLeft(tools, id, deadline));
  ASSIGN_OR_RETURN(db::JobRow row, tools.store.GetJob(id));
  return JobView{.row = std::move(row)};
}

}  // namespace

CancelledJobs CancelJobsOf(const std::string& owner, const JobTools& tools, absl::Time deadline) {
  CancelledJobs cancelled;
  const absl::StatusOr<std::vector<db::JobRow>> rows =
      tools.store.ListJobs({.unfinished = true, .owner = owner, .limit = kCancelledMax});
  if (!rows.ok()) {
    cancelled.errors.emplace_back(rows.status().message());
    return cancelled;
  }
  // None of them begins while others are being ended.
  for (const db::JobRow& row : *rows) tools.scheduler.BeginCancel(row.id);
  for (const db::JobRow& row : *rows) {
    absl::StatusOr<JobView> view = CancelOne(tools, row.id, deadline);
    if (view.ok()) {
      cancelled.jobs.push_back(*std::move(view));
    } else {
      cancelled.errors.push_back(absl::StrCat("job ", row.id, ": ", view.status().message()));
    }
  }
  return cancelled;
}

// Jobs of operators are of kernels that all share.
bool JobService::SeesWords(const std::string& owner) const {
  return owner.empty() || IsCaller(owner) || tools_.principals.IsOperator(owner);
}

v1::Job JobService::Told(const JobView& view) const {
  v1::Job job = ToProto(view, tools_.web_url);
  if (!SeesWords(view.row.owner)) HideWords(view.row.owner, job);
  return job;
}

bool JobService::SeesResults(const db::JobRow& job) const {
  return KindOf(tools_.kinds, job.kind).is_public || IsCaller(job.owner);
}

v1::JobEvent JobService::EventOf(const Job& job, const Feed::News& news) const {
  v1::JobEvent event;
  const JobView view = job.view();
  *event.mutable_job() = Told(view);
  if (view.row.state == db::JobState::kFailed) {
    event.set_error_code(static_cast<int32_t>(news.status.code()));
  }
  if (SeesResults(view.row)) job.work().AddNews(news, event);
  return event;
}

absl::StatusOr<v1::JobEvent> JobService::StoredEvent(const JobView& view) const {
  v1::JobEvent event;
  if (SeesResults(view.row)) {
    ASSIGN_OR_RETURN(const std::string stored, store_.JobEnd(view.row.id));
    if (!event.ParseFromString(stored)) {
      return absl::DataLossError(
          absl::StrCat("job ", view.row.id, ": its stored results cannot be parsed"));
    }
    const JobKind& kind = KindOf(tools_.kinds, view.row.kind);
    if (kind.find_results) RETURN_IF_ERROR(kind.find_results(view.row, event));
  }
  *event.mutable_job() = Told(view);
  return event;
}

absl::StatusOr<v1::Job> JobService::WithResults(const JobView& view) const {
  v1::JobEvent event;
  if (const std::shared_ptr<Job> job = tools_.scheduler.Find(view.row.id)) {
    event = EventOf(*job, {.results = job->feed().results()});
  } else {
    ASSIGN_OR_RETURN(event, StoredEvent(view));
  }
  event.mutable_job()->mutable_results()->Swap(event.mutable_results());
  return std::move(*event.mutable_job());
}

JobView JobService::Look(db::JobRow row, const Holders& holders) const {
  if (const std::shared_ptr<Job> job = tools_.scheduler.Find(row.id)) return job->view();
  if (tools_.fleet == nullptr) return {.row = AsLeft(std::move(row), owner_)};
  const auto holder = holders.find(row.id);
  return {.row = AsLeft(std::move(row),
                        holder == holders.end() ? "no host now" : "host " + holder->second)};
}

JobService::Holders JobService::FindHolders() const {
  if (tools_.fleet == nullptr) return {};
  return tools_.fleet->store().Holders().value_or(Holders());
}

std::string JobService::NewestJobs() const {
  const absl::StatusOr<std::vector<db::JobRow>> rows = store_.ListJobs({.limit = kNamed});
  if (!rows.ok() || rows->empty()) return "there are none";
  return absl::StrCat("the newest: ",
                      absl::StrJoin(*rows, ", ", [](std::string* out, const db::JobRow& row) {
                        absl::StrAppend(out, row.id);
                      }));
}

absl::StatusOr<JobView> JobService::Look(int64_t id) const {
  if (const std::shared_ptr<Job> job = tools_.scheduler.Find(id)) return job->view();
  absl::StatusOr<db::JobRow> row = store_.GetJob(id);
  if (absl::IsNotFound(row.status())) {
    return WithReason(absl::NotFoundError(absl::StrCat("no job ", id, "; ", NewestJobs(),
                                                       "; see `tunectl job list`")),
                      v1::ERROR_REASON_NO_SUCH_JOB);
  }
  RETURN_IF_ERROR(row.status());
  return Look(*std::move(row), FindHolders());
}

grpc::ServerUnaryReactor* JobService::ListJobs(grpc::CallbackServerContext* context,
                                               const v1::ListJobsRequest* request,
                                               v1::ListJobsResponse* response) {
  if (!v1::JobKind_IsValid(request->kind())) {
    return Answer(context, absl::InvalidArgumentError(
                               absl::StrCat("kind ", request->kind(), " is none of JobKind")));
  }
  return AnswerOn(tools_.executors.reads, context, [=, this]() -> absl::Status {
    ASSIGN_OR_RETURN(const Page page, PageOf(*request));
    ASSIGN_OR_RETURN(std::vector<db::JobRow> rows,
                     store_.ListJobs({.kind = static_cast<db::JobKind>(request->kind()),
                                      .unfinished = request->unfinished(),
                                      .owner = request->owner(),
                                      .limit = page.limit,
                                      .before_id = page.before_id}));
    if (!rows.empty()) response->set_next_page_token(absl::StrCat(rows.back().id));
    size_t bytes = 0;
    const Holders holders = FindHolders();
    for (db::JobRow& row : rows) {
      const JobView view = Look(std::move(row), holders);
      v1::Job& job = *response->add_jobs();
      job = Told(view);
      if (!request->with_results() || bytes > kListBytesMax) continue;
      // A job whose results cannot be read is listed without them.
      if (absl::StatusOr<v1::Job> with = WithResults(view); with.ok()) job = *std::move(with);
      bytes += job.ByteSizeLong();
    }
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* JobService::GetJob(grpc::CallbackServerContext* context,
                                             const v1::GetJobRequest* request, v1::Job* response) {
  return AnswerOn(tools_.executors.reads, context, [=, this]() -> absl::Status {
    ASSIGN_OR_RETURN(const JobView view, Look(request->job_id()));
    if (!request->with_results()) {
      *response = Told(view);
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(*response, WithResults(view));
    return absl::OkStatus();
  });
}

absl::Status JobService::Watch(int64_t id, const Principal& principal,
                               FeedReactor<v1::JobEvent>& reactor) const {
  const std::shared_ptr<Job> job = tools_.scheduler.Find(id);
  // A job that waits may go on at another host.
  const bool stays = tools_.fleet == nullptr ||
                     (job != nullptr && job->view().row.state == db::JobState::kRunning);
  if (job != nullptr && stays) {
    reactor.Claim(ClaimOf(principal, job->owner()));
    reactor.Follow(id, job->SharedFeed(job),
                   [this, job, caller = ActingFor::Current()](const Feed::News& news,
                                                              std::deque<v1::JobEvent>& events) {
                     const ActingFor acting(caller);
                     events.push_back(EventOf(*job, news));
                     // Unfinished, it is left to the next daemon.
                     return db::IsFinished(job->view().row.state) ? absl::OkStatus() : news.status;
                   });
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const JobView view, Look(id));
  if (!db::IsFinished(view.row.state) && tools_.fleet != nullptr) {
    reactor.Claim(ClaimOf(principal, view.row.owner));
    WatchElsewhere(id, reactor);
    return absl::OkStatus();
  }
  if (!db::IsFinished(view.row.state)) {
    return absl::FailedPreconditionError(
        absl::StrCat("job ", id, " cannot be followed here: ", view.row.message));
  }
  auto feed = std::make_shared<Feed>();
  feed->End(absl::OkStatus());
  ASSIGN_OR_RETURN(v1::JobEvent event, StoredEvent(view));
  reactor.Claim(ClaimOf(principal, view.row.owner));
  reactor.Follow(id, std::move(feed),
                 [event = std::move(event)](const Feed::News&, std::deque<v1::JobEvent>& events) {
                   events.push_back(event);
                   return absl::OkStatus();
                 });
  return absl::OkStatus();
}

void JobService::WatchElsewhere(int64_t id, FeedReactor<v1::JobEvent>& reactor) const {
  struct Newest {
    Mutex mutex;
    v1::JobEvent event ABSL_GUARDED_BY(mutex);
  };
  const auto newest = std::make_shared<Newest>();
  const auto feed = std::make_shared<Feed>();
  const std::weak_ptr<Feed> followed = feed;
  const auto look = [this, id, newest, followed, caller = ActingFor::Current()] {
    const ActingFor acting(caller);
    const std::shared_ptr<Feed> to = followed.lock();
    if (to == nullptr) return false;  // the watcher left
    const absl::StatusOr<JobView> view = Look(id);
    if (!view.ok()) return true;  // the store is away
    absl::StatusOr<v1::JobEvent> event = StoredEvent(*view);
    if (!event.ok()) return true;
    const bool over = db::IsFinished(view->row.state);
    {
      MutexLock lock(newest->mutex);
      newest->event = *std::move(event);
    }
    over ? to->End(absl::OkStatus()) : to->Touch();
    return !over;
  };
  look();
  tools_.fleet->Follow(look);
  reactor.Follow(id, feed, [newest](const Feed::News& news, std::deque<v1::JobEvent>& events) {
    MutexLock lock(newest->mutex);
    events.push_back(newest->event);
    return news.status;
  });
}

grpc::ServerWriteReactor<v1::JobEvent>* JobService::WatchJob(grpc::CallbackServerContext* context,
                                                             const v1::WatchJobRequest* request) {
  const auto reactor = FeedReactor<v1::JobEvent>::Make(tools_.ticker);
  const absl::Status queued =
      tools_.executors.reads
          .Run([this, reactor, id = request->job_id(), principal = tools_.principals.Of(*context)] {
            const absl::Status watched = Contained([&] { return Watch(id, principal, *reactor); });
            if (!watched.ok()) reactor->End(ToGrpc(watched));
          })
          .status();
  if (!queued.ok()) reactor->End(ToGrpc(queued));
  return reactor.get();
}

grpc::ServerUnaryReactor* JobService::CancelJob(grpc::CallbackServerContext* context,
                                                const v1::CancelJobRequest* request,
                                                v1::Job* response) {
  const absl::Time deadline = DeadlineOf(*context, kCancelCap);
  const Principal principal = tools_.principals.Of(*context);
  return AnswerOn(tools_.executors.cancels, context, [=, this]() -> absl::Status {
    ASSIGN_OR_RETURN(const JobView asked, Look(request->job_id()));
    RETURN_IF_ERROR(CheckMayCancel(principal, asked.row));
    if (principal.name != asked.row.owner) {
      spdlog::info("{}, an operator, cancels job {} of {} from {}", principal.name, asked.row.id,
                   asked.row.owner, HostOfPeer(context->peer()));
    }
    ASSIGN_OR_RETURN(const JobView view, CancelOne(tools_, request->job_id(), deadline));
    *response = ToProto(view, tools_.web_url);
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* JobService::CancelJobs(grpc::CallbackServerContext* context,
                                                 const v1::CancelJobsRequest* request,
                                                 v1::CancelJobsResponse* response) {
  const absl::Time deadline = DeadlineOf(*context, kCancelCap);
  const Principal principal = tools_.principals.Of(*context);
  if (request->owner().empty()) {
    return Answer(context, absl::InvalidArgumentError("whose jobs are to be stopped: no owner"));
  }
  return AnswerOn(tools_.executors.cancels, context, [=, this]() -> absl::Status {
    RETURN_IF_ERROR(CheckMayCancelJobsOf(principal, request->owner()));
    CancelledJobs cancelled = CancelJobsOf(request->owner(), tools_, deadline);
    spdlog::info("{}, {} {}, cancelled {} of {} from {}", principal.name,
                 principal.role == db::Role::kOperator ? "an" : "a", ToText(principal.role),
                 Counted(cancelled.jobs.size(), "job"), request->owner(),
                 HostOfPeer(context->peer()));
    for (const JobView& view : cancelled.jobs)
      *response->add_jobs() = ToProto(view, tools_.web_url);
    for (const std::string& error : cancelled.errors) response->add_errors(Utf8(error));
    return absl::OkStatus();
  });
}

}  // namespace tune::server
