// SPDX-License-Identifier: Apache-2.0
#include "server/sweep/sweep_runner.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "base/logged.h"
#include "base/plural.h"
#include "base/status_macros.h"
#include "base/steady_time.h"
#include "db/store_faults.h"
#include "server/artifacts/artifact_share.h"
#include "server/sweep/submission.h"
#include "server/sweep/sweep_run.h"
#include "server/wire/spec.h"
#include "tuner/device_profile.h"
#include "tuner/kernel/kernel.h"
#include "tuner/strategies/strategy.h"
#include "tuner/sweep/sweep.h"
#include "tuner/sweep/winner.h"

namespace tune::server {
namespace {

// Configs in flight were chosen without each other's results: of few trials, a quarter at most.
constexpr uint64_t kBlindShare = 4;
constexpr uint64_t kInFlightMin = 4;
constexpr size_t kStartsMax = 4;  // winners of other problems that a sweep tries first
// While the store cannot write, it is asked again so often, and for so long while the sweep has the
// device. Then the device is for others, and the sweep goes on after a pause.
constexpr absl::Duration kStoreAgain = absl::Seconds(1);
constexpr absl::Duration kStorePatience = absl::Seconds(10);
constexpr absl::Duration kStopCheck = absl::Milliseconds(50);
constexpr double kPrepareTold = 0.05;  // of a budget; less is no matter
constexpr size_t kFinalistsMin = 64;   // MeasureFinals measures fewer again
// A daemon that is killed forgets at most so much of the budget's time.
constexpr double kNoteSpentSeconds = 5;
// Who was told that a sweep is done finds its record in the newest snapshot's file, unless the host
// is so busy or the snapshot so large that this would keep the device from its next job.
constexpr absl::Duration kSnapshotPatience = absl::Seconds(2);

}  // namespace

SweepRun::~SweepRun() {
  evaluator_.reset();
  if (device_ != nullptr) device_->Close();
}

absl::Status SweepRun::Go() {
  RETURN_IF_ERROR(LoadKernel());
  RETURN_IF_ERROR(OpenDevice());
  RETURN_IF_ERROR(PlanSpace());
  ASSIGN_OR_RETURN(const std::vector<Trial> known, LoadKnown());
  RETURN_IF_ERROR(Search(known));
  if (stop_) return absl::OkStatus();
  RETURN_IF_ERROR(evaluator_->AwaitPrepared());
  return summary_.best ? Confirm() : absl::OkStatus();
}

absl::Status SweepRun::LoadKernel() {
  ASSIGN_OR_RETURN(db::KernelRow row, store_.GetKernel(view_.row.kernel_hash));
  ASSIGN_OR_RETURN(kernel_,
                   ReadKernel(row.spec_name, row.spec_text, row.files, view_.row.name_space));
  return absl::OkStatus();
}

absl::Status SweepRun::OpenDevice() {
  db::SweepRow& row = view_.row;
  const std::string& before = context_.came_from();
  context_.Say(absl::StrCat(before.empty() ? ""
                                           : absl::StrCat("goes on on ", context_.device_id(),
                                                          ", like ", before, " before: "),
                            "opening the device and computing the reference"));
  ASSIGN_OR_RETURN(device_, workers_.FindDevice(context_.device_id()));
  const DeviceInfo info = device_->Status().info;
  // A device that was not opened yet has no name, and is looked at afterwards.
  if (!info.name.empty()) RETURN_IF_ERROR(CheckDevice(info));
  const DeviceProfile& profile = ProfileOfTarget(row.target);
  // A later turn prepares once more: not in the search's time, of which nothing may be left.
  const bool is_first_turn = row.budget_seconds > 0 && spent_before_ <= 0;
  const absl::Duration budget =
      is_first_turn ? absl::Seconds(row.budget_seconds) : absl::InfiniteDuration();
  std::optional<Config> first;
  if (absl::StatusOr<Config> config = kernel_->DefaultConfig(row.problem, TraitsOf(info));
      config.ok()) {
    first = *std::move(config);
  }
  SweepEvaluatorOptions options{.kernel = kernel_,
                                .problem = row.problem,
                                .seed = row.seed,
                                .policy = With(row.cache_mode, profile.search),
                                .confirm_policy = With(row.cache_mode, profile.confirm),
                                .cancelled = context_.cancelled()};
  like_ = options;
  options.budget = budget;
  options.first = std::move(first);
  options.early = true;
  ASSIGN_OR_RETURN(evaluator_, SweepEvaluator::Create(workers_, context_.device_id(), options));
  RETURN_IF_ERROR(CheckDevice(evaluator_->device()));
  key_ = {.kernel_hash = row.kernel_hash,
          .problem = row.problem,
          .device_name = evaluator_->device().name,
          .target = evaluator_->device().target,
          .driver = evaluator_->device().driver,
          .compiler = evaluator_->compiler_version(),
          .cache_mode = row.cache_mode,
          .include_digest = IncludeDigestOf(*kernel_, workers_.include_roots())};
  return absl::OkStatus();
}

absl::Status SweepRun::CheckDevice(const DeviceInfo& info) const {
  const db::SweepRow& row = view_.row;
  if (info.name == row.device_name && info.target == row.target) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("device ", context_.device_id(), " was ", row.device_name, " (", row.target,
                   ") when the sweep was submitted and is ", info.name, " (", info.target,
                   ") now; submit the sweep again"));
}

absl::Status SweepRun::PlanSpace() {
  const db::SweepRow& row = view_.row;
  ASSIGN_OR_RETURN(space_, solver_.MakeSpace(*kernel_, row.problem, evaluator_->traits(),
                                             context_.cancelled(), SpaceSolver::Caller::kSweep));
  view_.fixed_params.clear();
  for (size_t i = 0; i < space_->params().size(); ++i) {
    if (space_->radix(i) == 1) view_.fixed_params.push_back(space_->params()[i].name);
  }
  std::optional<uint64_t> first;
  if (absl::StatusOr<Config> config = kernel_->DefaultConfig(row.problem, evaluator_->traits());
      config.ok()) {
    first = space_->IndexOf(*config);
    if (first) default_config_ = *std::move(config);
  }
  StrategyOptions options{.seed = row.seed,
                          .first = first,
                          .budget_trials = row.budget_trials,
                          .in_flight = static_cast<uint32_t>(InFlight())};
  if (UsesPrior(row.strategy)) {
    ASSIGN_OR_RETURN(options.prior, LoadPrior());
    if (!view_.search.no_warm_start) options.starts = LoadStarts();
  }
  ASSIGN_OR_RETURN(strategy_, MakeStrategy(row.strategy, *space_, std::move(options)));
  view_.progress.space_size = space_->size();
  view_.progress.planned = PlannedTrials(row, space_->size());
  return absl::OkStatus();
}

size_t SweepRun::InFlight() const {
  const db::SweepRow& row = view_.row;
  if (row.budget_trials == 0 || !UsesPrior(row.strategy)) return evaluator_->capacity();
  const uint64_t least = view_.search.spread ? 2 * row.device_ids.size() : kInFlightMin;
  return std::min<size_t>(evaluator_->capacity(),
                          std::max({kInFlightMin, least, row.budget_trials / kBlindShare}));
}

absl::StatusOr<std::vector<PriorObservation>> SweepRun::LoadPrior() {
  WarmStart warm_start;
  if (view_.search.prior != nullptr) warm_start = *view_.search.prior;
  if (!view_.search.no_warm_start && warm_start.prior.size() < kPriorObservationsMax) {
    ASSIGN_OR_RETURN(
        WarmStart stored,
        GatherWarmStart(store_, records_.shipped_sweeps(), view_.row.kernel_name, *kernel_, key_,
                        kPriorObservationsMax - warm_start.prior.size()));
    for (PriorObservation& observation : stored.prior) {
      observation.source += static_cast<uint32_t>(warm_start.sources.size());
      warm_start.prior.push_back(std::move(observation));
    }
    warm_start.sources.insert(warm_start.sources.end(), stored.sources.begin(),
                              stored.sources.end());
  }
  view_.warm_observations = warm_start.prior.size();
  view_.warm_sources = std::move(warm_start.sources);
  return std::move(warm_start.prior);
}

std::vector<uint64_t> SweepRun::LoadStarts() {
  std::vector<uint64_t> starts;
  for (NearWinner& winner :
       NearestWinners(*records_.snapshot(), QueryOfKey(), *space_, kStartsMax)) {
    starts.push_back(winner.index);
    view_.warm_sources.push_back(std::move(winner.source));
  }
  view_.warm_observations += starts.size();
  return starts;
}

lookup::Query SweepRun::QueryOfKey() const {
  return {.kernel_name = view_.row.kernel_name,
          .kernel_hash = key_.kernel_hash,
          .problem = key_.problem,
          .device_name = key_.device_name,
          .target = key_.target};
}

absl::StatusOr<std::vector<Trial>> SweepRun::LoadKnown() {
  const uint32_t known_max = workers_.limits().known_trials;
  std::vector<Trial> stored;
  if (view_.row.fresh) {  // what this sweep itself did before it was interrupted
    ASSIGN_OR_RETURN(stored, store_.NewestOfSweep(view_.row.id, known_max));
  } else {
    ASSIGN_OR_RETURN(stored, store_.TrialsOfKey(key_, known_max));
  }
  if (stored.size() == known_max) {
    spdlog::warn("sweep {} takes over {} trials, and no older ones: see --known-trials",
                 view_.row.id, known_max);
  }
  std::vector<Trial> known;
  std::set<std::string> seen;
  for (Trial& trial : stored) {
    if (!space_->IndexOf(trial.config) || !seen.insert(ToText(trial.config)).second) continue;
    trial.measurement.samples_ns.clear();
    if (trial.sweep_id == view_.row.id) ++known_own_;
    Keep(trial);
    known.push_back(std::move(trial));
  }
  return known;
}

// A sweep may have millions of trials; naming the winner takes the best few.
void SweepRun::Keep(Trial trial) {
  if (trial.outcome != Outcome::kOk) return;
  trial.measurement.samples_ns.clear();
  if (default_config_ && trial.config == *default_config_) default_trial_ = trial;
  finalists_.push_back(std::move(trial));
  if (finalists_.size() < 2 * kFinalistsMin) return;
  std::nth_element(finalists_.begin(), finalists_.begin() + kFinalistsMin, finalists_.end(),
                   [](const Trial& a, const Trial& b) {
                     return a.measurement.latency_ns_median < b.measurement.latency_ns_median;
                   });
  finalists_.resize(kFinalistsMin);
}

absl::Status SweepRun::Search(const std::vector<Trial>& known) {
  meter_ = ProgressMeter(SteadyNow());
  context_.Say("");
  SweepHooks hooks;
  hooks.cancelled = &stop_;
  hooks.store = [this](Trial& trial) -> absl::Status {
    trial.sweep_id = view_.row.id;
    NoteDevice(trial);
    return Append(trial);
  };
  hooks.progress = [this](const SweepSummary& summary, const Trial& trial) {
    summary_ = summary;  // kept in case the loop ends with an error
    Keep(trial);
    meter_.Finished(SteadyNow());
    Report(summary, &trial);
  };
  SweepBudget budget{.trials = view_.row.budget_trials,
                     .trials_without_improvement = view_.search.trials_without_improvement,
                     .improvement_chance_min = view_.search.improvement_chance_min,
                     .in_flight = InFlight()};
  budget.time = evaluator_->time_left();
  if (view_.row.budget_seconds > 0) {
    const double left = std::max(0.0, view_.row.budget_seconds - spent_before_);
    budget.time = std::min(budget.time, absl::Seconds(left));
    search_seconds_ = absl::ToDoubleSeconds(budget.time);
    // Compiling and running the reference is of the budget, too.
    prepare_seconds_ = left - search_seconds_;
  }
  ASSIGN_OR_RETURN(summary_, SearchWithHelp(budget, known, hooks));
  view_.end = summary_.end;
  view_.end_message = ToText(summary_.end);
  if (summary_.end == SweepEnd::kTime) {
    const double seconds = view_.row.budget_seconds;
    view_.end_message = absl::StrFormat("the budget of %.3g s was spent", seconds);
    if (prepare_seconds_ > kPrepareTold * seconds) {
      absl::StrAppendFormat(&view_.end_message, ", %.2g s of it on the reference",
                            prepare_seconds_);
    }
  }
  if (summary_.dropped > 0) {
    absl::StrAppend(&view_.end_message, ", with ", summary_.dropped,
                    " more under way, which do not count as tried");
  }
  for (const auto& [device, count] : trials_on_) {
    absl::StrAppend(&view_.end_message, "; ", Counted(count, "trial"), " on ", device);
  }
  Report(summary_, nullptr);
  return absl::OkStatus();
}

absl::StatusOr<SweepSummary> SweepRun::SearchWithHelp(const SweepBudget& budget,
                                                      const std::vector<Trial>& known,
                                                      const SweepHooks& hooks) {
  const std::shared_ptr<HelpOffer> offer = work_.offer();
  if (offer != nullptr) offer->Open(workers_, *evaluator_, like_);
  const absl::Cleanup close = [&] {
    if (offer != nullptr) offer->Close();
  };
  return RunSweep(*space_, *strategy_, *evaluator_, budget, known, hooks);
}

// A further device stands in the trial's message, and those of all trials in the sweep's.
void SweepRun::NoteDevice(Trial& trial) {
  if (!view_.search.spread) return;
  const std::string helper = evaluator_->TakeHelperOf(trial);
  if (!helper.empty()) {
    absl::StrAppend(&trial.message, trial.message.empty() ? "" : "; ", "measured on ", helper);
  }
  if (++trials_on_[helper.empty() ? context_.device_id() : helper] > 1) return;
  context_.Say(absl::StrCat("searching on ",
                            absl::StrJoin(trials_on_, ", ", [](std::string* out, const auto& one) {
                              out->append(one.first);
                            })));
}

void SweepRun::Report(const SweepSummary& summary, const Trial* trial) {
  const absl::Time now = SteadyNow();
  SweepProgress& progress = view_.progress;
  progress.done = summary.done;
  progress.reused = summary.reused - known_own_;
  progress.outcomes = summary.outcomes;
  progress.elapsed_seconds = spent_before_ + meter_.ElapsedSeconds(now);
  view_.row.spent_seconds = progress.elapsed_seconds;
  NoteSpent();
  progress.trials_per_second = meter_.TrialsPerSecond(now);
  const uint64_t left = progress.planned - std::min(progress.planned, progress.done);
  progress.remaining_seconds = meter_.RemainingSeconds(now, left, search_seconds_);
  if (summary.best) {
    progress.best_config = summary.best->config;
    progress.best_latency_ns = summary.best->measurement.latency_ns_median;
  }
  progress.worker_restarts = evaluator_->worker_restarts();
  progress.compile_cache_hits = evaluator_->compile_cache_hits();
  if (trial != nullptr) work_.AddTrial(*trial);
  work_.Update(view_);
}

// A daemon that is killed gives the search the time again that was not noted, and no more.
void SweepRun::NoteSpent() {
  const double spent = view_.row.spent_seconds;
  if (view_.row.budget_seconds <= 0 || spent < noted_spent_ + kNoteSpentSeconds) return;
  noted_spent_ = spent;
  if (absl::Status noted = store_.NoteSpent(view_.row.id, spent); !noted.ok()) {
    spdlog::warn("sweep {}: the time that it spent is not stored: {}", view_.row.id,
                 noted.ToString());
  }
}

absl::Status SweepRun::Append(Trial& trial) {
  trial.message = messages_.Cut(std::move(trial.message));
  return Persist([&]() -> absl::Status {
    ASSIGN_OR_RETURN(trial.id, store_.AppendTrial(trial, key_));
    return absl::OkStatus();
  });
}

absl::Status SweepRun::Persist(absl::FunctionRef<absl::Status()> write) {
  absl::Duration waited;
  while (true) {
    const absl::Status written = write();
    if (written.ok() && waited > absl::ZeroDuration()) context_.Say("");
    if (!db::MayPass(written)) return written;
    if (waited >= kStorePatience) {
      paused_ = absl::StrCat("what was measured cannot be stored: ", written.message());
      return written;
    }
    if (waited == absl::ZeroDuration()) {
      spdlog::warn("sweep {} is paused: {}", view_.row.id, Logged(written));
      context_.Say(
          absl::StrCat("paused, since what was measured cannot be stored: ", written.message(),
                       ". It goes on by itself; `tunectl sweep cancel` ends it"));
    }
    for (const absl::Duration end = waited + kStoreAgain; waited < end; waited += kStopCheck) {
      if (stop_) return written;
      absl::SleepFor(kStopCheck);
    }
  }
}

// A record without its artifact is worth having.
void SweepRunner::KeepArtifact(absl::StatusOr<std::string> text, lookup::Record& record) {
  const auto keep = [&]() -> absl::StatusOr<std::string> {
    RETURN_IF_ERROR(text.status());
    return PutWithinShare(*text, {record.submitter, artifact_bytes_max_of_(record.submitter)},
                          artifacts_, store_);
  };
  absl::StatusOr<std::string> kept = keep();
  if (kept.ok()) {
    record.artifact = *std::move(kept);
  } else {
    spdlog::warn("the artifact of sweep {} is not kept: {}", record.trial.sweep_id,
                 kept.status().ToString());
  }
}

JobWork::End SweepRunner::Run(SweepWork& work, JobContext& context) {
  const int64_t id = work.view().row.id;
  const auto run = std::make_shared<SweepRun>(store_, workers_, records_, solver_, work, context);
  absl::Status status = run->Go();
  if (!status.ok() && !context.stop()) spdlog::warn("sweep {}: {}", id, Logged(status));
  if (std::optional<lookup::Record> record = run->Record()) {
    KeepArtifact(run->Artifact(*record), *record);
    const db::SweepRow done = run->DoneRow();
    const absl::Status published = run->Persist([&] {
      const absl::Status stored = records_.Publish(*record, &done);
      // The disk hung, and it may be stored: then it is told so when it is asked again.
      return absl::IsDeadlineExceeded(stored) ? absl::UnavailableError(stored.message()) : stored;
    });
    if (published.ok()) {
      snapshots_.Await(kSnapshotPatience);
    } else {
      status = run->NotPublished(published);
    }
  }
  JobWork::End end = run->Ended(status);
  end.remains = run;
  return end;
}

}  // namespace tune::server
