// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "db/job_store.h"
#include "server/jobs/feed_reactor.h"
#include "server/jobs/job_kinds.h"
#include "tune/v1/job.grpc.pb.h"

namespace tune::server {

struct CancelledJobs {
  std::vector<JobView> jobs;
  std::vector<std::string> errors;  // "job 7: ..."
};
// Ends all jobs of an owner that wait or run, those that wait first. Returns once they have ended,
// at the latest at `deadline`.
CancelledJobs CancelJobsOf(const std::string& owner, const JobTools& tools, absl::Time deadline);

// Thread-safe.
class JobService : public v1::JobService::CallbackService {
 public:
  // `owner`: the process that has the store, if it is another.
  JobService(const JobTools& tools, std::string owner)
      : store_(tools.store), tools_(tools), owner_(std::move(owner)) {}

  grpc::ServerUnaryReactor* ListJobs(grpc::CallbackServerContext* context,
                                     const v1::ListJobsRequest* request,
                                     v1::ListJobsResponse* response) override;
  grpc::ServerUnaryReactor* GetJob(grpc::CallbackServerContext* context,
                                   const v1::GetJobRequest* request, v1::Job* response) override;
  grpc::ServerWriteReactor<v1::JobEvent>* WatchJob(grpc::CallbackServerContext* context,
                                                   const v1::WatchJobRequest* request) override;
  grpc::ServerUnaryReactor* CancelJob(grpc::CallbackServerContext* context,
                                      const v1::CancelJobRequest* request,
                                      v1::Job* response) override;
  grpc::ServerUnaryReactor* CancelJobs(grpc::CallbackServerContext* context,
                                       const v1::CancelJobsRequest* request,
                                       v1::CancelJobsResponse* response) override;

 private:
  // Returns the job as it is now, live or stored.
  absl::StatusOr<JobView> Look(int64_t id) const;
  // The names of the hosts that have unfinished jobs, by the jobs' ids.
  using Holders = std::map<int64_t, std::string>;
  Holders FindHolders() const;
  JobView Look(db::JobRow row, const Holders& holders) const;
  // Whether the caller sees why a job of this owner failed.
  bool SeesWords(const std::string& owner) const;
  // Converts the parts of a job that the caller may see.
  v1::Job Told(const JobView& view) const;
  // "the newest: 12, 11".
  std::string NewestJobs() const;
  // Whether the caller sees the results of a job.
  bool SeesResults(const db::JobRow& job) const;
  // An event of a live job; and the last event of a stored job, with all its results.
  v1::JobEvent EventOf(const Job& job, const Feed::News& news) const;
  absl::StatusOr<v1::JobEvent> StoredEvent(const JobView& view) const;
  // The job with its results so far.
  absl::StatusOr<v1::Job> WithResults(const JobView& view) const;
  // Follows a job that another host has, by what the store has of it.
  void WatchElsewhere(int64_t id, FeedReactor<v1::JobEvent>& reactor) const;
  // Starts a WatchJob call on the feed of a live job, or on the stored end.
  absl::Status Watch(int64_t id, const Principal& principal,
                     FeedReactor<v1::JobEvent>& reactor) const;

  db::JobStore& store_;
  const JobTools tools_;
  const std::string owner_;
};

}  // namespace tune::server
