// SPDX-License-Identifier: Apache-2.0
#include "tuner/device/cpu/cpu_runner.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "tuner/device/cpu/cpu_problem_device.h"
#include "tuner/device/cpu/device_canary.h"
#include "tuner/device/cpu/fault_report.h"
#include "tuner/device/cpu/host_ceiling_suite.h"
#include "tuner/device/cpu/host_ceilings.h"
#include "tuner/device/cpu/host_info.h"
#include "tuner/device/cpu/launcher.h"
#include "tuner/device/cpu/loaded_program.h"
#include "tuner/device/prepared_problem.h"
#include "tuner/statistics/stopping_rule.h"

namespace tune::cpu {
namespace {

// From here on what the cache holds at the start is lost in the rest: a launch needs no flush, and
// the one that was checked is as good a sample as any.
constexpr double kLongLaunchNs = 50e6;
// Shorter ones may be slow for other reasons the first time, and two more cost little.
constexpr double kCondemnNsMin = 10e6;
// The time limit of the extra launch that checks whether the order of threads matters.
constexpr double kOrderedNsMax = 1e9;
// Poison and flushing take longer than a short kernel. A trial may take this much in all for each
// second of kernel time it may have, and gets this many samples even so.
constexpr double kWallPerKernelTime = 10;
constexpr size_t kSamplesAtLeast = 5;

// A GPU faults where an assertion fails, so it is a fault here, too.
Outcome OutcomeOf(const absl::Status& status) {
  if (absl::IsInvalidArgument(status)) return Outcome::kInvalidConfig;
  return absl::IsAborted(status) ? Outcome::kFaulted : Outcome::kLaunchFailed;
}

class CpuRunner : public Runner {
 public:
  CpuRunner(HostInfo info, std::unique_ptr<Launcher> launcher)
      : info_(std::move(info)),
        launcher_(std::move(launcher)),
        device_(MakeProblemDevice(*launcher_, info_.device.memory_bytes / 2)) {}

  const DeviceInfo& info() const override { return info_.device; }
  absl::StatusOr<std::vector<Ceiling>> MeasureCeilings() override {
    return MeasureHostCeilings(*launcher_, info_.cache_bytes_all);
  }
  // A host has no power limit that a second of load would not show: nothing is sustained apart.
  absl::StatusOr<std::vector<Ceiling>> MeasureCeilingSuite(double) override {
    return MeasureHostCeilingSuite(*launcher_, info_.cache_bytes_all);
  }
  absl::Status Canary() override { return RunDeviceCanary(*launcher_); }
  absl::Status Prepare(const ProblemPlan& plan, const std::string& reference_binary,
                       uint64_t seed) override;
  absl::StatusOr<RunReport> Run(const RunRequest& request) override;
  absl::StatusOr<RunReport> Judge(const std::vector<BufferFile>& outputs) override;

 private:
  absl::Status RunVariant(const RunRequest& request, RunReport& report);
  // Launches on poisoned outputs and checks what that gives; returns the nanoseconds.
  absl::StatusOr<double> CheckedLaunch(const LoadedProgram& program, RunReport& report);
  absl::Status JudgeLaunch(const LoadedProgram& program, RunReport& report);
  static void Take(Verdict verdict, RunReport& report);
  // The report of what ended with `status`; an error if another process may do better.
  absl::StatusOr<RunReport> Finish(const absl::Status& status, RunReport& report);
  // Whether what the last launch left depends on the order of threads, in which case that is wrong.
  absl::Status CheckOrder(const LoadedProgram& program, RunReport& report);
  absl::Status Sample(const LoadedProgram& program, const SamplePolicy& policy, double first_ns,
                      RunReport& report);

  const HostInfo info_;
  const std::unique_ptr<Launcher> launcher_;
  const std::unique_ptr<ProblemDevice> device_;
  std::unique_ptr<PreparedProblem> problem_;
};

absl::Status CpuRunner::Prepare(const ProblemPlan& plan, const std::string& reference_binary,
                                uint64_t seed) {
  problem_.reset();  // its memory first: two problems may not fit
  ASSIGN_OR_RETURN(problem_, PreparedProblem::Create(*device_, plan, reference_binary, seed));
  return absl::OkStatus();
}

absl::StatusOr<RunReport> CpuRunner::Run(const RunRequest& request) {
  if (problem_ == nullptr) return absl::FailedPreconditionError("Run before Prepare");
  RunReport report;
  report.clock = Clock::kHost;
  report.resources.dynamic_shared_bytes = DynamicSharedBytes(request.program.steps);
  return Finish(RunVariant(request, report), report);
}

absl::StatusOr<RunReport> CpuRunner::Judge(const std::vector<BufferFile>& outputs) {
  if (problem_ == nullptr) return absl::FailedPreconditionError("Judge before Prepare");
  RunReport report;
  absl::StatusOr<Verdict> verdict = problem_->Judge(outputs);
  if (verdict.ok()) Take(std::move(*verdict), report);
  return Finish(verdict.status(), report);
}

absl::StatusOr<RunReport> CpuRunner::Finish(const absl::Status& status, RunReport& report) {
  if (status.ok()) return std::move(report);
  // A variant before it may have left nothing: this one is tried again in a fresh process.
  if (absl::IsResourceExhausted(status)) return status;
  RETURN_IF_ERROR(problem_->Repair());
  report.outcome = OutcomeOf(status);
  report.message = std::string(status.message());
  report.samples_ns.clear();
  return std::move(report);
}

absl::Status CpuRunner::RunVariant(const RunRequest& request, RunReport& report) {
  for (const StepPlan& step : request.program.steps) {
    RETURN_IF_ERROR(CheckLaunch(step.launch, static_cast<uint64_t>(info_.device.max_shared_bytes)));
  }
  ASSIGN_OR_RETURN(LoadedProgram program,
                   LoadedProgram::Load(request.program, [this](const BufferPlan& wanted) {
                     return problem_->Resolve(wanted);
                   }));
  program.FillGuards(*launcher_);
  const SamplePolicy& policy = request.policy;
  ASSIGN_OR_RETURN(double first_ns, CheckedLaunch(program, report));
  if (first_ns < kOrderedNsMax) RETURN_IF_ERROR(CheckOrder(program, report));
  if (report.outcome != Outcome::kOk) return absl::OkStatus();
  const double hopeless_ns = policy.rival_latency_ns * policy.hopeless_ratio;
  if (hopeless_ns > 0 && first_ns > std::max(hopeless_ns, kCondemnNsMin)) {
    report.samples_ns = {first_ns};
    report.stopped_early = true;
    return absl::OkStatus();
  }
  return Sample(program, policy, first_ns, report);
}

absl::StatusOr<double> CpuRunner::CheckedLaunch(const LoadedProgram& program, RunReport& report) {
  RETURN_IF_ERROR(problem_->RestoreInOuts());
  RETURN_IF_ERROR(problem_->PoisonOutputs());
  ASSIGN_OR_RETURN(const double duration_ns, program.Launch(*launcher_));
  RETURN_IF_ERROR(JudgeLaunch(program, report));
  return duration_ns;
}

absl::Status CpuRunner::JudgeLaunch(const LoadedProgram& program, RunReport& report) {
  // Runs before the checker, which has the same dynamic shared memory. Overwritten memory may be
  // the reason why an element is wrong.
  std::string damage = program.DescribeDamage(*launcher_);
  ASSIGN_OR_RETURN(Verdict verdict, problem_->Check());
  program.FillGuards(*launcher_);
  if (!damage.empty()) {
    verdict.right = false;
    verdict.message = std::move(damage);
  }
  Take(std::move(verdict), report);
  return absl::OkStatus();
}

void CpuRunner::Take(Verdict verdict, RunReport& report) {
  report.error = std::move(verdict.error);
  if (verdict.right) return;
  report.outcome = Outcome::kWrongResult;
  report.message = std::move(verdict.message);
}

// A GPU starts threads in any order. Right results must not depend on it, and wrong ones that do
// have a cause that their elements do not show.
absl::Status CpuRunner::CheckOrder(const LoadedProgram& program, RunReport& report) {
  const bool was_right = report.outcome == Outcome::kOk;
  ASSIGN_OR_RETURN(const uint64_t forward, problem_->HashOutputs());
  RunReport opposite;
  launcher_->SetOrder(Launcher::Order::kReversed);
  const absl::Status launched = CheckedLaunch(program, opposite).status();
  launcher_->SetOrder(Launcher::Order::kForward);
  RETURN_IF_ERROR(launched);
  const bool is_right = opposite.outcome == Outcome::kOk;
  if (is_right && was_right) return absl::OkStatus();
  ASSIGN_OR_RETURN(const uint64_t reversed, problem_->HashOutputs());
  if (is_right == was_right && reversed == forward) return absl::OkStatus();
  report.outcome = Outcome::kWrongResult;
  report.message = absl::StrCat(
      "the result depends on the order in which threads run: is a __syncthreads() missing, or do "
      "two threads write one element? ",
      was_right ? opposite.message : report.message);
  if (was_right) report.error = opposite.error;
  return absl::OkStatus();
}

// Every cold launch writes to poisoned outputs, so that the last one can be checked like the first;
// poison would leave a cache that is not warm as the kernel left it, so there one more launch is
// checked, which does not count.
absl::Status CpuRunner::Sample(const LoadedProgram& program, const SamplePolicy& policy,
                               double first_ns, RunReport& report) {
  const bool cold = policy.cache_mode == CacheMode::kCold;
  const auto begin = std::chrono::steady_clock::now();
  const std::chrono::duration<double> wall_max(policy.seconds_max * kWallPerKernelTime);
  StoppingRule rule(policy);
  if (first_ns >= kLongLaunchNs) rule.Add(first_ns);
  while (rule.Decide() == StopReason::kContinue) {
    RETURN_IF_ERROR(problem_->RestoreInOuts());
    if (cold) RETURN_IF_ERROR(problem_->PoisonOutputs());
    if (cold && first_ns < kLongLaunchNs) RETURN_IF_ERROR(device_->FlushCache());
    ASSIGN_OR_RETURN(const double duration_ns, program.Launch(*launcher_));
    rule.Add(duration_ns);
    if (rule.samples_ns().size() >= kSamplesAtLeast &&
        std::chrono::steady_clock::now() - begin > wall_max) {
      break;
    }
  }
  if (cold) {
    RETURN_IF_ERROR(JudgeLaunch(program, report));
  } else {
    RETURN_IF_ERROR(CheckedLaunch(program, report).status());
  }
  if (report.outcome != Outcome::kOk) {
    report.message = absl::StrCat("in a timed launch, not in the first one: ", report.message);
    return absl::OkStatus();
  }
  report.samples_ns = rule.samples_ns();
  report.stopped_early = rule.Decide() == StopReason::kHopeless;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Runner>> MakeRunner() {
  DescribeFaults();
  ASSIGN_OR_RETURN(HostInfo info, ReadHostInfo());
  ASSIGN_OR_RETURN(
      std::unique_ptr<Launcher> launcher,
      Launcher::Create(info.cpus, static_cast<uint64_t>(info.device.max_shared_bytes)));
  return std::make_unique<CpuRunner>(std::move(info), std::move(launcher));
}

}  // namespace tune::cpu
