// SPDX-License-Identifier: Apache-2.0
#include "server/sweep/submission.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/kernels/kernel_source.h"
#include "server/kernels/source_findings.h"
#include "server/wire/nouns.h"
#include "tuner/device_profile.h"
#include "tuner/status_macros.h"
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

absl::StatusOr<SearchOptions> SearchOptionsOf(const v1::SubmitSweepRequest& request) {
  const double chance = request.stop().improvement_chance_min();
  if (!(chance >= 0 && chance <= 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("a chance of improvement of ", chance, "; it is 0 (no such rule) to 1"));
  }
  SearchOptions search{.trials_without_improvement = request.stop().trials_without_improvement(),
                       .improvement_chance_min = chance,
                       .no_warm_start = request.no_warm_start()};
  if (request.has_prior()) {
    ASSIGN_OR_RETURN(WarmStart prior, FromProto(request.prior()));
    search.prior = std::make_shared<const WarmStart>(std::move(prior));
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
  RETURN_IF_ERROR(CheckName("the device", request.device()));
  RETURN_IF_ERROR(CheckStrategy(request.strategy()));
  if (!v1::CacheMode_IsValid(request.cache_mode())) {
    return absl::InvalidArgumentError(absl::StrCat("unknown cache mode ", request.cache_mode()));
  }
  return CheckBudget(request.budget());
}

absl::StatusOr<NamedKernel> ResolveKernel(const v1::SubmitSweepRequest& request,
                                          const Catalogue& catalogue) {
  switch (request.kernel_case()) {
    case v1::SubmitSweepRequest::kKernelName:
      return catalogue.Find(request.kernel_name());
    case v1::SubmitSweepRequest::kKernelSource:
      return ParseKernelSource(request.kernel_source());
    case v1::SubmitSweepRequest::KERNEL_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError("no kernel: give a name of the catalogue, or a source");
}

// INVALID_ARGUMENT: no config of the kernel can be what is meant.
absl::Status RefuseSource(const Kernel& kernel, const Problem& problem, const TargetTraits& traits,
                          std::vector<std::string>& warnings) {
  ASSIGN_OR_RETURN(const std::vector<SourceFinding> findings,
                   CheckSource(kernel, problem, traits));
  std::vector<std::string> errors;
  for (const SourceFinding& finding : findings) {
    (finding.certain ? errors : warnings).push_back(finding.message);
  }
  if (errors.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrJoin(errors, "\n"));
}

}  // namespace

absl::StatusOr<Submission> CheckProblem(const v1::SubmitSweepRequest& request,
                                        const Catalogue& catalogue, const Devices& devices,
                                        absl::Time deadline) {
  RETURN_IF_ERROR(CheckLimits(request));
  ASSIGN_OR_RETURN(NamedKernel named, ResolveKernel(request, catalogue));
  const Kernel& kernel = *named.kernel;
  ASSIGN_OR_RETURN(DeviceView device, devices.Choose(request.device(), deadline));
  const DeviceStatus& status = device.status;
  if (status.state == DeviceState::kUnavailable || status.state == DeviceState::kQuarantined) {
    return absl::FailedPreconditionError(
        absl::StrCat("device ", status.id, " cannot be used: ", status.message));
  }
  if (!kernel.RunsOn(status.info.target)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "kernel ", kernel.spec().name(), " does not run on ", status.info.target, " (device ",
        status.id, "); its targets: ", absl::StrJoin(kernel.spec().targets(), ", ")));
  }
  const TargetTraits traits = TraitsOf(status.info);
  const std::map<std::string, int64_t> dims(request.dims().begin(), request.dims().end());

  Submission submission{.parsed = named.kernel,
                        .traits = traits,
                        .kernel = {.hash = kernel.hash(),
                                   .name = kernel.spec().name(),
                                   .spec_name = named.spec_name,
                                   .spec_text = kernel.spec_text(),
                                   .files = kernel.files()}};
  ASSIGN_OR_RETURN(submission.search, SearchOptionsOf(request));
  db::SweepRow& sweep = submission.sweep;
  ASSIGN_OR_RETURN(sweep.problem, kernel.MakeProblem(dims, request.dtype(), traits.target));
  RETURN_IF_ERROR(kernel.PlanProblem(sweep.problem, traits).status());
  RETURN_IF_ERROR(RefuseSource(kernel, sweep.problem, traits, submission.warnings));

  sweep.kernel_hash = kernel.hash();
  sweep.kernel_name = kernel.spec().name();
  sweep.device_id = status.id;
  sweep.device_name = status.info.name;
  sweep.target = status.info.target;
  sweep.strategy = request.strategy();
  sweep.budget_trials = request.budget().trials();
  sweep.budget_seconds = request.budget().seconds();
  sweep.seed = request.seed();
  sweep.cache_mode = FromProto(request.cache_mode());
  sweep.fresh = request.fresh();
  sweep.idempotency_key = request.idempotency_key();
  sweep.created_unix_ms = absl::ToUnixMillis(absl::Now());
  return submission;
}

absl::StatusOr<Submission> CheckSubmission(const v1::SubmitSweepRequest& request,
                                           const Catalogue& catalogue, const Devices& devices,
                                           SpaceSolver& solver, absl::Time deadline,
                                           const Cancelled& cancelled) {
  ASSIGN_OR_RETURN(Submission submission, CheckProblem(request, catalogue, devices, deadline));
  ASSIGN_OR_RETURN(const Space space, solver.MakeSpace(*submission.parsed, submission.sweep.problem,
                                                       submission.traits, cancelled));
  submission.space_size = space.size();
  ChooseStrategy(space.size(), submission.sweep);
  return submission;
}

void ChooseStrategy(uint64_t space_size, db::SweepRow& sweep) {
  const bool unlimited = sweep.budget_trials == 0 && sweep.budget_seconds == 0;
  const absl::Duration budget = ProfileOfTarget(sweep.target).default_budget;
  if (unlimited && budget < absl::InfiniteDuration()) {
    sweep.budget_seconds = absl::ToDoubleSeconds(budget);
  }
  const bool all = sweep.budget_trials == 0 && sweep.budget_seconds == 0;
  if (!sweep.strategy.empty()) return;
  // What is tried whole needs no choosing.
  const bool fits = all ? space_size <= kExhaustiveMax
                        : sweep.budget_seconds == 0 && space_size <= sweep.budget_trials;
  sweep.strategy = fits ? "exhaustive" : std::string(kDefaultStrategy);
  if (all && !fits) sweep.budget_trials = kSearchTrials;
}

double ConfirmSecondsMax(const db::SweepRow& sweep) {
  if (sweep.budget_seconds <= 0) return 0;
  const double most =
      absl::ToDoubleSeconds(ProfileOfTarget(sweep.target).confirm_time_max);
  return std::clamp(sweep.budget_seconds, kConfirmSecondsMin, most);
}

uint64_t PlannedTrials(const db::SweepRow& sweep, uint64_t space_size) {
  return sweep.budget_trials == 0 ? space_size : std::min(sweep.budget_trials, space_size);
}

}  // namespace tune::server
