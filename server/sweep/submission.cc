// SPDX-License-Identifier: Apache-2.0
#include "server/sweep/submission.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "server/kernels/kernel_source.h"
#include "server/kernels/source_findings.h"
#include "server/wire/nouns.h"
#include "server/workload/workload.h"
#include "tuner/device_profile.h"
#include "tuner/strategies/strategy.h"

namespace tune::server {
namespace {

constexpr uint64_t kExhaustiveMax = 4096;
constexpr uint64_t kSearchTrials = 1000;
constexpr double kConfirmSecondsMin = 6;
constexpr double kSecondsMax = 30 * 24 * 3600.0;

absl::Status CheckBudget(const v1::Budget& budget) {
  if (!std::isfinite(budget.seconds()) || budget.seconds() < 0 || budget.seconds() > kSecondsMax) {
    return absl::InvalidArgumentError(absl::StrCat("budget of ", budget.seconds(),
                                                   " seconds; it must be 0 (no limit) to ",
                                                   kSecondsMax, " (30 days)"));
  }
  return absl::OkStatus();
}

absl::StatusOr<SearchOptions> SearchOptionsOf(const v1::SubmitSweepRequest& request,
                                              const KernelSpec& spec) {
  const double chance = request.stop().improvement_chance_min();
  if (!(chance >= 0 && chance <= 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("a chance of improvement of ", chance, "; it is 0 (no such rule) to 1"));
  }
  SearchOptions search{.trials_without_improvement = request.stop().trials_without_improvement(),
                       .improvement_chance_min = chance,
                       .no_warm_start = request.no_warm_start()};
  if (request.has_prior()) {
    ASSIGN_OR_RETURN(WarmStart prior, FromProto(request.prior(), spec));
    search.prior = std::make_shared<const WarmStart>(std::move(prior));
    search.prior_digest = Sha256Hex(request.prior().SerializeAsString());
  }
  return search;
}

absl::Status CheckStrategy(const std::string& name) {
  const std::vector<std::string> known = StrategyNames();
  if (name.empty() || std::find(known.begin(), known.end(), name) != known.end()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("unknown strategy '", name, "'; there is: ", absl::StrJoin(known, ", ")));
}

absl::Status CheckLimits(const v1::SubmitSweepRequest& request) {
  RETURN_IF_ERROR(CheckName("the idempotency key", request.idempotency_key()));
  RETURN_IF_ERROR(CheckStrategy(request.strategy()));
  if (!v1::JobPriority_IsValid(request.priority())) {
    return absl::InvalidArgumentError(absl::StrCat("unknown priority ", request.priority()));
  }
  if (!v1::CacheMode_IsValid(request.cache_mode())) {
    return absl::InvalidArgumentError(absl::StrCat("unknown cache mode ", request.cache_mode()));
  }
  return CheckBudget(request.budget());
}

// A further device for a sweep on those of `chosen`.
absl::Status CheckFurther(const DeviceChoice& chosen, const DeviceStatus& further) {
  const DeviceStatus& first = chosen.view.status;
  if (std::find(chosen.ids.begin(), chosen.ids.end(), further.id) != chosen.ids.end()) {
    return absl::InvalidArgumentError(absl::StrCat("--devices names ", further.id, " twice"));
  }
  if (AreAlike(first.info, further.info)) return absl::OkStatus();
  const auto text = [](const DeviceStatus& one) {
    return absl::StrCat(one.id, " is ", one.info.name, " with driver ", one.info.driver);
  };
  return absl::InvalidArgumentError(
      absl::StrCat("one sweep is measured on equal devices, and ", text(first), ", ", text(further),
                   ": leave one out, or submit a sweep for each; see `tunectl device list`"));
}

// "all" stands for every usable device like the default; a list has ids, the preferred first.
absl::StatusOr<DeviceChoice> ChooseDevices(const std::string& devices, const Devices& known,
                                           absl::Time deadline, const Cancelled& cancelled) {
  if (devices == kAllDevices) return ChooseDevice(kAnyDevice, known, deadline, cancelled);
  if (!absl::StrContains(devices, ',')) return ChooseDevice(devices, known, deadline, cancelled);
  std::optional<DeviceChoice> chosen;
  for (const absl::string_view id : absl::StrSplit(devices, ',')) {
    const std::string name(absl::StripAsciiWhitespace(id));
    ASSIGN_OR_RETURN(DeviceChoice one, ChooseDevice(name, known, deadline, cancelled));
    one.ids.resize(1);
    if (chosen) {
      RETURN_IF_ERROR(CheckFurther(*chosen, one.view.status));
      chosen->ids.push_back(one.ids[0]);
    } else {
      chosen = std::move(one);
    }
  }
  return *std::move(chosen);
}

// INVALID_ARGUMENT: no config of the kernel can be what is meant.
absl::Status RefuseSource(const Workload& workload, std::vector<std::string>& warnings) {
  ASSIGN_OR_RETURN(const std::vector<SourceFinding> findings,
                   CheckSource(workload.kernel(), workload.problem, workload.traits()));
  std::vector<std::string> errors;
  for (const SourceFinding& finding : findings) {
    (finding.certain ? errors : warnings).push_back(finding.message);
  }
  if (errors.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrJoin(errors, "\n"));
}

}  // namespace

absl::StatusOr<Submission> CheckSubmission(const v1::SubmitSweepRequest& request,
                                           const Catalogue& catalogue, const Devices& devices,
                                           SpaceSolver& solver, absl::Time deadline,
                                           const Cancelled& cancelled) {
  RETURN_IF_ERROR(CheckLimits(request));
  const WorkloadRequest asked = WorkloadOf(request);
  ASSIGN_OR_RETURN(NamedKernel named, ResolveKernel(asked, catalogue));
  ASSIGN_OR_RETURN(const DeviceChoice chosen,
                   ChooseDevices(asked.device, devices, deadline, cancelled));
  ASSIGN_OR_RETURN(const Workload workload,
                   ResolveWorkload(std::move(named), asked.dims, asked.dtype, chosen));
  Submission submission{.kernel = ToRow(workload.named), .device_ids = chosen.ids};
  ASSIGN_OR_RETURN(submission.search, SearchOptionsOf(request, workload.kernel().spec()));
  const bool is_list = asked.device == kAllDevices || absl::StrContains(asked.device, ',');
  submission.search.spread = is_list && chosen.ids.size() > 1;
  RETURN_IF_ERROR(RefuseSource(workload, submission.warnings));
  const DeviceStatus& status = workload.device.view.status;
  db::SweepRow& sweep = submission.sweep;
  sweep.job = {.kind = db::JobKind::kSweep,
               .subject = workload.Subject(),
               .device_id = status.id,
               .created_unix_ms = absl::ToUnixMillis(absl::Now())};
  if (request.priority() == v1::JOB_PRIORITY_BACKGROUND) {
    sweep.job.priority = db::JobPriority::kBackground;
  }
  sweep.kernel_hash = workload.kernel().hash();
  sweep.kernel_name = workload.kernel().spec().name;
  sweep.problem = workload.problem;
  sweep.device_name = status.info.name;
  sweep.target = status.info.target;
  sweep.strategy = request.strategy();
  sweep.budget_trials = request.budget().trials();
  sweep.budget_seconds = request.budget().seconds();
  sweep.seed = request.seed();
  sweep.cache_mode = FromProto(request.cache_mode());
  sweep.fresh = request.fresh();
  sweep.idempotency_key = request.idempotency_key();
  ASSIGN_OR_RETURN(const Space space, solver.MakeSpace(workload.kernel(), workload.problem,
                                                       workload.traits(), cancelled));
  submission.space_size = space.size();
  ChooseStrategy(space.size(), sweep);
  return submission;
}

absl::Status CheckBudgetWithin(absl::Duration most, const v1::Budget& budget) {
  if (!(budget.seconds() > absl::ToDoubleSeconds(most))) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "a budget of ", absl::FormatDuration(absl::Seconds(budget.seconds())),
      ": a sweep of a "
      "submitter may have a device for ",
      absl::FormatDuration(most),
      ". Give a shorter --budget, and submit it again to go on from its trials; an operator may "
      "start tunerd with a larger --job-seconds-per-principal"));
}

void BoundBudget(absl::Duration most, db::SweepRow& sweep) {
  if (sweep.budget_seconds > 0 || most == absl::InfiniteDuration()) return;
  sweep.budget_seconds = absl::ToDoubleSeconds(most);
}

void SetOwner(const Principal& principal, const v1::SubmitSweepRequest& request,
              db::SweepRow& sweep) {
  sweep.job.owner = principal.name;
  const std::string name_space = NameSpaceOf(principal);
  if (request.has_kernel_source()) {
    sweep.name_space = name_space;
    sweep.kernel_name = NameIn(name_space, sweep.kernel_name);
    sweep.job.subject = NameIn(name_space, sweep.job.subject);
  }
  if (!sweep.idempotency_key.empty()) {
    sweep.idempotency_key = absl::StrCat(PathNameOf(principal.name), "/", sweep.idempotency_key);
  }
}

void ChooseStrategy(uint64_t space_size, db::SweepRow& sweep) {
  const bool unlimited = sweep.budget_trials == 0 && sweep.budget_seconds == 0;
  const absl::Duration budget = ProfileOfTarget(sweep.target).default_budget;
  if (unlimited && budget < absl::InfiniteDuration()) {
    sweep.budget_seconds = absl::ToDoubleSeconds(budget);
  }
  const bool all = sweep.budget_trials == 0 && sweep.budget_seconds == 0;
  if (!sweep.strategy.empty()) return;
  // A space that is tried whole needs no strategy that chooses.
  const bool fits = all ? space_size <= kExhaustiveMax
                        : sweep.budget_seconds == 0 && space_size <= sweep.budget_trials;
  sweep.strategy = fits ? "exhaustive" : std::string(kDefaultStrategy);
  if (all && !fits) sweep.budget_trials = kSearchTrials;
}

double ConfirmSecondsMax(const db::SweepRow& sweep) {
  if (sweep.budget_seconds <= 0) return 0;
  const double most = absl::ToDoubleSeconds(ProfileOfTarget(sweep.target).confirm_time_max);
  return std::clamp(sweep.budget_seconds, kConfirmSecondsMin, most);
}

uint64_t PlannedTrials(const db::SweepRow& sweep, uint64_t space_size) {
  return sweep.budget_trials == 0 ? space_size : std::min(sweep.budget_trials, space_size);
}

}  // namespace tune::server
