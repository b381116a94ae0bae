// SPDX-License-Identifier: Apache-2.0
#include "client/cli/job_follow.h"

#include <chrono>
#include <cstdio>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "client/cli/interrupt.h"
#include "client/report/format.h"
#include "client/report/terminal.h"
#include "tune/v1/job.grpc.pb.h"

namespace tune::client {
namespace {

constexpr auto kCancelTimeout = std::chrono::seconds(40);

absl::Status ErrorOf(const v1::Job& job, int32_t code) {
  if (job.state() != v1::JOB_STATE_FAILED) return absl::OkStatus();
  const absl::Status status(static_cast<absl::StatusCode>(code), job.message());
  return status.ok() ? absl::InternalError(job.message()) : status;
}

}  // namespace

bool IsUnfinished(v1::JobState state) {
  return state == v1::JOB_STATE_QUEUED || state == v1::JOB_STATE_WAITING ||
         state == v1::JOB_STATE_RUNNING;
}

absl::Status CheckDetach(const Connection& connection) {
  if (!connection.embedded()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "--detach needs a daemon, which outlives this command: start 'tunerd' first");
}

absl::Status PrintDetached(const Session& session, const v1::Job& job) {
  return Print(session, job, [](const v1::Job& queued) {
    const std::string id = absl::StrCat(queued.id());
    std::printf("job %s is queued; follow it with: tunectl job watch %s\n", id.c_str(), id.c_str());
    if (!queued.web_url().empty()) std::printf("page: %s\n", queued.web_url().c_str());
  });
}

absl::StatusOr<v1::Job> CancelJob(Connection& connection, int64_t job_id) {
  v1::CancelJobRequest request;
  request.set_job_id(job_id);
  return Call(&connection, &v1::JobService::Stub::CancelJob, request, kCancelTimeout);
}

absl::StatusOr<v1::Job> GetJob(Connection& connection, int64_t job_id) {
  v1::GetJobRequest request;
  request.set_job_id(job_id);
  request.set_with_results(true);
  return Call(&connection, &v1::JobService::Stub::GetJob, request);
}

v1::Sweep SweepIn(const v1::Job& job) {
  v1::Sweep found;
  ForEachIn<v1::Sweep>(job.results(), [&](const v1::Sweep& sweep) { found = sweep; });
  return found;
}

absl::StatusOr<FollowedJob> FollowJob(Connection& connection, int64_t job_id,
                                      OnInterrupt on_interrupt, const OnJobEvent& on_event) {
  grpc::ClientContext context;
  v1::WatchJobRequest request;
  request.set_job_id(job_id);
  InterruptGuard guard([&] {
    // A job that cannot be cancelled must not keep the person waiting.
    const bool ends = on_interrupt == OnInterrupt::kCancelJob && CancelJob(connection, job_id).ok();
    if (!ends) context.TryCancel();
  });
  auto reader = connection.stub<v1::JobService>().WatchJob(&context, request);
  FollowedJob followed;
  for (v1::JobEvent event; reader->Read(&event);) {
    connection.ShowPage(event.job().web_url());
    followed.job = event.job();
    followed.error = ErrorOf(event.job(), event.error_code());
    on_event(event);
  }
  const absl::Status status = FromGrpc(reader->Finish());
  followed.interrupted = guard.interrupted();
  if (followed.interrupted) return followed;
  if (absl::IsUnavailable(status)) {
    return absl::UnavailableError(absl::StrCat(
        "no daemon is there any more (", status.message(),
        "). The job continues there, or when the daemon starts again; follow it with: tunectl job "
        "watch ",
        job_id));
  }
  RETURN_IF_ERROR(status);
  if (!IsUnfinished(followed.job.state())) return followed;
  return absl::AbortedError(absl::StrCat("the server stopped reporting job ", job_id,
                                         ", which was ", ToText(followed.job.state()),
                                         ". See: tunectl job list"));
}

absl::Status AwaitJob(Connection& connection, const v1::Job& job, const OnJobEvent& on_event) {
  LiveLine live;
  const auto show = [&](const v1::JobEvent& event) {
    const bool steps = IsInteractive() && IsUnfinished(event.job().state());
    if (steps && !event.job().message().empty()) live.Show(event.job().message());
    if (!event.results().empty()) live.Clear();
    on_event(event);
  };
  const auto followed = FollowJob(connection, job.id(), OnInterrupt::kCancelJob, show);
  live.Clear();
  RETURN_IF_ERROR(followed.status());
  if (followed->interrupted || followed->job.state() == v1::JOB_STATE_CANCELLED) {
    return absl::CancelledError(
        absl::StrCat(followed->interrupted ? "interrupted" : "cancelled", ": job ", job.id()));
  }
  return followed->error;
}

}  // namespace tune::client
