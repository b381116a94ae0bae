// SPDX-License-Identifier: Apache-2.0
// A job as the command that submitted it, or another, follows it.
//
//   v1::BenchResult result;
//   RETURN_IF_ERROR(RunJob<v1::BenchResult>(
//       session, flags.detach, &v1::BenchService::Stub::SubmitBench, request,
//       [&](const v1::BenchResult& one) { result = one; }));
//   if (flags.detach) return absl::OkStatus();
#pragma once

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cli/call.h"
#include "client/cli/connection.h"
#include "client/cli/session.h"
#include "tune/v1/job.pb.h"
#include "tune/v1/sweep.pb.h"

namespace tune::client {

// The help of --detach, and its check: FAILED_PRECONDITION if the server ends with this process.
inline constexpr char kDetachHelp[] = "Queue it and return; `tunectl job watch` follows it";
absl::Status CheckDetach(const Connection& connection);
absl::Status PrintDetached(const Session& session, const v1::Job& job);

bool IsUnfinished(v1::JobState state);

// The effect of Ctrl-C on the job that is followed.
enum class OnInterrupt { kCancelJob, kLeaveRunning };

struct FollowedJob {
  v1::Job job;               // as last seen
  absl::Status error;        // of a failed job
  bool interrupted = false;  // by Ctrl-C
};

using OnJobEvent = std::function<void(const v1::JobEvent& event)>;

// Follows a job to its end. UNAVAILABLE: the daemon is gone; ABORTED: the call ended before the job
// did.
absl::StatusOr<FollowedJob> FollowJob(Connection& connection, int64_t job_id,
                                      OnInterrupt on_interrupt, const OnJobEvent& on_event);

// Follows a job that this command submitted; Ctrl-C cancels it. Shows on a terminal what it does.
// Returns the error of a job that failed, and CANCELLED for one that was cancelled.
absl::Status AwaitJob(Connection& connection, const v1::Job& job, const OnJobEvent& on_event);

absl::StatusOr<v1::Job> CancelJob(Connection& connection, int64_t job_id);
// A job with its results.
absl::StatusOr<v1::Job> GetJob(Connection& connection, int64_t job_id);
// The sweep of a job; unset if the job is none.
v1::Sweep SweepIn(const v1::Job& job);

// Calls use(result) for each result of a type.
template <typename Result, typename Results, typename Use>
void ForEachIn(const Results& results, Use use) {
  Result result;
  for (const auto& any : results) {
    if (any.template Is<Result>() && any.UnpackTo(&result)) use(result);
  }
}
template <typename Result, typename Use>
void ForEachResult(const v1::JobEvent& event, Use use) {
  ForEachIn<Result>(event.results(), use);
}

// Submits a job by `method` and follows it to its end as AwaitJob does, with use(result) for each
// result. With `detach` it prints the job and returns.
template <typename Result, typename Method, typename Request, typename Use>
absl::Status RunJob(Session& session, bool detach, Method method, const Request& request, Use use) {
  ASSIGN_OR_RETURN(Connection* const connection, session.Connect());
  if (detach) RETURN_IF_ERROR(CheckDetach(*connection));
  ASSIGN_OR_RETURN(const v1::Job job, Call(connection, method, request));
  if (detach) return PrintDetached(session, job);
  return AwaitJob(*connection, job,
                  [&](const v1::JobEvent& event) { ForEachResult<Result>(event, use); });
}

}  // namespace tune::client
