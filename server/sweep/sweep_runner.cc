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

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "db/store_faults.h"
#include "server/artifacts/artifact_share.h"
#include "server/artifacts/artifact_text.h"
#include "server/sweep/progress_meter.h"
#include "server/sweep/submission.h"
#include "tuner/device_profile.h"
#include "tuner/kernel/kernel.h"
#include "tuner/status_macros.h"
#include "tuner/steady_time.h"
#include "tuner/strategies/strategy.h"
#include "tuner/sweep/sweep.h"
#include "tuner/sweep/winner.h"

namespace tune::server {
namespace {

// What is in flight was chosen before its results were known: of few trials, a quarter at most.
constexpr uint64_t kBlindShare = 4;
constexpr uint64_t kInFlightMin = 4;
constexpr size_t kStartsMax = 4;  // winners of other problems that a sweep tries first
// While the store cannot write, it is asked again so often, and for so long while the sweep has the
// device. Then the device is for others, and the sweep goes on after a pause.
constexpr absl::Duration kStoreAgain = absl::Seconds(1);
constexpr absl::Duration kStorePatience = absl::Seconds(10);
constexpr absl::Duration kPause = absl::Seconds(30);
constexpr absl::Duration kStopCheck = absl::Milliseconds(50);
constexpr char kBestUnconfirmed[] = "the best so far was not measured again";
constexpr double kPrepareTold = 0.05;  // of a budget; less is no matter
constexpr size_t kFinalistsMin = 64;  // MeasureFinals measures fewer again

// A slow kernel gets fewer rounds than a fast one.
ConfirmPolicy ConfirmPolicyFor(const db::SweepRow& row) {
  ConfirmPolicy policy{.time = ProfileOfTarget(row.target).confirm_time};
  if (row.budget_seconds > 0) {
    policy.limit = absl::Seconds(ConfirmSecondsMax(row));
    policy.time = std::min(policy.time, policy.limit / 2);
  }
  return policy;
}

// One sweep while it runs. Not thread-safe: lives on the thread of its device.
class SweepRun {
 public:
  SweepRun(db::Store& store, Workers& workers, const RecordBook& records, SpaceSolver& solver,
           SweepWork& work, JobContext& context)
      : store_(store),
        workers_(workers),
        records_(records),
        solver_(solver),
        work_(work),
        context_(context),
        stop_(context.stop()),
        view_(work.view()),
        meter_(SteadyNow()) {}
  // Gives the device free for others: no worker stays on it between sweeps.
  ~SweepRun();

  absl::Status Go();
  // Writes to the store, and waits for a moment if the disk is full or fails. If that does not
  // pass, the sweep is to pause: Ended says so.
  absl::Status Persist(absl::FunctionRef<absl::Status()> write);
  // How it ended, given what Go returned. What it found is told to the sweep's work.
  JobWork::End Ended(const absl::Status& status);
  // The record to publish; nothing unless a winner was confirmed.
  std::optional<db::RecordRow> Record() const;
  // What the record's config was compiled to, as a file.
  absl::StatusOr<std::string> Artifact(const db::RecordRow& record) const;

 private:
  absl::Status LoadKernel();
  absl::Status OpenDevice();
  absl::Status PlanSpace();
  // Trials at once: fewer than the evaluator takes where a strategy that learns has few to try.
  // Those that learn from a prior do from results.
  size_t InFlight() const;
  absl::StatusOr<std::vector<PriorObservation>> LoadPrior();
  // Configs that won at other problems, in the order in which they are tried.
  std::vector<uint64_t> LoadStarts();
  LookupQuery QueryOfKey() const;
  absl::StatusOr<std::vector<Trial>> LoadKnown();
  void Keep(Trial trial);
  absl::Status Search(const std::vector<Trial>& known);
  absl::Status Confirm();
  void AddIncumbent();
  absl::Status StoreConfirmed(Trial& trial);
  absl::Status Append(Trial& trial);
  void TrimMessage(Trial& trial);
  absl::Status NameBestSoFar();
  void NoteResult();
  void Report(const SweepSummary& summary, const Trial* trial);
  std::string Unconfirmed() const;

  db::Store& store_;
  Workers& workers_;
  const RecordBook& records_;
  SpaceSolver& solver_;
  SweepWork& work_;
  JobContext& context_;
  const std::atomic<bool>& stop_;
  SweepView view_;
  ProgressMeter meter_;

  std::shared_ptr<const Kernel> kernel_;
  DeviceSupervisor* device_ = nullptr;
  std::unique_ptr<WorkerEvaluator> evaluator_;
  std::optional<Space> space_;
  std::optional<Config> default_config_;  // not every problem allows the spec's default
  std::unique_ptr<Strategy> strategy_;
  db::TrialKey key_;
  std::vector<Trial> finalists_;        // the fastest that were ok, without samples
  std::optional<Trial> default_trial_;  // of the search, if it was ok
  SweepSummary summary_;
  double search_seconds_ = 0;  // that the search may take; 0: no limit
  double prepare_seconds_ = 0;  // of the budget that went before it
  bool confirmed_ = false;
  std::string paused_;  // why the store could not be written to; empty: it could
  size_t message_bytes_ = 0;  // of the trials that were stored
};

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
  ASSIGN_OR_RETURN(kernel_, Kernel::Create(row.spec_name, row.spec_text, row.files));
  return absl::OkStatus();
}

absl::Status SweepRun::OpenDevice() {
  db::SweepRow& row = view_.row;
  context_.Say("opening the device and computing the reference");
  ASSIGN_OR_RETURN(device_, workers_.FindDevice(context_.device_id()));
  const DeviceInfo info = device_->Status().info;
  if (!info.name.empty() && info.name != row.device_name) {
    return absl::FailedPreconditionError(absl::StrCat(
        "device ", context_.device_id(), " was ", row.device_name,
        " when the sweep was submitted and is ", info.name, " now; submit the sweep again"));
  }
  const DeviceProfile& profile = ProfileOfTarget(row.target);
  const absl::Duration budget =
      row.budget_seconds > 0 ? absl::Seconds(row.budget_seconds - view_.spent_seconds)
                             : absl::InfiniteDuration();
  std::optional<Config> first;
  if (absl::StatusOr<Config> config =
          kernel_->DefaultConfig(row.problem, TraitsOf(info));
      config.ok()) {
    first = *std::move(config);
  }
  ASSIGN_OR_RETURN(evaluator_,
                   workers_.MakeEvaluator(
                       context_.device_id(),
                       {.kernel = kernel_,
                        .problem = row.problem,
                        .seed = row.seed,
                        .policy = With(row.cache_mode, profile.search),
                        .confirm_policy = With(row.cache_mode, profile.confirm),
                        .budget = budget,
                        .cancelled = context_.cancelled(),
                        .first = std::move(first),
                        .early = true}));
  key_ = {.kernel_hash = row.kernel_hash,
          .problem = row.problem,
          .device_name = row.device_name,
          .target = row.target,
          .driver = evaluator_->device().driver,
          .compiler = evaluator_->compiler_version(),
          .cache_mode = row.cache_mode};
  return absl::OkStatus();
}

absl::Status SweepRun::PlanSpace() {
  const db::SweepRow& row = view_.row;
  ASSIGN_OR_RETURN(space_,
                   solver_.MakeSpace(
                       *kernel_, row.problem, evaluator_->traits(),
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
  return std::min<size_t>(evaluator_->capacity(),
                          std::max(kInFlightMin, row.budget_trials / kBlindShare));
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

LookupQuery SweepRun::QueryOfKey() const {
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
    search_seconds_ = absl::ToDoubleSeconds(budget.time);
    // Compiling and running the reference is of the budget, too.
    prepare_seconds_ =
        std::max(0.0, view_.row.budget_seconds - view_.spent_seconds - search_seconds_);
  }
  ASSIGN_OR_RETURN(summary_, RunSweep(*space_, *strategy_, *evaluator_, budget, known, hooks));
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
    absl::StrAppend(&view_.end_message, " with ", summary_.dropped,
                    " more under way, which do not count as tried");
  }
  Report(summary_, nullptr);
  return absl::OkStatus();
}

void SweepRun::Report(const SweepSummary& summary, const Trial* trial) {
  const absl::Time now = SteadyNow();
  SweepProgress& progress = view_.progress;
  progress.done = summary.done;
  progress.reused = summary.reused;
  progress.outcomes = summary.outcomes;
  progress.elapsed_seconds = view_.spent_seconds + meter_.ElapsedSeconds(now);
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

absl::Status SweepRun::Confirm() {
  view_.progress.remaining_seconds = 0;
  context_.Say("measuring the best configs again, in fresh processes");
  if (default_trial_) finalists_.push_back(*default_trial_);
  AddIncumbent();
  const Config default_config = default_config_.value_or(Config{});
  absl::StatusOr<Finals> measured =
      MeasureFinals(finalists_, default_config, ConfirmPolicyFor(view_.row), *evaluator_);
  if (absl::IsDeadlineExceeded(measured.status())) return absl::OkStatus();
  ASSIGN_OR_RETURN(Finals finals, std::move(measured));
  for (Trial& trial : finals.trials) RETURN_IF_ERROR(StoreConfirmed(trial));
  ASSIGN_OR_RETURN(Winner winner, NameWinner(finals, default_config));

  const Roof& roof = evaluator_->roof();
  SweepResult result{.best = std::move(winner.best),
                     .default_trial = std::move(winner.default_trial),
                     .ties = std::move(winner.ties),
                     .confirm_rounds = static_cast<uint32_t>(finals.rounds),
                     .bound = roof.bound,
                     .ceiling = roof.ceiling,
                     .ceiling_source = roof.source};
  view_.result = std::move(result);
  confirmed_ = true;
  return absl::OkStatus();
}

// A sweep that saw little takes the place of a record only where it is measured to be faster.
void SweepRun::AddIncumbent() {
  const std::shared_ptr<const LookupIndex> index = records_.snapshot();
  const LookupAnswer found =
      index->Lookup(QueryOfKey(), [](const db::RecordRow&) { return true; });
  if (found.match != Match::kExact || !space_->IndexOf(found.record->trial.config)) return;
  const auto is_it = [&](const Trial& one) { return one.config == found.record->trial.config; };
  if (std::any_of(finalists_.begin(), finalists_.end(), is_it)) return;
  Trial incumbent{.config = found.record->trial.config, .outcome = Outcome::kOk};
  incumbent.measurement.latency_ns_median = found.record->trial.measurement.latency_ns_median;
  finalists_.push_back(std::move(incumbent));
}

absl::Status SweepRun::StoreConfirmed(Trial& trial) {
  trial.sweep_id = view_.row.id;
  trial.purpose = TrialPurpose::kConfirm;
  if (trial.finished_unix_ms == 0) trial.finished_unix_ms = absl::ToUnixMillis(absl::Now());
  return Append(trial);
}

// What is wrong with thousands of configs is mostly the same: the first messages have all of it.
void SweepRun::TrimMessage(Trial& trial) {
  constexpr size_t kWholeMessageBytes = 256 << 10;  // of a sweep
  constexpr size_t kTrimmedBytes = 1 << 10;
  if (message_bytes_ > kWholeMessageBytes && trial.message.size() > kTrimmedBytes) {
    trial.message.resize(kTrimmedBytes);
    absl::StrAppend(&trial.message, "\n(cut: earlier trials of the sweep have long messages)");
  }
  message_bytes_ += trial.message.size();
}

absl::Status SweepRun::Append(Trial& trial) {
  TrimMessage(trial);
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
      paused_ = std::string(written.message());
      return written;
    }
    if (waited == absl::ZeroDuration()) {
      spdlog::warn("sweep {} is paused: {}", view_.row.id, written.ToString());
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

absl::Status SweepRun::NameBestSoFar() {
  if (!summary_.best || evaluator_ == nullptr) return absl::OkStatus();
  const Roof& roof = evaluator_->roof();
  SweepResult result{
      .bound = roof.bound, .ceiling = roof.ceiling, .ceiling_source = roof.source};
  ASSIGN_OR_RETURN(result.best, store_.GetTrial(summary_.best->id));
  if (default_trial_) {
    ASSIGN_OR_RETURN(result.default_trial, store_.GetTrial(default_trial_->id));
  }
  view_.result = std::move(result);
  return absl::OkStatus();
}

// Why a sweep that ended by itself has no winner.
std::string SweepRun::Unconfirmed() const {
  if (summary_.best) {
    return absl::StrFormat(
        "the best could not be measured again within %.3g s, so no record was published: give a "
        "longer --budget, and what was tried is not tried again",
        ConfirmSecondsMax(view_.row));
  }
  if (summary_.done == 0 && summary_.end == SweepEnd::kTime) {
    const std::string cut = evaluator_ == nullptr ? "" : evaluator_->WhatWasCutShort();
    return absl::StrCat("no config was tried to its end: ",
                        cut.empty() ? "" : absl::StrCat(cut, ". If the kernel does end, "),
                        "give a longer --budget");
  }
  const auto most = std::max_element(
      summary_.outcomes.begin(), summary_.outcomes.end(),
      [](const auto& a, const auto& b) { return a.second < b.second; });
  const std::string ended = most == summary_.outcomes.end()
                                ? ""
                                : absl::StrCat(", ", most->second, " of ", summary_.done,
                                               " ended as ", ToText(most->first));
  return absl::StrCat("no config was ok", ended, ": `tunectl report sweep ", view_.row.id,
                      "` and `tunectl trial list --sweep ", view_.row.id, "` show why");
}

JobWork::End SweepRun::Ended(const absl::Status& status) {
  JobWork::End end{.status = status};
  if (!confirmed_) {
    if (absl::Status named = NameBestSoFar(); !named.ok()) {
      spdlog::error("sweep {}: {}", view_.row.id, named.ToString());
    }
  }
  if (!paused_.empty() && !context_.cancelled_for_good()) {
    // What could not be stored is measured again.
    confirmed_ = false;
    view_.result.reset();
    view_.spent_seconds = view_.progress.elapsed_seconds;
    end.interrupted = true;
    end.pause = kPause;
    end.message = absl::StrCat("paused, since what was measured cannot be stored: ", paused_,
                               ". It goes on by itself; `tunectl sweep cancel` ends it");
  } else if (stop_ && !context_.cancelled_for_good() && !confirmed_) {
    view_.spent_seconds = view_.progress.elapsed_seconds;
    end.interrupted = true;
  } else if (confirmed_ || (status.ok() && !stop_)) {
    end.status = absl::OkStatus();
    if (!confirmed_) end.message = Unconfirmed();
  } else if (context_.cancelled_for_good()) {
    end.status = absl::CancelledError("cancelled");
    end.message = kBestUnconfirmed;
  }
  NoteResult();
  if (!end.interrupted) view_.progress.remaining_seconds = 0;
  work_.Update(std::move(view_));
  return end;
}

// The row's references to trials are those of the result.
void SweepRun::NoteResult() {
  if (!view_.result) return;
  db::SweepRow& row = view_.row;
  row.best_trial_id = view_.result->best.id;
  const Trial* const default_trial = OkDefault(*view_.result);
  row.default_trial_id = default_trial == nullptr ? 0 : default_trial->id;
  row.tie_trial_ids.clear();
  for (const Trial& tie : view_.result->ties) row.tie_trial_ids.push_back(tie.id);
}

std::optional<db::RecordRow> SweepRun::Record() const {
  if (!confirmed_) return std::nullopt;
  const SweepResult& result = *view_.result;
  db::RecordRow record{.key = key_,
                       .kernel_name = view_.row.kernel_name,
                       .trial = result.best,
                       .tie_count = static_cast<uint32_t>(result.ties.size()),
                       .published_unix_ms = absl::ToUnixMillis(absl::Now()),
                       .seed = view_.row.seed,
                       .submitter = view_.row.job.owner};
  for (const Trial& tie : result.ties) {
    record.ties.push_back({tie.config, tie.measurement.latency_ns_median});
  }
  if (const Trial* const trial = OkDefault(result)) {
    record.default_latency_ns = trial->measurement.latency_ns_median;
  }
  return record;
}

absl::StatusOr<std::string> SweepRun::Artifact(const db::RecordRow& record) const {
  const std::optional<Program> program = evaluator_->MeasuredProgram(record.trial.config);
  if (!program) return absl::NotFoundError("its program was not kept");
  return ArtifactText(record.key, record.kernel_name, record.trial.config, *program);
}

// Who was told that a sweep is done finds its record in the newest snapshot's file, unless the host
// is so busy or the snapshot so large that this would keep the device from its next job.
constexpr absl::Duration kSnapshotPatience = absl::Seconds(2);

}  // namespace

// A record without its artifact is worth having.
void SweepRunner::KeepArtifact(absl::StatusOr<std::string> text, db::RecordRow& record) {
  absl::StatusOr<std::string> kept = text.status();
  if (text.ok()) {
    kept = PutWithinShare(*text, {record.submitter, artifact_bytes_max_of_(record.submitter)},
                          artifacts_, store_);
  }
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
  const absl::Status status = run->Go();
  if (!status.ok() && !context.stop()) spdlog::warn("sweep {}: {}", id, status.ToString());
  if (std::optional<db::RecordRow> record = run->Record()) {
    KeepArtifact(run->Artifact(*record), *record);
    const absl::Status published = run->Persist([&] { return records_.Publish(*record); });
    if (!published.ok()) {
      spdlog::error("sweep {}: its record was not published: {}", id, published.ToString());
    }
    snapshots_.Await(kSnapshotPatience);
  }
  JobWork::End end = run->Ended(status);
  end.remains = run;
  return end;
}

}  // namespace tune::server
