// SPDX-License-Identifier: Apache-2.0
#include "tuner/device/cuda/cuda_runner.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "tuner/device/cuda/activity_clock.h"
#include "tuner/device/cuda/calibration.h"
#include "tuner/device/cuda/ceilings.h"
#include "tuner/device/cuda/device_context.h"
#include "tuner/device/cuda/harness.h"
#include "tuner/device/cuda/loaded_program.h"
#include "tuner/device/cuda/nvrtc_compiler.h"
#include "tuner/device/cuda/range_profiler.h"
#include "tuner/device/cuda/sampler.h"
#include "tuner/device/cuda/telemetry.h"
#include "tuner/device/cuda/variant_counter.h"
#include "tuner/device/prepared_problem.h"

namespace tune::cuda {
namespace {

constexpr int kHardwareTraceSm = 100;  // Blackwell

// The variant's outcome after a failed step, or nullopt if the runner itself cannot go on.
std::optional<Outcome> OutcomeOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
      return Outcome::kInvalidConfig;
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kResourceExhausted:
      return Outcome::kLaunchFailed;
    case absl::StatusCode::kAborted:
      return Outcome::kFaulted;
    default:
      return std::nullopt;
  }
}

class CudaRunner : public Runner {
 public:
  // Members are made in the order they depend on each other.
  struct Parts {
    std::unique_ptr<DeviceContext> context;
    std::unique_ptr<Compiler> compiler;
    std::unique_ptr<Harness> harness;
    std::unique_ptr<TelemetrySource> telemetry;
    ActivityClock* activity = nullptr;
    std::unique_ptr<RangeProfiler> profiler;  // of a counting runner
    std::string no_profiler;                  // why it has none
    DeviceInfo info;
  };

  explicit CudaRunner(Parts parts) : parts_(std::move(parts)) {}
  ~CudaRunner() override;

  const DeviceInfo& info() const override { return parts_.info; }
  absl::StatusOr<std::vector<Ceiling>> MeasureCeilings() override;
  absl::StatusOr<std::vector<Ceiling>> MeasureCeilingSuite(double sustained_seconds) override;
  absl::Status Canary() override;
  absl::Status Prepare(const ProblemPlan& plan, const std::string& reference_binary,
                       uint64_t seed) override;
  absl::StatusOr<RunReport> Run(const RunRequest& request) override;
  absl::StatusOr<RunReport> Judge(const std::vector<BufferFile>& outputs) override;
  absl::StatusOr<CountReport> Count(const CountRequest& request) override;
  absl::StatusOr<CalibrationReport> Calibrate() override;

 private:
  absl::Status RunVariant(const RunRequest& request, RunReport& report);
  absl::Status JudgeOutputs(const std::vector<BufferFile>& outputs, RunReport& report);
  absl::StatusOr<LoadedProgram> Load(const Program& program);
  absl::Status CountVariant(const CountRequest& request, CountReport& report);
  absl::Status RunLoaded(const LoadedProgram& program, const SamplePolicy& policy,
                         RunReport& report);
  // The report of what ended with `status`; an error if the runner itself cannot go on.
  template <typename Report>
  absl::StatusOr<Report> Finish(const absl::Status& status, Report& report);
  // Fails once the context is lost.
  absl::Status CheckUsable() const;
  // Remembers that the context is lost, if that is what `status` means.
  absl::Status Note(absl::Status status);

  Parts parts_;
  std::unique_ptr<PreparedProblem> problem_;
  std::optional<Sampler> sampler_;
  bool lost_ = false;
};

CudaRunner::~CudaRunner() {
  if (!lost_) return;
  // Freeing in a lost context only gives errors, and may wait for a kernel that never ends.
  (void)problem_.release();
  (void)parts_.profiler.release();
  (void)parts_.harness.release();
  (void)parts_.context.release();
}

absl::Status CudaRunner::CheckUsable() const {
  if (!lost_) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("the context on ", parts_.info.name, " is lost; the worker must be replaced"));
}

absl::Status CudaRunner::Note(absl::Status status) {
  lost_ = lost_ || absl::IsAborted(status) || absl::IsUnavailable(status) ||
          absl::IsInternal(status) || absl::IsDataLoss(status);
  return status;
}

absl::StatusOr<std::vector<Ceiling>> CudaRunner::MeasureCeilings() {
  RETURN_IF_ERROR(CheckUsable());
  absl::StatusOr<std::vector<Ceiling>> ceilings =
      tune::cuda::MeasureCeilings(*parts_.context, *parts_.compiler);
  RETURN_IF_ERROR(Note(ceilings.status()));
  return ceilings;
}

absl::StatusOr<std::vector<Ceiling>> CudaRunner::MeasureCeilingSuite(double sustained_seconds) {
  RETURN_IF_ERROR(CheckUsable());
  absl::StatusOr<std::vector<Ceiling>> ceilings = tune::cuda::MeasureCeilingSuite(
      *parts_.context, *parts_.compiler, parts_.activity, *parts_.telemetry, sustained_seconds);
  RETURN_IF_ERROR(Note(ceilings.status()));
  return ceilings;
}

absl::Status CudaRunner::Canary() {
  RETURN_IF_ERROR(CheckUsable());
  return Note(parts_.harness->RunCanary());
}

absl::Status CudaRunner::Prepare(const ProblemPlan& plan, const std::string& reference_binary,
                                 uint64_t seed) {
  RETURN_IF_ERROR(CheckUsable());
  sampler_.reset();
  problem_.reset();  // its memory first: two problems may not fit
  absl::StatusOr<std::unique_ptr<PreparedProblem>> problem =
      PreparedProblem::Create(*parts_.harness, plan, reference_binary, seed);
  if (!problem.ok()) {
    // A reference that faults is the problem's fault and also the end of this context.
    lost_ = lost_ || !parts_.context->Synchronize().ok();
    return Note(problem.status());
  }
  absl::StatusOr<Sampler> sampler =
      Sampler::Create(*parts_.context, *parts_.harness, parts_.activity);
  RETURN_IF_ERROR(Note(sampler.status()));
  problem_ = std::move(problem).value();
  sampler_.emplace(std::move(sampler).value());
  return absl::OkStatus();
}

template <typename Report>
absl::StatusOr<Report> CudaRunner::Finish(const absl::Status& status, Report& report) {
  if (!status.ok()) {
    const std::optional<Outcome> outcome = OutcomeOf(status);
    if (!outcome) {
      lost_ = true;
      return status;
    }
    report.outcome = *outcome;
    report.message = std::string(status.message());
  }
  lost_ = lost_ || report.outcome == Outcome::kFaulted;
  return std::move(report);
}

absl::StatusOr<RunReport> CudaRunner::Run(const RunRequest& request) {
  RETURN_IF_ERROR(CheckUsable());
  if (problem_ == nullptr) return absl::FailedPreconditionError("Run before Prepare");
  RunReport report;
  return Finish(RunVariant(request, report), report);
}

absl::StatusOr<RunReport> CudaRunner::Judge(const std::vector<BufferFile>& outputs) {
  RETURN_IF_ERROR(CheckUsable());
  if (problem_ == nullptr) return absl::FailedPreconditionError("Judge before Prepare");
  RunReport report;
  return Finish(JudgeOutputs(outputs, report), report);
}

absl::Status CudaRunner::JudgeOutputs(const std::vector<BufferFile>& outputs, RunReport& report) {
  ASSIGN_OR_RETURN(Verdict verdict, problem_->Judge(outputs));
  if (verdict.harness_damaged) return absl::DataLossError(verdict.message);
  report.error = std::move(verdict.error);
  if (verdict.right) return absl::OkStatus();
  report.outcome = Outcome::kWrongResult;
  report.message = std::move(verdict.message);
  return absl::OkStatus();
}

absl::StatusOr<LoadedProgram> CudaRunner::Load(const Program& program) {
  return LoadedProgram::Load(*parts_.context, program, [this](const BufferPlan& wanted) {
    return problem_->Resolve(wanted);
  });
}

absl::StatusOr<CountReport> CudaRunner::Count(const CountRequest& request) {
  RETURN_IF_ERROR(CheckUsable());
  if (problem_ == nullptr) return absl::FailedPreconditionError("Count before Prepare");
  CountReport report;
  report.unavailable = parts_.no_profiler;
  if (parts_.profiler == nullptr) return report;
  return Finish(CountVariant(request, report), report);
}

absl::Status CudaRunner::CountVariant(const CountRequest& request, CountReport& report) {
  ASSIGN_OR_RETURN(LoadedProgram program, Load(request.program));
  VariantCounter counter(*parts_.harness, *parts_.profiler, *problem_);
  RunReport checked;
  absl::Status status = sampler_->CheckLaunch(program, *problem_, checked).status();
  report.outcome = checked.outcome;
  report.message = checked.message;
  if (status.ok() && checked.outcome == Outcome::kOk) {
    status = counter.Count(program, request, report);
  }
  if (absl::IsAborted(status) || absl::IsUnavailable(status)) program.Abandon();
  return status;
}

absl::StatusOr<CalibrationReport> CudaRunner::Calibrate() {
  RETURN_IF_ERROR(CheckUsable());
  CalibrationReport report;
  report.unavailable = parts_.no_profiler;
  if (parts_.profiler == nullptr) return report;
  report.chip = parts_.profiler->host().chip();
  absl::StatusOr<std::vector<CalibrationEntry>> entries =
      MeasureCalibration(*parts_.context, *parts_.compiler, *parts_.harness, *parts_.profiler);
  if (absl::IsFailedPrecondition(entries.status())) {
    report.unavailable = std::string(entries.status().message());
    return report;
  }
  RETURN_IF_ERROR(Note(entries.status()));
  report.entries = *std::move(entries);
  return report;
}

absl::Status CudaRunner::RunVariant(const RunRequest& request, RunReport& report) {
  ASSIGN_OR_RETURN(LoadedProgram program, Load(request.program));
  report.resources = program.resources();
  const absl::Status status = RunLoaded(program, request.policy, report);
  if (absl::IsAborted(status) || absl::IsUnavailable(status)) program.Abandon();
  return status;
}

absl::Status CudaRunner::RunLoaded(const LoadedProgram& program, const SamplePolicy& policy,
                                   RunReport& report) {
  ASSIGN_OR_RETURN(double estimate_ns, sampler_->CheckLaunch(program, *problem_, report));
  if (report.outcome != Outcome::kOk) return absl::OkStatus();
  RETURN_IF_ERROR(sampler_->Sample(program, *problem_, policy, estimate_ns, report));
  report.telemetry = parts_.telemetry->Read();
  if (sampler_->clock() != parts_.info.clock) {
    parts_.info.clock = sampler_->clock();
    parts_.info.clock_note = sampler_->clock_note();
  }
  return absl::OkStatus();
}

DeviceInfo InfoOf(const DeviceContext& context, const TelemetrySource& telemetry) {
  DeviceInfo info;
  info.name = context.name;
  info.target = TargetOf(context.sm);
  info.sm_count = context.sm_count;
  info.memory_bytes = context.memory_bytes;
  info.l2_bytes = context.l2_bytes;
  info.max_shared_bytes = context.max_shared_bytes;
  info.uuid = context.uuid;
  info.driver = telemetry.driver_version();
  if (info.driver.empty()) {
    info.driver = absl::StrCat("CUDA ", context.driver_version / 1000, ".",
                               context.driver_version % 1000 / 10);
  }
  return info;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Runner>> MakeRunner(int ordinal, const Toolkit& toolkit) {
  CudaRunner::Parts parts;
  ASSIGN_OR_RETURN(DriverApi driver, DriverApi::Load());
  ASSIGN_OR_RETURN(int sm, DeviceContext::ReadSm(driver, ordinal));
  // Before the context: CUPTI allocates its buffers with it.
  absl::StatusOr<ActivityClock*> activity =
      ActivityClock::Start(toolkit, /*hardware_trace=*/sm >= kHardwareTraceSm);
  ASSIGN_OR_RETURN(parts.context, DeviceContext::Open(driver, ordinal));
  ASSIGN_OR_RETURN(parts.compiler, MakeNvrtcCompiler(toolkit));
  ASSIGN_OR_RETURN(parts.harness, Harness::Create(*parts.context, *parts.compiler));
  parts.telemetry = TelemetrySource::Open(parts.context->pci_bus_id);
  parts.info = InfoOf(*parts.context, *parts.telemetry);
  parts.info.clock = activity.ok() ? Clock::kCupti : Clock::kEvents;
  if (activity.ok()) {
    parts.activity = *activity;
  } else {
    parts.info.clock_note = absl::StrCat("CUDA events, about 2 us too long on short kernels: ",
                                         activity.status().message());
  }
  return std::make_unique<CudaRunner>(std::move(parts));
}

absl::StatusOr<std::unique_ptr<Runner>> MakeCountingRunner(int ordinal) {
  ASSIGN_OR_RETURN(Toolkit toolkit, FindToolkit());
  CudaRunner::Parts parts;
  ASSIGN_OR_RETURN(DriverApi driver, DriverApi::Load());
  ASSIGN_OR_RETURN(parts.context, DeviceContext::Open(driver, ordinal));
  // Before any module is loaded: counting instructions instruments them.
  absl::StatusOr<std::unique_ptr<RangeProfiler>> profiler =
      RangeProfiler::Open(*parts.context, toolkit);
  if (profiler.ok()) {
    parts.profiler = *std::move(profiler);
  } else {
    parts.no_profiler = std::string(profiler.status().message());
  }
  ASSIGN_OR_RETURN(parts.compiler, MakeNvrtcCompiler(toolkit));
  ASSIGN_OR_RETURN(parts.harness, Harness::Create(*parts.context, *parts.compiler));
  parts.telemetry = TelemetrySource::Open(parts.context->pci_bus_id);
  parts.info = InfoOf(*parts.context, *parts.telemetry);
  parts.info.clock = Clock::kEvents;
  parts.info.clock_note = "a process that counts does not time";
  return std::make_unique<CudaRunner>(std::move(parts));
}

absl::StatusOr<std::unique_ptr<Runner>> MakeRunner(int ordinal) {
  ASSIGN_OR_RETURN(Toolkit toolkit, FindToolkit());
  return MakeRunner(ordinal, toolkit);
}

}  // namespace tune::cuda
