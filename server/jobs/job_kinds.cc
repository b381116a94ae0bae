// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/job_kinds.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/plural.h"
#include "base/status_macros.h"
#include "base/steady_time.h"
#include "server/jobs/left_job.h"
#include "server/rpc/unary.h"
#include "server/wire/nouns.h"

namespace tune::server {
namespace {

constexpr absl::Duration kCheckCap = absl::Minutes(2);  // other large spaces may be found before
constexpr uint32_t kLeftJobsMax = 100000;
constexpr absl::Duration kTimeMax = absl::Hours(24);

// A job that is queued again: its request is checked once it has its device.
class StoredWork : public JobWork {
 public:
  StoredWork(const JobTools& tools, const JobKind& kind, const std::string& owner,
             std::string request)
      : tools_(tools),
        kind_(kind),
        principal_{.name = owner,
                   .role = tools.principals.IsOperator(owner) ? db::Role::kOperator
                                                              : db::Role::kSubmitter},
        request_(std::move(request)) {}

  End Run(JobContext& context) override {
    const Cancelled cancelled = context.cancelled();
    absl::StatusOr<AskedJob> asked =
        kind_.prepare(request_, {principal_, SteadyNow() + kCheckCap, cancelled});
    if (!asked.ok()) return {.status = asked.status()};
    if (asked->result != nullptr) context.feed().AddResult(asked->result);
    if (asked->work == nullptr) return {};
    work_ = std::move(asked->work);
    return work_->Run(context);
  }
  std::string Name() const override { return kind_.name; }
  size_t source_bytes() const override { return request_.size(); }
  bool runs_again() const override { return kind_.runs_again; }
  absl::Duration time_max() const override { return kTimeMax; }

 private:
  const JobTools tools_;
  const JobKind& kind_;
  const Principal principal_;
  const std::string request_;
  std::shared_ptr<JobWork> work_;  // once it runs
};

// A job that has nothing to run.
absl::StatusOr<JobView> StoreDone(const JobTools& tools, db::JobRow row, const AskedJob& asked) {
  row.state = db::JobState::kDone;
  row.device_id = asked.devices.front();
  row.created_unix_ms = absl::ToUnixMillis(absl::Now());
  row.started_unix_ms = row.finished_unix_ms = row.created_unix_ms;
  ASSIGN_OR_RETURN(row.id, tools.store.AddJob(row));
  v1::JobEvent event;
  event.add_results()->PackFrom(*asked.result);
  RETURN_IF_ERROR(tools.store.PutJobEnd(row.id, event.SerializeAsString()));
  return JobView{.row = std::move(row)};
}

absl::StatusOr<JobView> Submit(const JobTools& tools, db::JobKind kind,
                               const google::protobuf::Message& request, const Asker& asker) {
  std::string text = request.SerializeAsString();
  ASSIGN_OR_RETURN(AskedJob asked, KindOf(tools.kinds, kind).prepare(text, asker));
  db::JobRow row{.kind = kind, .owner = asker.principal.name, .subject = asked.subject};
  if (asked.work == nullptr) return StoreDone(tools, std::move(row), asked);
  ASSIGN_OR_RETURN(const std::shared_ptr<Job> job,
                   tools.scheduler.Submit(std::move(row), std::move(asked.devices),
                                          std::move(asked.work), text, asked.keep_sources));
  return job->view();
}

// Ends a left job, or finds out that it is to be queued again.
bool EndsNow(const LeftJobRules& rules, const JobKind& kind, const std::string& request,
             db::JobRow& job) {
  const bool had_started = job.started_unix_ms != 0;
  if (request.empty() || (had_started && !kind.runs_again)) {
    job.state = db::JobState::kFailed;
    job.message = had_started ? kEndedUnfinished : "the daemon stopped before it started";
    if (!request.empty()) absl::StrAppend(&job.message, ", and ", kind.name, " cannot go on");
    job.finished_unix_ms = absl::ToUnixMillis(absl::Now());
    return true;
  }
  CountDeath(rules, job);
  return db::IsFinished(job.state);
}

}  // namespace

const JobKind& KindOf(const JobKinds& kinds, db::JobKind kind) {
  return *std::find_if(kinds.begin(), kinds.end(),
                       [&](const JobKind& one) { return one.kind == kind; });
}

v1::Job ToProto(const JobView& view, const std::string& web_url) {
  auto proto = Encoded<v1::Job>(view.row, {"deaths"});
  if (!web_url.empty()) proto.set_web_url(absl::StrCat(web_url, "/jobs/", view.row.id));
  if (view.waiting) proto.set_state(v1::JOB_STATE_WAITING);
  return proto;
}

grpc::ServerUnaryReactor* SubmitJob(const JobTools& tools, db::JobKind kind,
                                    grpc::CallbackServerContext* context,
                                    const google::protobuf::Message& request, v1::Job* response) {
  const absl::Time deadline = DeadlineOf(*context, kCheckCap);
  const Principal principal = tools.principals.Of(*context);
  // The request lives until the call ends.
  const auto submit = [=, &request](const Cancelled& cancelled) -> absl::Status {
    ASSIGN_OR_RETURN(const JobView view,
                     Submit(tools, kind, request, {principal, deadline, cancelled}));
    *response = ToProto(view, tools.web_url);
    return absl::OkStatus();
  };
  return AnswerOn(tools.executors.waiting, context, kCheckCap, submit);
}

bool CountDeath(const LeftJobRules& rules, db::JobRow& job) {
  // A job that a daemon stopped in order is queued again, unless the disk was full.
  const bool ran = job.state == db::JobState::kRunning;
  if (ran && !rules.ended_in_order) ++job.deaths;
  const bool failed = job.deaths >= rules.deaths_max;
  job.state = failed ? db::JobState::kFailed : db::JobState::kQueued;
  job.message.clear();
  if (failed) {
    job.message =
        absl::StrCat("not taken up again: ", Counted(job.deaths, "daemon"),
                     " died while it ran. What it measured is kept; see the daemon's and the "
                     "kernel's log for why, then submit it again");
    job.finished_unix_ms = absl::ToUnixMillis(absl::Now());
    spdlog::error("job {}: {}", job.id, job.message);
  }
  return ran || failed;
}

absl::Status TakeUpLeftJobs(const JobTools& tools, const LeftJobRules& rules) {
  if (!tools.store.writable()) return absl::OkStatus();
  ASSIGN_OR_RETURN(std::vector<db::JobRow> left,
                   tools.store.ListJobs({.unfinished = true, .limit = kLeftJobsMax}));
  std::reverse(left.begin(), left.end());
  std::stable_sort(left.begin(), left.end(),
                   [](const db::JobRow& a, const db::JobRow& b) { return a.deaths < b.deaths; });
  for (db::JobRow& job : left) {
    std::vector<std::string> devices = {job.device_id};
    const absl::Status taken = TakeUpJob(tools, rules, job, std::move(devices));
    // Run without the count on the disk, it could kill daemons for ever.
    if (!taken.ok()) spdlog::error("job {} is left as it is: {}", job.id, taken.ToString());
  }
  return absl::OkStatus();
}

absl::Status TakeUpJob(const JobTools& tools, const LeftJobRules& rules, db::JobRow job,
                       std::vector<std::string> devices) {
  const JobKind& kind = KindOf(tools.kinds, job.kind);
  if (!kind.prepare) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::string request, tools.store.JobRequest(job.id));
  if (rules.embedded && !request.empty()) return absl::OkStatus();
  const bool ends = EndsNow(rules, kind, request, job);
  RETURN_IF_ERROR(tools.store.UpdateJob(job));
  if (ends) return absl::OkStatus();
  spdlog::info("job {} ({}) is taken up", job.id, job.subject);
  auto work = std::make_shared<StoredWork>(tools, kind, job.owner, request);
  tools.scheduler.Enqueue(
      std::make_shared<Job>(std::move(job), std::move(devices), std::move(work)));
  return absl::OkStatus();
}

}  // namespace tune::server
