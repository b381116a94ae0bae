// SPDX-License-Identifier: Apache-2.0
#include "client/cli/job_follow.h"

#include <chrono>
#include <cstdio>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "client/cli/call.h"
#include "client/cli/interrupt.h"
#include "client/cli/job_state.h"
#include "client/cli/session.h"
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

absl::Status CheckDetach(const Connection& connection) {
  if (!connection.embedded()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "--detach needs a daemon that goes on: start 'tunerd' first");
}

absl::Status PrintDetached(const v1::Job& job, bool json) {
  if (json) {
    PrintJson(job);
  } else {
    const std::string id = absl::StrCat(job.id());
    std::printf("job %s is queued; follow it with: tunectl job watch %s\n", id.c_str(), id.c_str());
  }
  return absl::OkStatus();
}

absl::StatusOr<v1::Job> CancelJob(Connection& connection, int64_t job_id) {
  v1::CancelJobRequest request;
  request.set_job_id(job_id);
  return Call(&connection, &v1::JobService::Stub::CancelJob, request, kCancelTimeout);
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
        "). The job goes on where it is, or once it starts again; follow it with: tunectl job "
        "watch ",
        job_id));
  }
  RETURN_IF_ERROR(status);
  RETURN_IF_ERROR(CheckFinished(absl::StrCat("job ", job_id), followed.job.state()));
  return followed;
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
