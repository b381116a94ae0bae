// SPDX-License-Identifier: Apache-2.0
#include "server/measure/sweep_evaluator.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/steady_time.h"
#include "tuner/device_profile.h"

namespace tune::server {
namespace {

// Compiled variants kept ahead of the device, so that it never waits for a compiler.
constexpr size_t kReadyAhead = 32;
constexpr absl::Duration kFirstPatience = absl::Seconds(10);

}  // namespace

SweepEvaluator::SweepEvaluator(SweepEvaluatorOptions options)
    : options_(std::move(options)),
      budget_(options_.cancelled),
      cancelled_([this] { return budget_.IsOver(); }),
      run_cancelled_([this] { return abandoning_ || budget_.IsOver(); }),
      session_(*options_.device, *options_.compilers, run_cancelled_),
      rounds_(
          [this](size_t twins) {
            return std::make_unique<DeviceSession>(*options_.device, *options_.compilers, "round",
                                                   twins, cancelled_);
          },
          options_.confirm_policy) {}

absl::StatusOr<std::unique_ptr<SweepEvaluator>> SweepEvaluator::Create(
    Workers& workers, const std::string& device_id, SweepEvaluatorOptions options) {
  ASSIGN_OR_RETURN(options.device, workers.FindDevice(device_id));
  if (options.device->Status().info.target.empty()) {
    RETURN_IF_ERROR(options.device->Open(options.cancelled));
  }
  options.compilers = &workers.compilers();
  options.remembered_max = workers.limits().remembered_results;
  return Create(std::move(options));
}

absl::StatusOr<std::unique_ptr<SweepEvaluator>> SweepEvaluator::Create(
    SweepEvaluatorOptions options) {
  std::unique_ptr<SweepEvaluator> evaluator(new SweepEvaluator(std::move(options)));
  SweepEvaluator& self = *evaluator;
  RETURN_IF_ERROR(self.PlanWork());
  self.WrapExecutors();
  std::function<absl::Status()> prepare;
  if (self.MayPrepareLater()) {
    prepare = [&self] { return self.PrepareDevice(); };
  } else {
    RETURN_IF_ERROR(self.PrepareDevice());
  }
  self.pipeline_.emplace(self.outermost(), std::move(prepare), self.run_cancelled_);
  return evaluator;
}

TrialExecutor& SweepEvaluator::outermost() {
  return alternating_ ? static_cast<TrialExecutor&>(*alternating_) : *remembering_;
}

SweepEvaluator::~SweepEvaluator() {
  budget_.End();
  if (pipeline_) pipeline_->Stop();
  if (opened_.valid()) opened_.wait();
  if (variants_) variants_->Withdraw();
}

absl::Status SweepEvaluator::PlanWork() {
  DeviceSupervisor& device = *options_.device;
  restarts_before_ = device.Status().worker_restarts + options_.compilers->worker_restarts();
  // A known device can start while the reference compiles.
  opened_ = std::async(std::launch::async, [&] { return device.Open(cancelled_); });
  if (device.Status().info.target.empty()) RETURN_IF_ERROR(opened_.get());
  info_ = device.Status().info;
  traits_ = TraitsOf(info_);

  const Language language = options_.kernel->language();
  ASSIGN_OR_RETURN(pool_, options_.compilers->PoolFor(language, info_.target));
  budget_.Limit(options_.budget);
  const absl::StatusOr<CompilerInfo> compiler = pool_->Info(language, cancelled_);
  RETURN_IF_ERROR(budget_.Explain(compiler.status(), BudgetSpent("being compiled")));
  compiler_version_ = compiler->version;
  ASSIGN_OR_RETURN(problem_plan_, options_.kernel->PlanProblem(options_.problem, traits_));
  CompileFirst();
  return absl::OkStatus();
}

void SweepEvaluator::WrapExecutors() {
  const Compilers& compilers = *options_.compilers;
  const bool is_host = ProfileOfTarget(info_.target).is_host;
  // A binary of the largest size for each worker. Alternating, what waits is few, and could not be
  // compiled while the device measures.
  const int64_t bytes_max =
      is_host ? std::numeric_limits<int64_t>::max() : pool_->binary_bytes_max() * pool_->workers();
  variants_.emplace(compilers, session_, options_.policy);
  appraising_.emplace(*variants_, problem_plan_, info_.l2_bytes,
                      [this] { return options_.device->RaiseCeilings(run_cancelled_); });
  bounded_.emplace(*appraising_, bytes_max, [this, &compilers](const ProgramPlan& program) {
    return compilers.Compile(program, cancelled_);
  });
  remembering_.emplace(*bounded_, options_.remembered_max);
  if (is_host) alternating_.emplace(*remembering_, [this] { return session_.Quiet(); });
}

bool SweepEvaluator::MayPrepareLater() const {
  return options_.early && options_.budget == absl::InfiniteDuration() && !alternating_ &&
         !options_.device->Status().ceilings.empty();
}

absl::Status SweepEvaluator::PrepareDevice() {
  absl::StatusOr<std::string> reference =
      options_.compilers->CompileReference(problem_plan_, options_.seed, cancelled_);
  RETURN_IF_ERROR(budget_.Explain(reference.status(), BudgetSpent("being compiled")));
  reference_binary_ = *std::move(reference);
  const absl::Duration left = time_left();
  budget_.Limit(absl::InfiniteDuration());
  if (opened_.valid()) RETURN_IF_ERROR(opened_.get());
  RETURN_IF_ERROR(KnowCeilings());
  budget_.Limit(left);
  RETURN_IF_ERROR(CheckFirst());
  return budget_.Explain(
      options_.device->Prepare(problem_plan_, reference_binary_, options_.seed, cancelled_),
      BudgetSpent("running"));
}

std::string SweepEvaluator::BudgetSpent(const char* doing) const {
  return absl::StrCat("the budget of ", absl::FormatDuration(options_.budget),
                      " was spent before a config was tried: the reference kernel was still ",
                      doing, "; give a longer budget, or a smaller problem");
}

absl::Status SweepEvaluator::KnowCeilings() {
  ASSIGN_OR_RETURN(const CompilePause quiet,
                   options_.compilers->PauseHost(info_.target, cancelled_));
  const absl::StatusOr<std::vector<Ceiling>> ceilings = options_.device->Ceilings(cancelled_);
  if (absl::IsCancelled(ceilings.status())) return ceilings.status();
  // Without ceilings there are no percentages, but there are times.
  if (ceilings.ok()) appraising_->SetCeilings(*ceilings);
  return absl::OkStatus();
}

// While the reference compiles and the device starts. The sweep finds it in the cache.
void SweepEvaluator::CompileFirst() {
  if (!options_.first) return;
  const absl::StatusOr<ProgramPlan> plan =
      options_.kernel->PlanProgram(options_.problem, traits_, *options_.first);
  if (!plan.ok()) return;
  first_.emplace(*options_.compilers);
  first_->Add(*plan, [this](const CompileResult& result) {
    if (result.misfit) first_misfit_ = result.artifact.log;
  });
}

// Leaves a first config that takes long to compile, or does not compile, to its own trial.
absl::Status SweepEvaluator::CheckFirst() {
  if (!first_) return absl::OkStatus();
  const absl::Time until = SteadyNow() + kFirstPatience;
  const absl::Status compiled =
      first_->Await([&] { return SteadyNow() >= until || budget_.IsOver(); });
  if (!compiled.ok() || first_misfit_.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(first_misfit_);
}

size_t SweepEvaluator::capacity() const {
  const size_t compiling = 2 * static_cast<size_t>(pool_->workers());
  return alternating_ ? std::max<size_t>(compiling, 4) : compiling + kReadyAhead;
}

uint64_t SweepEvaluator::worker_restarts() const {
  return options_.device->Status().worker_restarts + options_.compilers->worker_restarts() -
         restarts_before_;
}

AttemptPtr SweepEvaluator::Plan(const Config& config) const {
  auto attempt = std::make_shared<Attempt>();
  attempt->trial.config = config;
  absl::StatusOr<ProgramPlan> plan =
      options_.kernel->PlanProgram(options_.problem, traits_, config);
  if (plan.ok()) {
    attempt->plan = *std::move(plan);
  } else {
    attempt->trial.outcome = Outcome::kInvalidConfig;
    attempt->trial.message = ShortenedMessage(std::string(plan.status().message()));
  }
  return attempt;
}

absl::Status SweepEvaluator::Start(const Config& config) { return pipeline_->Start(Plan(config)); }

absl::StatusOr<std::optional<Trial>> SweepEvaluator::Next(absl::Duration wait) {
  if (alternating_) {
    ASSIGN_OR_RETURN(std::optional<Trial> finished, pipeline_->Next(absl::ZeroDuration()));
    if (finished) return finished;
    // The sweep waits: no more configs come for now.
    if (!run_cancelled_()) alternating_->Release();
  }
  return pipeline_->Next(wait);
}

absl::Status SweepEvaluator::TakeHelp(SweepEvaluator& helper, const Cancelled& leave) {
  const auto measure = [&](Attempt& attempt) -> absl::Status {
    helper.SetRival(rival_latency_ns_);
    RETURN_IF_ERROR(helper.outermost().Measure(attempt));
    MutexLock lock(helped_mutex_);
    helped_[ToText(attempt.trial.config)] = helper.options_.device->id();
    return absl::OkStatus();
  };
  return pipeline_->Help(measure, leave);
}

std::string SweepEvaluator::TakeHelperOf(const Trial& trial) {
  MutexLock lock(helped_mutex_);
  const auto helped = helped_.extract(ToText(trial.config));
  return helped.empty() ? "" : helped.mapped();
}

void SweepEvaluator::ExpectRounds(int rounds, absl::Duration limit) {
  AbandonFlight();
  rounds_.Expect(rounds);
  budget_.Limit(limit);
}

// Attempts in flight are of no more use when a winner is confirmed, and would disturb it.
void SweepEvaluator::AbandonFlight() {
  abandoning_ = true;
  if (!pipeline_->AwaitRest(cancelled_)) return;
  variants_->Withdraw();
  if (alternating_) alternating_->Clear();
  pipeline_->Clear();
  abandoning_ = false;
}

absl::StatusOr<std::vector<Trial>> SweepEvaluator::Remeasure(const std::vector<Config>& configs) {
  AbandonFlight();
  const auto measure = [&]() -> absl::StatusOr<std::vector<Trial>> {
    ASSIGN_OR_RETURN(const std::vector<AttemptPtr> attempts, CompileFinalists(configs));
    return rounds_.Run(problem_plan_, reference_binary_, options_.seed, attempts);
  };
  absl::StatusOr<std::vector<Trial>> trials = measure();
  if (trials.ok()) return trials;
  return budget_.Explain(trials.status(),
                         "there was no time left to measure the best configs again");
}

absl::StatusOr<std::vector<AttemptPtr>> SweepEvaluator::CompileFinalists(
    const std::vector<Config>& configs) {
  std::vector<AttemptPtr> attempts;
  CompileSet set(*options_.compilers);
  for (const Config& config : configs) {
    AttemptPtr& attempt = finalists_[ToText(config)];
    if (attempt == nullptr) {
      attempt = Plan(config);
      if (attempt->trial.outcome == Outcome::kOk) {
        set.Add(attempt->plan, [attempt](CompileResult result) {
          TakeCompiled(std::move(result), *attempt);
          attempt->plan.compile = {};  // the text is of no more use
        });
      }
    }
    attempts.push_back(attempt);
  }
  const absl::Status compiled = set.Await(cancelled_);
  if (compiled.ok()) return attempts;
  finalists_.clear();
  if (!absl::IsCancelled(compiled)) return compiled;
  return absl::CancelledError("cancelled while confirming the winner");
}

std::optional<Program> SweepEvaluator::MeasuredProgram(const Config& config) const {
  const auto found = finalists_.find(ToText(config));
  if (found == finalists_.end() || found->second->binary.empty()) return std::nullopt;
  return WithBinary(found->second->plan, found->second->binary);
}

}  // namespace tune::server
