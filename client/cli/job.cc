// SPDX-License-Identifier: Apache-2.0
// tunectl job list|watch|wait|cancel; job_prune.cc has prune
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "client/cli/call.h"
#include "client/cli/commands.h"
#include "client/cli/job_follow.h"
#include "client/cli/job_prune.h"
#include "client/cli/sweep_view.h"
#include "client/cli/work_id.h"
#include "client/report/format.h"
#include "client/report/terminal.h"
#include "tune/v1/job.grpc.pb.h"
#include "tune/v1/job.pb.h"
#include "tune/v1/sweep.grpc.pb.h"
#include "tune/v1/sweep.pb.h"

namespace tune::client {
namespace {

// "JOB_KIND_SWEEP" as "sweep".
std::string Word(absl::string_view name, absl::string_view prefix) {
  absl::ConsumePrefix(&name, prefix);
  return absl::AsciiStrToLower(name);
}

std::string KindText(const v1::Job& job) { return Word(v1::JobKind_Name(job.kind()), "JOB_KIND_"); }

std::vector<std::string> KindNames() {
  std::vector<std::string> names;
  for (int kind = v1::JobKind_MIN + 1; kind <= v1::JobKind_MAX; ++kind) {
    names.push_back(Word(v1::JobKind_Name(static_cast<v1::JobKind>(kind)), "JOB_KIND_"));
  }
  return names;
}

// Of one of the names; of none, unspecified: all kinds.
v1::JobKind ParseKind(const std::string& name) {
  v1::JobKind kind = v1::JOB_KIND_UNSPECIFIED;
  v1::JobKind_Parse(absl::StrCat("JOB_KIND_", absl::AsciiStrToUpper(name)), &kind);
  return kind;
}

std::string LineOf(const v1::Job& job) {
  return absl::StrCat("job ", job.id(), ", ", KindText(job), " of ", job.subject(), " on ",
                      job.device_id(), ": ", ToText(job.state()), job.message().empty() ? "" : "; ",
                      job.message());
}

// The sweep of a job; unset if it is none.
v1::Sweep SweepIn(const v1::Job& job) {
  v1::Sweep found;
  ForEachIn<v1::Sweep>(job.results(), [&](const v1::Sweep& sweep) { found = sweep; });
  return found;
}

absl::StatusOr<v1::Job> GetWithResults(Connection& connection, int64_t job_id) {
  v1::GetJobRequest request;
  request.set_job_id(job_id);
  request.set_with_results(true);
  return Call(&connection, &v1::JobService::Stub::GetJob, request);
}

absl::Status List(Session& session, v1::ListJobsRequest request, bool json) {
  request.set_with_results(!json);
  ASSIGN_OR_RETURN(const v1::ListJobsResponse response,
                   CallPages(session.Connect(Need::kRead), &v1::JobService::Stub::ListJobs, request,
                             request.limit(), &v1::ListJobsResponse::mutable_jobs));
  if (json) {
    PrintJsonList("jobs", response.jobs());
    return absl::OkStatus();
  }
  Table table(
      {"id", "kind", "state", "subject", "device", "priority", "owner", "asked", "message"});
  for (const v1::Job& job : response.jobs()) {
    const v1::Sweep sweep = SweepIn(job);
    const std::string kind = sweep.id() != 0 ? absl::StrCat("sweep:", sweep.id()) : KindText(job);
    // A job does not know that its tunectl was killed; its sweep does.
    const bool interrupted = sweep.interrupted();
    table.Add({absl::StrCat(job.id()), kind, interrupted ? "interrupted" : ToText(job.state()),
               job.subject(), job.device_id(),
               Word(v1::JobPriority_Name(job.priority()), "JOB_PRIORITY_"),
               job.owner().empty() ? "-" : job.owner(), TimeText(job.created_unix_ms()),
               std::string(*absl::StrSplit(job.message(), '\n').begin())});
  }
  std::fputs(table.Text().c_str(), stdout);
  if (response.jobs().empty()) std::fputs("no jobs; try: tunectl sweep softmax\n", stderr);
  return absl::OkStatus();
}

// Of a job that has ended: a sweep without a result is done and has found nothing.
ExitCode ExitCodeOfJob(const v1::Job& job) {
  if (job.state() == v1::JOB_STATE_FAILED) return kFailed;
  return job.kind() == v1::JOB_KIND_SWEEP ? ExitCodeOf(SweepIn(job)) : kDone;
}

// kEnd: the last line alone.
enum class Tell { kChanges, kEnd, kJson };

absl::Status Watch(Session& session, const std::string& text, Tell tell) {
  ASSIGN_OR_RETURN(Connection* const connection, session.Connect(Need::kRead));
  ASSIGN_OR_RETURN(const int64_t id, JobIdOf(*connection, text));
  std::string shown;
  const auto show = [&](const v1::JobEvent& event) {
    const std::string line = LineOf(event.job());
    if (tell == Tell::kChanges && line != shown) std::printf("%s\n", line.c_str());
    std::fflush(stdout);  // for whoever reads it as it comes
    shown = line;
  };
  ASSIGN_OR_RETURN(const FollowedJob followed,
                   FollowJob(*connection, id, OnInterrupt::kLeaveRunning, show));
  if (followed.interrupted) {
    std::fprintf(stderr, "job %ld goes on; stop it with: tunectl job cancel %ld\n",
                 static_cast<long>(id), static_cast<long>(id));
    session.Finish(kInterrupted);
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const v1::Job job, GetWithResults(*connection, id));
  if (tell == Tell::kJson) PrintJson(job);
  if (tell == Tell::kEnd) std::printf("%s\n", LineOf(job).c_str());
  session.Finish(ExitCodeOfJob(job));
  return absl::OkStatus();
}

absl::Status Cancel(Session& session, const std::string& text) {
  ASSIGN_OR_RETURN(Connection* const connection, session.Connect());
  ASSIGN_OR_RETURN(const int64_t id, JobIdOf(*connection, text));
  ASSIGN_OR_RETURN(const v1::Job job, CancelJob(*connection, id));
  std::printf("%s\n", LineOf(job).c_str());
  return absl::OkStatus();
}

absl::Status CancelAllOf(Session& session, const std::string& owner) {
  v1::CancelJobsRequest request;
  request.set_owner(owner);
  ASSIGN_OR_RETURN(const v1::CancelJobsResponse response,
                   Call(session.Connect(), &v1::JobService::Stub::CancelJobs, request));
  for (const v1::Job& job : response.jobs()) std::printf("%s\n", LineOf(job).c_str());
  if (response.jobs().empty() && response.errors().empty()) {
    std::fprintf(stderr, "no job of %s waits or runs\n", owner.c_str());
  }
  if (response.errors().empty()) return absl::OkStatus();
  return absl::DeadlineExceededError(
      absl::StrCat("not cancelled:\n", absl::StrJoin(response.errors(), "\n")));
}

}  // namespace

void AddJob(CLI::App& app, Session& session) {
  CLI::App* job = app.add_subcommand("job", "All work for devices: sweeps, gates, profiles, ...");
  job->require_subcommand(1);
  auto json = std::make_shared<bool>(false);
  auto id = std::make_shared<std::string>();
  auto request = std::make_shared<v1::ListJobsRequest>();
  auto limit = std::make_shared<uint32_t>(20);
  auto unfinished = std::make_shared<bool>(false);
  auto kind = std::make_shared<std::string>();
  auto owner = std::make_shared<std::string>();

  CLI::App* list = job->add_subcommand("list", "Jobs, newest first");
  list->add_option("--limit", *limit, "How many")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  list->add_option("--kind", *kind, "Only jobs of this kind")->check(CLI::IsMember(KindNames()));
  list->add_flag("--unfinished", *unfinished, "Only those that wait or run");
  list->add_option("--owner", *owner, "Only jobs of this principal")->type_name("NAME");
  list->add_flag("--json", *json, "As JSON");
  list->callback([&session, json, limit, unfinished, kind, owner, request] {
    request->set_owner(*owner);
    request->set_limit(*limit);
    request->set_kind(ParseKind(*kind));
    request->set_unfinished(*unfinished);
    session.Finish(List(session, *request, *json));
  });

  CLI::App* watch =
      job->add_subcommand("watch", "Follow a job to its end; Ctrl-C leaves it running");
  watch->add_option("ID", *id, kJobIdHelp)->required();
  watch->add_flag("--json", *json, "Print the finished job with its results as JSON");
  watch->callback([&session, json, id] {
    const absl::Status status = Watch(session, *id, *json ? Tell::kJson : Tell::kChanges);
    if (!status.ok()) session.Finish(status);
  });

  CLI::App* wait = job->add_subcommand("wait", "Wait for a job's end and say how it ended");
  wait->add_option("ID", *id, kJobIdHelp)->required();
  wait->add_flag("--json", *json, "Print the finished job with its results as JSON");
  wait->callback([&session, json, id] {
    const absl::Status status = Watch(session, *id, *json ? Tell::kJson : Tell::kEnd);
    if (!status.ok()) session.Finish(status);
  });

  CLI::App* cancel = job->add_subcommand("cancel", "Stop a job; what it measured is kept");
  CLI::Option* const one = cancel->add_option("ID", *id, kJobIdHelp);
  cancel
      ->add_option("--owner", *owner,
                   "Stop all jobs of this principal that wait or run: one's own, or, as an "
                   "operator, anyone's")
      ->type_name("NAME")
      ->excludes(one);
  cancel->callback([&session, id, owner] {
    if (id->empty() && owner->empty()) throw CLI::RequiredError("ID, or --owner NAME");
    session.Finish(owner->empty() ? Cancel(session, *id) : CancelAllOf(session, *owner));
  });
  AddJobPrune(*job, session);
}

}  // namespace tune::client
