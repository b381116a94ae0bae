// SPDX-License-Identifier: Apache-2.0
// tunectl sweep list|watch|cancel
#include <fmt/format.h>

#include <cstdio>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "client/cli/call.h"
#include "client/cli/commands.h"
#include "client/cli/job_follow.h"
#include "client/cli/sweep_view.h"
#include "client/cli/work_id.h"
#include "client/report/format.h"
#include "client/report/terminal.h"
#include "tune/v1/job.grpc.pb.h"
#include "tune/v1/sweep.grpc.pb.h"

namespace tune::client {
namespace {

absl::StatusOr<v1::Sweep> FindSweep(Connection& connection, const std::string& text) {
  ASSIGN_OR_RETURN(const int64_t id, SweepIdOf(connection, text));
  v1::GetSweepRequest request;
  request.set_sweep_id(id);
  return Call(&connection, &v1::SweepService::Stub::GetSweep, request);
}

absl::Status List(Session& session, uint32_t limit, bool json) {
  v1::ListJobsRequest request;
  request.set_kind(v1::JOB_KIND_SWEEP);
  request.set_with_results(true);
  ASSIGN_OR_RETURN(const v1::ListJobsResponse response,
                   CallPages(session.Connect(Need::kRead), &v1::JobService::Stub::ListJobs, request,
                             limit, &v1::ListJobsResponse::mutable_jobs));
  std::vector<v1::Sweep> sweeps;
  for (const v1::Job& job : response.jobs()) {
    ForEachIn<v1::Sweep>(job.results(), [&](const v1::Sweep& sweep) { sweeps.push_back(sweep); });
  }
  if (json) {
    PrintJsonList("sweeps", sweeps);
    return absl::OkStatus();
  }
  Table table({"id", "state", "kernel", "problem", "device", "done", "best", "started"});
  for (const v1::Sweep& sweep : sweeps) {
    const bool none = sweep.state() == v1::JOB_STATE_DONE && !sweep.has_result();
    const double best = sweep.has_result() ? sweep.result().best().measurement().latency_ns_median()
                                           : sweep.progress().best_latency_ns();
    table.Add({absl::StrCat(sweep.id()), StateText(sweep), sweep.kernel_name(),
               ToText(sweep.problem()), sweep.device_id(),
               absl::StrCat(sweep.progress().done(), "/", sweep.progress().planned()),
               best > 0 ? LatencyText(best)
               : none   ? "none"
                        : "-",
               TimeText(sweep.created_unix_ms())});
  }
  std::fputs(table.Text().c_str(), stdout);
  if (sweeps.empty()) std::fputs("no sweeps yet; try: tunectl sweep softmax\n", stderr);
  return absl::OkStatus();
}

absl::Status Watch(Session& session, const std::string& text, bool json, bool verbose) {
  ASSIGN_OR_RETURN(Connection* const connection, session.Connect(Need::kRead));
  ASSIGN_OR_RETURN(const v1::Sweep sweep, FindSweep(*connection, text));
  ASSIGN_OR_RETURN(const WatchedSweep watched,
                   FollowSweep(*connection, sweep.job_id(), OnInterrupt::kLeaveRunning, json));
  if (watched.interrupted) {
    std::fprintf(stderr, "sweep %ld goes on; stop it with: tunectl sweep cancel %ld\n",
                 static_cast<long>(sweep.id()), static_cast<long>(sweep.id()));
    session.Finish(kInterrupted);
    return absl::OkStatus();
  }
  if (json) {
    PrintJson(watched.sweep);
  } else {
    const v1::SweepReport why = WhyNotOk(*connection, watched.sweep);
    std::fputs(ReportText(watched.sweep, why, verbose).c_str(), stdout);
  }
  session.Finish(ExitCodeOf(watched.sweep));
  return absl::OkStatus();
}

absl::Status Cancel(Session& session, const std::string& text) {
  ASSIGN_OR_RETURN(Connection* const connection, session.Connect());
  ASSIGN_OR_RETURN(v1::Sweep sweep, FindSweep(*connection, text));
  RETURN_IF_ERROR(CancelJob(*connection, sweep.job_id()).status());
  ASSIGN_OR_RETURN(sweep, FindSweep(*connection, absl::StrCat(sweep.id())));
  std::fputs(ReportText(sweep).c_str(), stdout);
  return absl::OkStatus();
}

}  // namespace

void AddSweepVerbs(CLI::App& sweep, Session& session) {
  sweep.require_subcommand(0, 1);
  auto json = std::make_shared<bool>(false);
  auto limit = std::make_shared<uint32_t>(20);
  auto id = std::make_shared<std::string>();

  CLI::App* list = sweep.add_subcommand("list", "Sweeps, newest first");
  list->add_option("--limit", *limit, "How many")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  list->add_flag("--json", *json, "As JSON");
  list->callback([&session, json, limit] { session.Finish(List(session, *limit, *json)); });

  // The command above has none that its verbs could have for themselves.
  list->set_help_flag("-h,--help", "Print this help message and exit");

  auto verbose = std::make_shared<bool>(false);
  CLI::App* watch =
      sweep.add_subcommand("watch", "Follow a sweep to its end; Ctrl-C leaves it running");
  watch->set_help_flag("-h,--help", "Print this help message and exit");
  watch->add_option("ID", *id, kSweepIdHelp)->required();
  watch->add_flag("--json", *json, "Print the finished sweep as JSON");
  watch->add_flag("-v,--verbose", *verbose,
                  "List every source it started from, every tie and every kind of failure");
  watch->callback([&session, json, verbose, id] {
    const absl::Status status = Watch(session, *id, *json, *verbose);
    if (!status.ok()) session.Finish(status);
  });

  CLI::App* cancel = sweep.add_subcommand("cancel", "Stop a sweep; its finished trials are kept");
  cancel->set_help_flag("-h,--help", "Print this help message and exit");
  cancel->add_option("ID", *id, kSweepIdHelp)->required();
  cancel->callback([&session, id] { session.Finish(Cancel(session, *id)); });
}

}  // namespace tune::client
