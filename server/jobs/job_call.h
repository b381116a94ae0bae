// SPDX-License-Identifier: Apache-2.0
// A call that runs a job: what is cheap is checked on an executor's thread, then the job is
// submitted and followed. A client that leaves cancels its job.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "base/contained.h"
#include "base/steady_time.h"
#include "server/access/principals.h"
#include "server/jobs/feed_reactor.h"
#include "server/jobs/scheduler.h"
#include "server/rpc/executor.h"

namespace tune::server {

// What services of jobs share. All must outlive the services.
struct JobTools {
  Scheduler& scheduler;
  WatchTicker& ticker;
  Executors& executors;
  const Principals& principals;
};

// Cancels without waiting for it.
inline void CancelSoon(const JobTools& tools, int64_t job_id) {
  constexpr absl::Duration kPatience = absl::Seconds(30);
  Scheduler& scheduler = tools.scheduler;
  const absl::Status queued =
      tools.executors.cancels
          .Run([&scheduler, job_id] {
            scheduler.Cancel(job_id, SteadyNow() + kPatience).status().IgnoreError();
          })
          .status();
  if (!queued.ok()) scheduler.BeginCancel(job_id);
}

// As what somebody watches a job of `owner`.
inline WatchClaim ClaimOf(const Principal& principal, const std::string& owner) {
  WatchClaim claim{.principal = principal.name};
  if (!owner.empty() && principal.name == owner) claim.kind = WatchClaim::Kind::kOwner;
  if (principal.role == db::Role::kOperator) claim.kind = WatchClaim::Kind::kOperator;
  return claim;
}

// What a call is to follow.
template <typename Reactor>
struct Followed {
  std::shared_ptr<Job> job;
  typename Reactor::MakeEvents make;
};

// Messages of calls whose events are either a step, told in words, or a result. `Event` has
// set_step(); `result` gives the field for a result.
template <typename Event, typename Result>
auto StepsAndResults(const std::shared_ptr<Job>& job, Result* (Event::*result)()) {
  return [job, result, told = std::string()](const Feed::News& news,
                                             std::deque<Event>& events) mutable {
    const std::string step = job->view().row.message;
    if (!news.ended && !step.empty() && step != told) {
      events.emplace_back().set_step(step);
      told = step;
    }
    for (const Feed::Step& message : news.results) {
      (events.emplace_back().*result)()->CopyFrom(*message);
    }
  };
}

// `begin` checks the request and submits the job; its status ends the call.
template <typename Reactor>
void StartJobCall(const JobTools& tools, std::shared_ptr<Reactor> reactor,
                  std::function<absl::StatusOr<Followed<Reactor>>(const Cancelled&)> begin) {
  const absl::Status queued =
      tools.executors.waiting
          .Run([tools, reactor, begin = std::move(begin)] {
            const Cancelled cancelled = [&] {
              return reactor->left() || tools.executors.waiting.stopping();
            };
            absl::StatusOr<Followed<Reactor>> followed =
                Contained([&] { return begin(cancelled); });
            if (!followed.ok()) return reactor->End(ToGrpc(followed.status()));
            const std::shared_ptr<Job> job = followed->job;
            reactor->OnLeave([tools, id = job->id()] { CancelSoon(tools, id); });
            reactor->Claim({.principal = job->owner(), .kind = WatchClaim::Kind::kCarrier});
            const bool follows =
                reactor->Follow(job->id(), job->SharedFeed(job), std::move(followed->make),
                                Reactor::Ends::kAsTheJob);
            if (!follows) CancelSoon(tools, job->id());  // nobody would get its result
          })
          .status();
  if (!queued.ok()) reactor->End(ToGrpc(queued));
}

}  // namespace tune::server
