// SPDX-License-Identifier: Apache-2.0
// tunectl job list|watch|wait|cancel|prune
#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/status_macros.h"
#include "client/cli/call.h"
#include "client/cli/command.h"
#include "client/cli/job_follow.h"
#include "client/cli/sweep_view.h"
#include "client/cli/work_id.h"
#include "client/report/format.h"
#include "tune/v1/job.grpc.pb.h"
#include "tune/v1/server.grpc.pb.h"
#include "tune/v1/sweep.pb.h"

namespace tune::client {
namespace {

constexpr auto kPruneTimeout = std::chrono::minutes(10);

std::vector<std::string> KindNames() {
  std::vector<std::string> names;
  for (int kind = v1::JobKind_MIN + 1; kind <= v1::JobKind_MAX; ++kind) {
    names.push_back(ToText(static_cast<v1::JobKind>(kind)));
  }
  return names;
}

// The kind of a name of KindNames; unspecified, which is all kinds, if `name` is empty.
v1::JobKind ParseKind(const std::string& name) {
  v1::JobKind kind = v1::JOB_KIND_UNSPECIFIED;
  v1::JobKind_Parse(absl::StrCat("JOB_KIND_", absl::AsciiStrToUpper(name)), &kind);
  return kind;
}

std::string LineOf(const v1::Job& job) {
  return absl::StrCat("job ", job.id(), ", ", ToText(job.kind()), " of ", job.subject(), " on ",
                      job.device_id(), ": ", ToText(job.state()), job.message().empty() ? "" : "; ",
                      job.message());
}

struct JobFlags {
  std::string id;
  uint32_t limit = 20;
  std::string kind;
  std::string owner;
  bool unfinished = false;
  std::optional<double> days;
  bool dry_run = false;
};

absl::Status ListJobs(Session& session, const JobFlags& flags) {
  v1::ListJobsRequest request;
  request.set_owner(flags.owner);
  request.set_kind(ParseKind(flags.kind));
  request.set_unfinished(flags.unfinished);
  request.set_with_results(!session.json);
  ASSIGN_OR_RETURN(const v1::ListJobsResponse response,
                   CallPages(session.Connect(Need::kRead), &v1::JobService::Stub::ListJobs, request,
                             flags.limit, &v1::ListJobsResponse::mutable_jobs));
  const auto row = [](const v1::Job& job) -> Cells {
    const v1::Sweep sweep = SweepIn(job);
    const std::string kind =
        sweep.id() != 0 ? absl::StrCat("sweep:", sweep.id()) : ToText(job.kind());
    // A job does not know that its tunectl was killed; its sweep does.
    const bool interrupted = sweep.interrupted();
    return {absl::StrCat(job.id()),
            kind,
            interrupted ? "interrupted" : ToText(job.state()),
            job.subject(),
            job.device_id(),
            ToText(job.priority()),
            job.owner().empty() ? "-" : job.owner(),
            TimeText(job.created_unix_ms()),
            std::string(*absl::StrSplit(job.message(), '\n').begin())};
  };
  return PrintList(
      session, "jobs", response.jobs(),
      {"id", "kind", "state", "subject", "device", "priority", "owner", "asked", "message"}, row,
      "no jobs; try: tunectl sweep softmax\n");
}

// The exit code for a job that has ended. A sweep without a result is done, and has found nothing.
ExitCode ExitCodeOfJob(const v1::Job& job) {
  if (job.state() == v1::JOB_STATE_FAILED) return kFailed;
  return job.kind() == v1::JOB_KIND_SWEEP ? ExitCodeOf(SweepIn(job)) : kDone;
}

// Follows a job. Without JSON it prints each change, or only the end.
enum class Tell { kChanges, kEnd };

absl::Status Watch(Session& session, const std::string& text, Tell tell) {
  ASSIGN_OR_RETURN(Connection* const connection, session.Connect(Need::kRead));
  ASSIGN_OR_RETURN(const int64_t id, JobIdOf(*connection, text));
  const bool changes = tell == Tell::kChanges && !session.json;
  std::string shown;
  const auto show = [&](const v1::JobEvent& event) {
    const std::string line = LineOf(event.job());
    if (changes && line != shown) std::printf("%s\n", line.c_str());
    std::fflush(stdout);  // for whoever reads it as it comes
    shown = line;
  };
  ASSIGN_OR_RETURN(const FollowedJob followed,
                   FollowJob(*connection, id, OnInterrupt::kLeaveRunning, show));
  if (followed.interrupted) {
    std::fprintf(stderr, "job %ld keeps running; stop it with: tunectl job cancel %ld\n",
                 static_cast<long>(id), static_cast<long>(id));
    session.Finish(kInterrupted);
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const v1::Job job, GetJob(*connection, id));
  session.Finish(ExitCodeOfJob(job));
  return Print(session, job, [&](const v1::Job& ended) {
    if (!changes) std::printf("%s\n", LineOf(ended).c_str());
  });
}

absl::Status CancelAllOf(Session& session, const std::string& owner) {
  v1::CancelJobsRequest request;
  request.set_owner(owner);
  ASSIGN_OR_RETURN(const v1::CancelJobsResponse response,
                   Call(session.Connect(), &v1::JobService::Stub::CancelJobs, request));
  for (const v1::Job& job : response.jobs()) std::printf("%s\n", LineOf(job).c_str());
  if (response.jobs().empty() && response.errors().empty()) {
    std::fprintf(stderr, "%s has no unfinished job\n", owner.c_str());
  }
  if (response.errors().empty()) return absl::OkStatus();
  return absl::DeadlineExceededError(
      absl::StrCat("not cancelled:\n", absl::StrJoin(response.errors(), "\n")));
}

absl::Status Cancel(Session& session, const JobFlags& flags) {
  if (!flags.owner.empty()) return CancelAllOf(session, flags.owner);
  if (flags.id.empty()) {
    return absl::InvalidArgumentError("job cancel needs the ID of a job, or --owner NAME");
  }
  ASSIGN_OR_RETURN(Connection* const connection, session.Connect());
  ASSIGN_OR_RETURN(const int64_t id, JobIdOf(*connection, flags.id));
  ASSIGN_OR_RETURN(const v1::Job job, CancelJob(*connection, id));
  std::printf("%s\n", LineOf(job).c_str());
  return absl::OkStatus();
}

absl::Status Prune(Session& session, const JobFlags& flags) {
  if (flags.owner.empty() && !flags.days) {
    return absl::InvalidArgumentError("job prune needs --owner, --older-than, or both");
  }
  v1::PruneJobsRequest request;
  request.set_owner(flags.owner);
  request.set_dry_run(flags.dry_run);
  request.set_before_unix_ms(
      absl::ToUnixMillis(absl::Now() - absl::Hours(24) * flags.days.value_or(0)));
  ASSIGN_OR_RETURN(
      const v1::PruneJobsResponse response,
      Call(session.Connect(), &v1::ServerService::Stub::PruneJobs, request, kPruneTimeout));
  std::printf("%s %s with %lu trials from %lu finished jobs%s\n",
              flags.dry_run ? "would remove" : "removed", BytesText(response.bytes()).c_str(),
              static_cast<unsigned long>(response.trials()),
              static_cast<unsigned long>(response.jobs()),
              flags.owner.empty() ? "" : absl::StrCat(" of ", flags.owner).c_str());
  return absl::OkStatus();
}

Command PruneCommand(Session& session) {
  auto flags = std::make_shared<JobFlags>();
  return {
      .name = "prune",
      .help = "Remove what finished jobs stored: trials, samples, messages, sources",
      .examples = {"tunectl job prune --older-than 90 --dry-run",
                   "tunectl job prune --owner mallory"},
      .notes = "Keeps the jobs themselves and what records need. For operators.",
      .flags = {Flag("--owner", &flags->owner, "Only jobs of this principal").Value("NAME"),
                Flag("--older-than", &flags->days,
                     "Only jobs that ended at least this many days ago")
                    .Value("DAYS")
                    .Range(0, 36500),
                Flag("--dry-run", &flags->dry_run, "Remove nothing; print what would be removed")},
      .run = [&session, flags] { return Prune(session, *flags); }};
}

}  // namespace

Command JobCommand(Session& session) {
  auto flags = std::make_shared<JobFlags>();
  const Flag id = Flag("ID", &flags->id, kJobIdHelp).Required();
  return {
      .name = "job",
      .help = "All work for devices: sweeps, gates, profiles, ...",
      .verbs = {
          {.name = "list",
           .help = "List jobs, newest first",
           .json = kJsonHelp,
           .flags = {Flag("--limit", &flags->limit, kLimitHelp).Range(1, kListMax),
                     Flag("--kind", &flags->kind, "Only jobs of this kind").OneOf(KindNames()),
                     Flag("--unfinished", &flags->unfinished, "Only jobs that wait or run"),
                     Flag("--owner", &flags->owner, "Only jobs of this principal").Value("NAME")},
           .run = [&session, flags] { return ListJobs(session, *flags); }},
          {.name = "watch",
           .help = "Follow a job to its end; Ctrl-C leaves it running",
           .json = "Print the finished job with its results as JSON",
           .flags = {id},
           .run = [&session, flags] { return Watch(session, flags->id, Tell::kChanges); }},
          {.name = "wait",
           .help = "Wait for a job's end and print how it ended",
           .json = "Print the finished job with its results as JSON",
           .flags = {id},
           .run = [&session, flags] { return Watch(session, flags->id, Tell::kEnd); }},
          {.name = "cancel",
           .help = "Stop a job; its measurements are kept",
           .flags = {Flag("ID", &flags->id, kJobIdHelp),
                     Flag("--owner", &flags->owner,
                          "Stop all waiting and running jobs of this principal: yours, or, as an "
                          "operator, anyone's")
                         .Value("NAME")
                         .NotWith("ID")},
           .run = [&session, flags] { return Cancel(session, *flags); }},
          PruneCommand(session)}};
}

}  // namespace tune::client
