// SPDX-License-Identifier: Apache-2.0
#include "server/supervision/worker_evaluator.h"

#include <algorithm>
#include <chrono>
#include <future>
#include <limits>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/contained.h"
#include "base/status_macros.h"
#include "base/steady_time.h"
#include "server/supervision/machine_code.h"
#include "tuner/device_profile.h"
#include "tuner/statistics/median.h"

namespace tune::server {
namespace {

constexpr std::chrono::milliseconds kPatience(20);
// Compiled variants kept ahead of the device, so that it never waits for a compiler.
constexpr size_t kReadyAhead = 32;
constexpr absl::Duration kFirstPatience = absl::Seconds(10);

std::string Shortened(std::string message) {
  constexpr char kCut[] = "\n... (cut)";
  if (message.size() <= kMaxTrialMessageBytes) return message;
  message.resize(kMaxTrialMessageBytes - sizeof(kCut));
  return message + kCut;
}

// Variants with equal keys are the same work: macros that the source did not use, for example.
std::string WorkKey(const ProgramPlan& plan, const Resources& resources) {
  return absl::StrCat(resources.binary_sha256, " ", StepsKey(plan.steps));
}

// The driver's word counts for more than the compiler's, where it has one.
void MergeResources(const Resources& device, Resources& resources) {
  if (device.registers > 0) resources.registers = device.registers;
  if (device.spill_bytes > 0) resources.spill_bytes = device.spill_bytes;
  if (device.stack_bytes > 0) resources.stack_bytes = device.stack_bytes;
  if (device.static_shared_bytes > 0) resources.static_shared_bytes = device.static_shared_bytes;
}

void Stamp(Trial& trial) { trial.finished_unix_ms = absl::ToUnixMillis(absl::Now()); }

}  // namespace

TargetTraits TraitsOf(const DeviceInfo& info) {
  TargetTraits traits = TargetTraitsFor(info.target).value_or(TargetTraits{});
  traits.target = info.target;
  if (info.max_shared_bytes > 0) traits.max_shared_bytes = info.max_shared_bytes;
  if (info.sm_count > 0) traits.sm_count = info.sm_count;
  return traits;
}

WorkerEvaluator::WorkerEvaluator(WorkerEvaluatorOptions options)
    : options_(std::move(options)),
      cancelled_([this] { return Stopped(); }),
      run_cancelled_([this] { return abandoning_ || Stopped(); }),
      measured_(options_.remembered_max) {
  Limit(absl::InfiniteDuration());
}

absl::StatusOr<std::unique_ptr<WorkerEvaluator>> WorkerEvaluator::Create(
    WorkerEvaluatorOptions options) {
  std::unique_ptr<WorkerEvaluator> evaluator(new WorkerEvaluator(std::move(options)));
  RETURN_IF_ERROR(evaluator->PlanWork());
  if (!evaluator->MayPrepareLater()) {
    RETURN_IF_ERROR(evaluator->PrepareDevice());
    Lock lock(evaluator->mutex_);
    evaluator->prepared_ = true;
  }
  evaluator->device_thread_ = std::thread([self = evaluator.get()] { self->DeviceLoop(); });
  return evaluator;
}

WorkerEvaluator::~WorkerEvaluator() {
  {
    Lock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (device_thread_.joinable()) device_thread_.join();
  if (opened_.valid()) opened_.wait();
  options_.compilers->Withdraw(this);
}

bool WorkerEvaluator::Stopped() const {
  return stopping_ || IsOutOfTime() || (options_.cancelled && options_.cancelled());
}

void WorkerEvaluator::Limit(absl::Duration time) {
  deadline_ns_ = absl::ToUnixNanos(Now() + time);  // of no end: the largest there is
}

absl::Duration WorkerEvaluator::time_left() const {
  const int64_t deadline_ns = deadline_ns_;
  if (deadline_ns == std::numeric_limits<int64_t>::max()) return absl::InfiniteDuration();
  return absl::FromUnixNanos(deadline_ns) - Now();
}

absl::Status WorkerEvaluator::Explained(const absl::Status& status, const std::string& what) const {
  if (!absl::IsCancelled(status) || !IsOutOfTime()) return status;
  if (options_.cancelled && options_.cancelled()) return status;
  return absl::DeadlineExceededError(what);
}

absl::Status WorkerEvaluator::PlanWork() {
  DeviceSupervisor& device = *options_.device;
  restarts_before_ = device.Status().worker_restarts + options_.compilers->worker_restarts();
  // A known device can start while the reference compiles.
  opened_ = std::async(std::launch::async, [&] { return device.Open(cancelled_); });
  if (device.Status().info.target.empty()) RETURN_IF_ERROR(opened_.get());
  info_ = device.Status().info;
  traits_ = TraitsOf(info_);
  alternate_ = ProfileOfTarget(info_.target).is_host;

  const Language language = options_.kernel->language();
  ASSIGN_OR_RETURN(pool_, options_.compilers->PoolFor(language, info_.target));
  Limit(options_.budget);
  const absl::StatusOr<CompilerInfo> compiler = pool_->Info(language, cancelled_);
  RETURN_IF_ERROR(Explained(compiler.status(), BudgetSpent("being compiled")));
  compiler_version_ = compiler->version;
  ASSIGN_OR_RETURN(problem_plan_, options_.kernel->PlanProblem(options_.problem, traits_));
  CompileFirst();
  return absl::OkStatus();
}

bool WorkerEvaluator::MayPrepareLater() const {
  return options_.early && options_.budget == absl::InfiniteDuration() && !alternate_ &&
         !options_.device->Status().ceilings.empty();
}

absl::Status WorkerEvaluator::PrepareDevice() {
  DeviceSupervisor& device = *options_.device;
  RETURN_IF_ERROR(Explained(CompileReference(), BudgetSpent("being compiled")));
  const absl::Duration left = time_left();
  Limit(absl::InfiniteDuration());
  if (opened_.valid()) RETURN_IF_ERROR(opened_.get());
  RETURN_IF_ERROR(KnowCeilings());
  Limit(left);
  RETURN_IF_ERROR(CheckFirst());
  return Explained(device.Prepare(problem_plan_, reference_binary_, options_.seed, cancelled_),
                   BudgetSpent("running"));
}

std::string WorkerEvaluator::BudgetSpent(const char* doing) const {
  return absl::StrCat("the budget of ", absl::FormatDuration(options_.budget),
                      " was spent before a config was tried: the reference kernel was still ",
                      doing, "; give a longer budget, or a smaller problem");
}

absl::Status WorkerEvaluator::CompileReference() {
  ASSIGN_OR_RETURN(reference_binary_,
                   options_.compilers->CompileReference(problem_plan_, options_.seed, cancelled_));
  return absl::OkStatus();
}

absl::Status WorkerEvaluator::KnowCeilings() {
  ASSIGN_OR_RETURN(const CompilePause quiet, PauseCompilers(cancelled_));
  absl::StatusOr<std::vector<Ceiling>> ceilings = options_.device->Ceilings(cancelled_);
  if (absl::IsCancelled(ceilings.status())) return ceilings.status();
  // Without ceilings there are no percentages, but there are times.
  if (ceilings.ok()) SetRoof(*ceilings);
  return absl::OkStatus();
}

// While the reference compiles and the device starts. The sweep finds it in the cache.
void WorkerEvaluator::CompileFirst() {
  if (!options_.first) return;
  absl::StatusOr<ProgramPlan> plan =
      options_.kernel->PlanProgram(options_.problem, traits_, *options_.first);
  if (!plan.ok()) return;
  first_ = std::make_shared<Item>();
  first_->plan = *std::move(plan);
  options_.compilers->Submit(this, first_->plan,
                             [this, item = first_](absl::StatusOr<CompileResult> result) {
                               Lock lock(mutex_);
                               item->compiled = std::move(result);
                               changed_.notify_all();
                             });
}

// Leaves a first config that takes long to compile, or does not compile, to its own trial.
absl::Status WorkerEvaluator::CheckFirst() {
  if (first_ == nullptr) return absl::OkStatus();
  const ItemPtr first = std::move(first_);
  const absl::Time until = SteadyNow() + kFirstPatience;
  Lock lock(mutex_);
  while (!first->compiled && SteadyNow() < until && !Stopped()) changed_.wait_for(lock, kPatience);
  if (!first->compiled || !first->compiled->ok()) return absl::OkStatus();
  const CompileResult& result = **first->compiled;
  return result.misfit ? absl::InvalidArgumentError(result.artifact.log) : absl::OkStatus();
}

void WorkerEvaluator::SetRoof(const std::vector<Ceiling>& ceilings) {
  const double written = WrittenBytes(problem_plan_);
  const double cached = std::min(written, static_cast<double>(info_.l2_bytes));
  Lock lock(mutex_);
  roof_ = RoofFor(problem_plan_.work, ceilings, cached, written);
}

Roof WorkerEvaluator::roof() const {
  Lock lock(mutex_);
  return roof_;
}

// Handles a trial above the roof: either the kernel does too little, or the ceilings were measured
// on a busy host. Measures them again, once a sweep. True if the roof was too low.
bool WorkerEvaluator::RaiseRoof() {
  if (std::exchange(roof_doubted_, true)) return false;
  const double before_ns = roof().believable_ns;
  absl::StatusOr<std::vector<Ceiling>> ceilings = options_.device->RaiseCeilings(run_cancelled_);
  if (!ceilings.ok()) return false;
  SetRoof(*ceilings);
  return roof().believable_ns < before_ns;
}

size_t WorkerEvaluator::capacity() const {
  const size_t compiling = 2 * static_cast<size_t>(pool_->workers());
  return alternate_ ? std::max<size_t>(compiling, 4) : compiling + kReadyAhead;
}

uint64_t WorkerEvaluator::worker_restarts() const {
  return options_.device->Status().worker_restarts + options_.compilers->worker_restarts() -
         restarts_before_;
}

std::string WorkerEvaluator::WhatWasCutShort() const {
  Lock lock(mutex_);
  if (running_.config.empty()) return "";
  const absl::Duration time = running_.end.value_or(SteadyNow()) - running_.start;
  return absl::StrFormat("%s was still running after %.3g s", running_.config,
                         absl::ToDoubleSeconds(time));
}

WorkerEvaluator::ItemPtr WorkerEvaluator::Plan(const Config& config) const {
  auto item = std::make_shared<Item>();
  item->trial.config = config;
  absl::StatusOr<ProgramPlan> plan =
      options_.kernel->PlanProgram(options_.problem, traits_, config);
  if (plan.ok()) {
    item->plan = *std::move(plan);
  } else {
    item->trial.outcome = Outcome::kInvalidConfig;
    item->trial.message = Shortened(std::string(plan.status().message()));
    Stamp(item->trial);
  }
  return item;
}

absl::Status WorkerEvaluator::Start(const Config& config) {
  const ItemPtr item = Plan(config);
  item->number = started_++;
  {
    Lock lock(mutex_);
    if (!failure_.ok()) return failure_;
    if (item->trial.outcome != Outcome::kOk) {
      finished_.push_back(item->trial);
      return absl::OkStatus();
    }
    if (alternate_) {
      waiting_.push_back(item);
      return absl::OkStatus();
    }
    ++compiling_;
  }
  SubmitCompile(item);
  return absl::OkStatus();
}

absl::StatusOr<std::optional<Trial>> WorkerEvaluator::Next(absl::Duration wait) {
  Lock lock(mutex_);
  wanted_ = true;
  changed_.notify_all();
  changed_.wait_for(lock, absl::ToChronoMilliseconds(std::min(wait, absl::Hours(1))),
                    [&] { return (prepared_ && !finished_.empty()) || !failure_.ok(); });
  wanted_ = false;
  // Before the device is prepared, a failure may be that of one variant or of all.
  if (prepared_ && !finished_.empty()) {
    std::optional<Trial> trial = std::move(finished_.front());
    finished_.pop_front();
    return trial;
  }
  if (!failure_.ok()) return failure_;
  return std::nullopt;
}

void WorkerEvaluator::SubmitCompile(const ItemPtr& item) {
  options_.compilers->Submit(this, item->plan, [this, item](absl::StatusOr<CompileResult> result) {
    const absl::Status taken = Contained([&] { OnCompiled(item, std::move(result)); });
    if (taken.ok()) return;
    Lock lock(mutex_);
    failure_ = taken;
    changed_.notify_all();
  });
}

void WorkerEvaluator::OnCompiled(const ItemPtr& item, absl::StatusOr<CompileResult> result) {
  Lock lock(mutex_);
  --compiling_;
  changed_.notify_all();
  if (!result.ok()) {
    if (!absl::IsCancelled(result.status())) failure_ = result.status();
    return;
  }
  if (result->cached) ++compile_cache_hits_;
  item->plan.steps = std::move(result->steps);
  item->plan.symbols = std::move(result->symbols);
  Artifact& artifact = result->artifact;
  item->trial.compile_seconds = artifact.seconds;
  item->trial.compile_cached = result->cached;
  item->trial.resources = std::move(artifact.resources);
  item->trial.resources.dynamic_shared_bytes = DynamicSharedBytes(item->plan.steps);
  item->trial.outcome = artifact.outcome;
  item->trial.may_pass = result->may_pass;
  item->binary = std::move(artifact.binary);
  if (artifact.outcome != Outcome::kOk) {
    item->trial.message = Shortened(std::move(artifact.log));
    Stamp(item->trial);
  }
  if (artifact.outcome == Outcome::kOk && !confirming_) return AddReady(item);
  item->plan.compile = {};  // the text is of no more use
  if (!confirming_) finished_.push_back(item->trial);
}

// Alternating, what waits is few, and could not be compiled while the device measures.
void WorkerEvaluator::AddReady(const ItemPtr& item) {
  const int64_t bytes = static_cast<int64_t>(item->binary.size());
  const int64_t bytes_max = options_.ready_bytes_max > 0
                                ? options_.ready_bytes_max
                                : pool_->binary_bytes_max() * pool_->workers();
  if (alternate_ || ready_bytes_ + bytes <= bytes_max) {
    ready_bytes_ += bytes;
    item->plan.compile = {};  // the text is of no more use
  } else {
    item->binary = {};
  }
  ready_.push_back(item);
}

WorkerEvaluator::ItemPtr WorkerEvaluator::TakeReady() {
  ItemPtr item = std::move(ready_.front());
  ready_.pop_front();
  ready_bytes_ -= static_cast<int64_t>(item->binary.size());
  return item;
}

bool WorkerEvaluator::AwaitCompiles(Lock& lock) {
  while (!changed_.wait_for(lock, kPatience, [&] { return compiling_ == 0; })) {
    if (!MayGoOn()) return false;
  }
  return MayGoOn();
}

bool WorkerEvaluator::MayGoOn() const { return failure_.ok() && !abandoning_ && !Stopped(); }

void WorkerEvaluator::DeviceLoop() {
  Lock lock(mutex_);
  if (!prepared_) {
    lock.unlock();
    const absl::Status prepared = Contained([this] { return PrepareDevice(); });
    lock.lock();
    prepared_ = prepared.ok();
    if (!prepared.ok() && !absl::IsCancelled(prepared)) failure_ = prepared;
    changed_.notify_all();
  }
  while (true) {
    changed_.wait(lock, [&] { return stopping_ || (MayGoOn() && HasWork()); });
    if (stopping_) return;
    if (alternate_) {
      MeasureBatch(lock);
    } else {
      MeasureNext(lock);
    }
  }
}

absl::Status WorkerEvaluator::AwaitPrepared() {
  Lock lock(mutex_);
  const auto known = [&] { return prepared_ || !failure_.ok(); };
  while (!changed_.wait_for(lock, kPatience, known)) {
    if (Stopped()) return absl::CancelledError("cancelled while the device was prepared");
  }
  return prepared_ ? absl::OkStatus() : failure_;
}

// Alternating, a batch starts once the sweep has given all it has for now.
bool WorkerEvaluator::HasWork() const {
  return alternate_ ? wanted_ && !waiting_.empty() : !ready_.empty();
}

void WorkerEvaluator::MeasureBatch(Lock& lock) {
  const std::deque<ItemPtr> batch = std::exchange(waiting_, {});
  compiling_ += batch.size();
  measuring_ = true;
  lock.unlock();
  for (const ItemPtr& item : batch) SubmitCompile(item);
  lock.lock();
  if (AwaitCompiles(lock) && !ready_.empty()) {
    lock.unlock();
    absl::StatusOr<CompilePause> quiet = PauseCompilers(run_cancelled_);
    lock.lock();
    // Runs them in the order of Start, the default first: one that hangs may be the last of the
    // budget.
    std::sort(ready_.begin(), ready_.end(),
              [](const ItemPtr& a, const ItemPtr& b) { return a->number < b->number; });
    while (quiet.ok() && !ready_.empty() && MayGoOn()) MeasureNext(lock);
  }
  measuring_ = false;
  changed_.notify_all();
}

void WorkerEvaluator::MeasureNext(Lock& lock) {
  const ItemPtr item = TakeReady();
  const bool was_measuring = std::exchange(measuring_, true);
  lock.unlock();
  const absl::Status measured = Contained([&] { return Measure(*item); });
  lock.lock();
  measuring_ = was_measuring;
  if (measured.ok()) {
    finished_.push_back(std::move(item->trial));
  } else if (!absl::IsCancelled(measured)) {
    failure_ = measured;
  }
  changed_.notify_all();
}

absl::Status WorkerEvaluator::Measure(Item& item) {
  const std::string work = WorkKey(item.plan, item.trial.resources);
  if (const Trial* known = measured_.Find(work); known != nullptr) {
    const Trial& twin = *known;
    item.trial.outcome = twin.outcome;
    item.trial.message = Shortened(absl::StrCat("same machine code and launch as ",
                                                ToText(twin.config), ", whose result this is",
                                                twin.message.empty() ? "" : ": ", twin.message));
    item.trial.measurement = twin.measurement;
    item.trial.resources = twin.resources;
    item.trial.telemetry = twin.telemetry;
    item.trial.error = twin.error;
    Stamp(item.trial);
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(FetchBinary(item));
  RunRequest request = {.program = WithBinary(item.plan, std::move(item.binary)),
                        .policy = options_.policy};
  request.policy.rival_latency_ns = rival_latency_ns_;
  const absl::Time start = SteadyNow();
  {
    Lock lock(mutex_);
    running_ = {.config = ToText(item.trial.config), .start = start};
  }
  absl::StatusOr<RunReport> ran = options_.device->Run(request, run_cancelled_);
  {
    Lock lock(mutex_);
    running_.end = SteadyNow();
    if (ran.ok()) running_ = {};
  }
  ASSIGN_OR_RETURN(RunReport report, std::move(ran));
  item.trial.evaluate_seconds = absl::ToDoubleSeconds(SteadyNow() - start);
  Judge(report, item);
  Appraise(item.trial);
  if (item.trial.outcome == Outcome::kAboveRoof && RaiseRoof()) {
    Judge(report, item);
    Appraise(item.trial);
  }
  if (!item.trial.resources.binary_sha256.empty()) measured_.Keep(work, item.trial);
  return absl::OkStatus();
}

absl::Status WorkerEvaluator::FetchBinary(Item& item) {
  if (!item.binary.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(CompileResult again, options_.compilers->Compile(item.plan, cancelled_));
  if (again.artifact.outcome != Outcome::kOk) {
    return absl::UnavailableError(absl::StrCat("a variant that compiled does not compile again: ",
                                               Shortened(std::move(again.artifact.log))));
  }
  item.plan.compile = {};
  item.binary = std::move(again.artifact.binary);
  return absl::OkStatus();
}

void WorkerEvaluator::Judge(const RunReport& report, Item& item) const {
  Trial& trial = item.trial;
  trial.outcome = report.outcome;
  trial.message = Shortened(report.message);
  trial.telemetry = report.telemetry;
  trial.error = report.error;
  MergeResources(report.resources, trial.resources);
  Stamp(trial);
  if (report.outcome != Outcome::kOk) return;
  trial.measurement = Summarise(report.samples_ns);
  trial.measurement.clock = report.clock;
  trial.measurement.cache_mode = options_.policy.cache_mode;
  trial.measurement.stopped_early = report.stopped_early;
}

void WorkerEvaluator::Appraise(Trial& trial) const {
  if (trial.outcome != Outcome::kOk) return;
  const Roof roof = this->roof();
  if (!ApplyRoofline(problem_plan_.work, roof, trial.measurement)) return;
  trial.outcome = Outcome::kAboveRoof;
  trial.message = absl::StrFormat(
      "median %.0f ns, but the device's measured %s ceiling allows no less than %.0f ns: the "
      "kernel does less than its declared work",
      trial.measurement.latency_ns_median, ToText(roof.bound), roof.believable_ns);
}

// Configs in flight are of no more use when a winner is confirmed, and would disturb it.
void WorkerEvaluator::AbandonFlight() {
  Lock lock(mutex_);
  abandoning_ = true;
  const auto at_rest = [&] { return (prepared_ || !failure_.ok()) && !measuring_; };
  while (!changed_.wait_for(lock, kPatience, at_rest)) {
    if (stopping_ || (!prepared_ && Stopped())) return;
  }
  lock.unlock();
  options_.compilers->Withdraw(this);
  lock.lock();
  waiting_.clear();
  ready_.clear();
  ready_bytes_ = 0;
  finished_.clear();
  compiling_ = 0;
  abandoning_ = false;
}

absl::StatusOr<CompilePause> WorkerEvaluator::PauseCompilers(const Cancelled& cancelled) const {
  return options_.compilers->PauseHost(info_.target, cancelled);
}

}  // namespace tune::server
