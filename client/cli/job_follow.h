// SPDX-License-Identifier: Apache-2.0
// A job as the command that submitted it, or another, follows it.
//
//   ASSIGN_OR_RETURN(const v1::Job job,
//                    Call(connection, &v1::BenchService::Stub::SubmitBench, request));
//   if (flags.detach) return PrintDetached(job, flags.json);
//   v1::BenchResult result;
//   absl::Status status = AwaitJob(*connection, job, [&](const v1::JobEvent& event) {
//     ForEachResult<v1::BenchResult>(event, [&](const v1::BenchResult& one) { result = one; });
//   });
#pragma once

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cli/connection.h"
#include "tune/v1/job.pb.h"

namespace tune::client {

// What --detach says, and what it needs: FAILED_PRECONDITION if the server ends with this process.
inline constexpr char kDetachHelp[] = "Queue it and return; `tunectl job watch` follows it";
absl::Status CheckDetach(const Connection& connection);
absl::Status PrintDetached(const v1::Job& job, bool json);

// What Ctrl-C does to the job that is followed.
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

}  // namespace tune::client
