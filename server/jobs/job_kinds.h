// SPDX-License-Identifier: Apache-2.0
// The kinds of jobs. Each kind's folder describes it by a JobKind; server/job_table.cc is the table
// of all. A call that submits a job is SubmitJob with the kind: the request is checked, stored with
// the job and queued. A daemon that starts again queues unfinished jobs by their stored requests
// (TakeUpLeftJobs).
//
//   JobKind BenchKind(const BenchTools& tools) {
//     return MakeJobKind<v1::SubmitBenchRequest>(
//         db::JobKind::kBench, "a bench",
//         [tools](const v1::SubmitBenchRequest& request, const Asker& asker)
//             -> absl::StatusOr<AskedJob> { ...check, then describe the work... });
//   }
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/cancelled.h"
#include "db/store.h"
#include "google/protobuf/message.h"
#include "grpcpp/support/server_callback.h"
#include "server/access/principals.h"
#include "server/jobs/fleet.h"
#include "server/jobs/job.h"
#include "server/jobs/scheduler.h"
#include "server/jobs/watch_ticker.h"
#include "server/rpc/executor.h"
#include "server/supervision/limits.h"
#include "tune/v1/job.pb.h"

namespace tune::server {

// A checked request: the job that it asks for.
struct AskedJob {
  std::string subject;               // for people
  std::vector<std::string> devices;  // ids that it may run on, the first preferred
  // Null: there is nothing to run, and `result` is the job's result.
  std::shared_ptr<JobWork> work = nullptr;
  std::shared_ptr<const google::protobuf::Message> result = nullptr;
  KeepSources keep_sources = {};
};

// The principal for whom a request is checked, and the time for it.
struct Asker {
  Principal principal;
  absl::Time deadline;  // as SteadyNow() counts
  const Cancelled& cancelled;
};

struct JobKind {
  db::JobKind kind;
  std::string name;  // "a bench": how others that wait name a job of this kind
  // Checks a serialised request. Empty: the kind queues its jobs itself.
  std::function<absl::StatusOr<AskedJob>(const std::string& request, const Asker& asker)> prepare =
      {};
  // False: the next daemon fails a job that had started when its daemon ended.
  bool runs_again = true;
  // Results are for every reader, not only for the job's owner and for operators.
  bool is_public = false;
  // Adds the results of a stored job. Empty: the results are those of its last event.
  std::function<absl::Status(const db::JobRow& job, v1::JobEvent& event)> find_results = {};
  // Stores that a job of no scheduler is cancelled. Empty: only its row changes.
  std::function<absl::Status(const db::JobRow& job)> cancel_left = {};
};

template <typename Request, typename Prepare>
JobKind MakeJobKind(db::JobKind kind, std::string name, Prepare prepare) {
  return {.kind = kind,
          .name = std::move(name),
          .prepare = [prepare = std::move(prepare)](
                         const std::string& text, const Asker& asker) -> absl::StatusOr<AskedJob> {
            Request request;
            if (!request.ParseFromString(text)) {
              return absl::DataLossError("the stored request of the job cannot be parsed");
            }
            return prepare(request, asker);
          }};
}

using JobKinds = std::vector<JobKind>;
// REQUIRES: the table has it.
const JobKind& KindOf(const JobKinds& kinds, db::JobKind kind);

// The tools that services of jobs share. All must outlive the services.
struct JobTools {
  Scheduler& scheduler;
  WatchTicker& ticker;
  Executors& executors;
  const Principals& principals;
  db::Store& store;
  const JobKinds& kinds;
  const std::string& web_url;  // of the server's page; empty: it has none
  Fleet* fleet = nullptr;      // null: no other host shares the store
};

// Answers a call that submits a job of a kind: checks `request`, queues the job and returns it.
grpc::ServerUnaryReactor* SubmitJob(const JobTools& tools, db::JobKind kind,
                                    grpc::CallbackServerContext* context,
                                    const google::protobuf::Message& request, v1::Job* response);

// `web_url`: see JobTools.
v1::Job ToProto(const JobView& view, const std::string& web_url);

// Rules for the jobs that an earlier process left unfinished.
struct LeftJobRules {
  uint32_t deaths_max = Limits().job_deaths;  // a job that ended so many daemons is not run again
  bool ended_in_order = false;  // the daemon before stopped its jobs, whatever their rows say
  bool embedded = false;        // inside tunectl: what a daemon left is left to a daemon
};
// Sets the state of a job that an earlier daemon left: queued, or failed if daemons died with it
// too often. True if its row is to be stored.
bool CountDeath(const LeftJobRules& rules, db::JobRow& job);
// Queues a job of a stored request for one of these devices, or ends it as failed.
absl::Status TakeUpJob(const JobTools& tools, const LeftJobRules& rules, db::JobRow job,
                       std::vector<std::string> devices);
// Queues the jobs that have a stored request, those last with which daemons died. Other jobs end as
// failed. Sweeps are left to Sweeps.
absl::Status TakeUpLeftJobs(const JobTools& tools, const LeftJobRules& rules);

}  // namespace tune::server
