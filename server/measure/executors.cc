// SPDX-License-Identifier: Apache-2.0
#include "server/measure/executors.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "base/contained.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "base/steady_time.h"
#include "server/supervision/machine_code.h"
#include "tuner/device/program_checks.h"
#include "tuner/statistics/median.h"

namespace tune::server {
namespace {

// The driver's word counts for more than the compiler's, where it has one.
void MergeResources(const Resources& device, Resources& resources) {
  if (device.registers > 0) resources.registers = device.registers;
  if (device.spill_bytes > 0) resources.spill_bytes = device.spill_bytes;
  if (device.stack_bytes > 0) resources.stack_bytes = device.stack_bytes;
  if (device.static_shared_bytes > 0) resources.static_shared_bytes = device.static_shared_bytes;
}

}  // namespace

std::string ShortenedMessage(std::string message) {
  constexpr char kCut[] = "\n... (cut)";
  if (message.size() <= kMaxTrialMessageBytes) return message;
  message.resize(kMaxTrialMessageBytes - sizeof(kCut));
  return message + kCut;
}

void TakeCompiled(CompileResult result, Attempt& attempt) {
  attempt.plan.steps = std::move(result.steps);
  attempt.plan.symbols = std::move(result.symbols);
  Artifact& artifact = result.artifact;
  Trial& trial = attempt.trial;
  trial.compile_seconds = artifact.seconds;
  trial.compile_cached = result.cached;
  trial.resources = std::move(artifact.resources);
  trial.resources.dynamic_shared_bytes = DynamicSharedBytes(attempt.plan.steps);
  trial.outcome = artifact.outcome;
  trial.may_pass = result.may_pass;
  if (trial.outcome != Outcome::kOk) trial.message = ShortenedMessage(std::move(artifact.log));
  attempt.binary = std::move(artifact.binary);
}

absl::Status MeasureTrial(Session& session, size_t twin, const RunRequest& request, Trial& trial) {
  const absl::Time start = SteadyNow();
  ASSIGN_OR_RETURN(const Leg leg, session.Measure(twin, request));
  const RunReport& report = leg.report;
  trial.evaluate_seconds = absl::ToDoubleSeconds(SteadyNow() - start);
  trial.finished_unix_ms = absl::ToUnixMillis(absl::Now());
  trial.outcome = report.outcome;
  trial.message = ShortenedMessage(report.message);
  trial.telemetry = report.telemetry;
  trial.error = report.error;
  MergeResources(report.resources, trial.resources);
  if (report.outcome != Outcome::kOk) return absl::OkStatus();
  trial.measurement = Summarise(report.samples_ns);
  trial.measurement.clock = report.clock;
  trial.measurement.cache_mode = request.policy.cache_mode;
  trial.measurement.stopped_early = report.stopped_early;
  return absl::OkStatus();
}

void VariantExecutor::Compile(const AttemptPtr& attempt, Done done) {
  compilers_.Submit(this, attempt->plan,
                    [this, attempt, done = std::move(done)](absl::StatusOr<CompileResult> result) {
                      done(Contained([&]() -> absl::Status {
                        RETURN_IF_ERROR(result.status());
                        if (result->cached) ++cache_hits_;
                        TakeCompiled(*std::move(result), *attempt);
                        return absl::OkStatus();
                      }));
                    });
}

absl::Status VariantExecutor::Measure(Attempt& attempt) {
  RunRequest request = {.program = WithBinary(attempt.plan, std::move(attempt.binary)),
                        .policy = policy_};
  request.policy.rival_latency_ns = rival_latency_ns_;
  return MeasureTrial(session_, 0, request, attempt.trial);
}

absl::Status AppraisingExecutor::Measure(Attempt& attempt) {
  RETURN_IF_ERROR(inner_.Measure(attempt));
  Trial& trial = attempt.trial;
  const std::string message = trial.message;
  Appraise(trial);
  if (trial.outcome != Outcome::kAboveRoof || !RaiseRoof()) return absl::OkStatus();
  trial.outcome = Outcome::kOk;
  trial.message = message;
  Appraise(trial);
  return absl::OkStatus();
}

// True if the roof was too low.
bool AppraisingExecutor::RaiseRoof() {
  if (std::exchange(has_raised_, true)) return false;
  const double before_ns = roof().believable_ns;
  const absl::StatusOr<std::vector<Ceiling>> ceilings = raise_();
  if (!ceilings.ok()) return false;
  SetCeilings(*ceilings);
  return roof().believable_ns < before_ns;
}

void AppraisingExecutor::Appraise(Trial& trial) const {
  if (trial.outcome != Outcome::kOk) return;
  const Roof roof = this->roof();
  if (!ApplyRoofline(problem_.work, roof, trial.measurement)) return;
  trial.outcome = Outcome::kAboveRoof;
  trial.message = absl::StrFormat(
      "median %.0f ns, but the device's measured %s ceiling allows no less than %.0f ns: the "
      "kernel does less than its declared work",
      trial.measurement.latency_ns_median, ToText(roof.bound), roof.believable_ns);
}

void AppraisingExecutor::SetCeilings(const std::vector<Ceiling>& ceilings) {
  MutexLock lock(mutex_);
  roof_ = RoofFor(problem_, ceilings, l2_bytes_);
}

Roof AppraisingExecutor::roof() const {
  MutexLock lock(mutex_);
  return roof_;
}

void BoundedExecutor::Compile(const AttemptPtr& attempt, Done done) {
  inner_.Compile(attempt, [this, attempt, done = std::move(done)](const absl::Status& status) {
    if (status.ok() && attempt->trial.outcome == Outcome::kOk) Hold(*attempt);
    done(status);
  });
}

void BoundedExecutor::Hold(Attempt& attempt) {
  const int64_t bytes = static_cast<int64_t>(attempt.binary.size());
  if (bytes_->fetch_add(bytes) + bytes > bytes_max_) {
    *bytes_ -= bytes;
    attempt.binary = {};
    return;
  }
  attempt.plan.compile = {};  // the text is of no more use
  attempt.space = std::shared_ptr<void>(nullptr, [all = bytes_, bytes](void*) { *all -= bytes; });
}

absl::Status BoundedExecutor::Measure(Attempt& attempt) {
  attempt.space.reset();
  if (attempt.binary.empty()) {
    ASSIGN_OR_RETURN(CompileResult again, fetch_(attempt.plan));
    if (again.artifact.outcome != Outcome::kOk) {
      return absl::UnavailableError(absl::StrCat("a variant that compiled does not compile again: ",
                                                 ShortenedMessage(std::move(again.artifact.log))));
    }
    attempt.plan.compile = {};
    attempt.binary = std::move(again.artifact.binary);
  }
  return inner_.Measure(attempt);
}

// Variants with equal keys are the same work: macros that the source did not use, for example.
absl::Status RememberingExecutor::Measure(Attempt& attempt) {
  Trial& trial = attempt.trial;
  const std::string work =
      Sha256(absl::StrCat(trial.resources.binary_sha256, " ", StepsKey(attempt.plan.steps)));
  const auto found = known_.find(work);
  if (found == known_.end()) {
    RETURN_IF_ERROR(inner_.Measure(attempt));
    if (!trial.resources.binary_sha256.empty()) Remember(work, trial);
    return absl::OkStatus();
  }
  const Trial& twin = found->second;
  trial.outcome = twin.outcome;
  trial.message = ShortenedMessage(absl::StrCat("same machine code and launch as ",
                                                ToText(twin.config), ", whose result this is",
                                                twin.message.empty() ? "" : ": ", twin.message));
  trial.measurement = twin.measurement;
  trial.resources = twin.resources;
  trial.telemetry = twin.telemetry;
  trial.error = twin.error;
  return absl::OkStatus();
}

void RememberingExecutor::Remember(const std::string& work, Trial trial) {
  trial.measurement.samples_ns = {};
  known_.emplace(work, std::move(trial));
  oldest_first_.push_back(work);
  if (oldest_first_.size() <= count_max_) return;
  known_.erase(oldest_first_.front());
  oldest_first_.pop_front();
}

void AlternatingExecutor::Compile(const AttemptPtr& attempt, Done done) {
  MutexLock lock(mutex_);
  waiting_.push_back({attempt, std::move(done)});
}

void AlternatingExecutor::Release() {
  std::vector<Waiting> batch;
  {
    MutexLock lock(mutex_);
    if (unfinished_ > 0) return;
    batch = std::exchange(waiting_, {});
    compiling_ = unfinished_ = batch.size();
    compiled_.resize(batch.size());
  }
  for (size_t place = 0; place < batch.size(); ++place) {
    inner_.Compile(batch[place].attempt,
                   [this, place, one = batch[place]](const absl::Status& status) {
                     OnCompiled(place, one, status);
                   });
  }
}

void AlternatingExecutor::OnCompiled(size_t place, const Waiting& one, const absl::Status& status) {
  const bool runs = status.ok() && one.attempt->trial.outcome == Outcome::kOk;
  std::vector<Done> compiled;
  {
    MutexLock lock(mutex_);
    if (runs) {
      compiled_[place] = one.done;
    } else {
      --unfinished_;
    }
    if (--compiling_ == 0) compiled.swap(compiled_);
  }
  if (!runs) one.done(status);
  for (const Done& done : compiled) {
    if (done) done(absl::OkStatus());
  }
}

absl::Status AlternatingExecutor::Measure(Attempt& attempt) {
  if (!pause_) {
    ASSIGN_OR_RETURN(pause_, quiet_());
  }
  const absl::Status measured = inner_.Measure(attempt);
  MutexLock lock(mutex_);
  if (--unfinished_ == 0) pause_.reset();
  return measured;
}

void AlternatingExecutor::Clear() {
  MutexLock lock(mutex_);
  waiting_.clear();
  compiled_.clear();
  compiling_ = unfinished_ = 0;
  pause_.reset();
}

}  // namespace tune::server
