// SPDX-License-Identifier: Apache-2.0
// tunectl job prune
#include "client/cli/job_prune.h"

#include <chrono>
#include <cstdio>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/connect/rpc.h"
#include "client/report/format.h"
#include "tune/v1/server.grpc.pb.h"
#include "tune/v1/server.pb.h"

namespace tune::client {
namespace {

constexpr auto kTimeout = std::chrono::minutes(10);
constexpr double kHoursPerDay = 24;

absl::Status Prune(Session& session, v1::PruneJobsRequest request, double days) {
  auto connection = session.Connect();
  if (!connection.ok()) return connection.status();
  const absl::Time before = absl::Now() - absl::Hours(kHoursPerDay * days);
  request.set_before_unix_ms(absl::ToUnixMillis(before));
  grpc::ClientContext context;
  SetDeadline(context, kTimeout);
  v1::PruneJobsResponse response;
  const absl::Status status =
      FromGrpc((*connection)->stub<v1::ServerService>().PruneJobs(&context, request, &response));
  if (!status.ok()) return status;
  std::printf("%s %s with %lu trials from %lu finished jobs%s\n",
              request.dry_run() ? "would remove" : "removed", BytesText(response.bytes()).c_str(),
              static_cast<unsigned long>(response.trials()),
              static_cast<unsigned long>(response.jobs()),
              request.owner().empty() ? "" : absl::StrCat(" of ", request.owner()).c_str());
  return absl::OkStatus();
}

}  // namespace

void AddJobPrune(CLI::App& job, Session& session) {
  auto request = std::make_shared<v1::PruneJobsRequest>();
  auto days = std::make_shared<double>(0);
  auto dry_run = std::make_shared<bool>(false);
  auto owner = std::make_shared<std::string>();
  CLI::App* prune = job.add_subcommand(
      "prune",
      "Remove what finished jobs stored: trials, samples, messages, sources.\n"
      "Keeps the jobs themselves and what records need. For operators.\nExamples:\n"
      "  tunectl job prune --older-than 90 --dry-run\n"
      "  tunectl job prune --owner mallory");
  prune->add_option("--owner", *owner, "Only jobs of this principal");
  prune->add_option("--older-than", *days, "Only jobs that ended at least this many days ago")
      ->type_name("DAYS")
      ->check(CLI::Range(0.0, 36500.0));
  prune->add_flag("--dry-run", *dry_run, "Remove nothing; print what would be removed");
  prune->callback([&session, request, prune, days, dry_run, owner] {
    if (prune->count("--owner") == 0 && prune->count("--older-than") == 0) {
      throw CLI::ValidationError("job prune", "give --owner, --older-than, or both");
    }
    request->set_owner(*owner);
    request->set_dry_run(*dry_run);
    session.Finish(Prune(session, *request, *days));
  });
}

}  // namespace tune::client
