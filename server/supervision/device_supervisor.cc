// SPDX-License-Identifier: Apache-2.0
#include "server/supervision/device_supervisor.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "server/supervision/host_short.h"
#include "server/worker/convert.h"
#include "server/worker/convert_counters.h"
#include "server/worker/scratch.h"
#include "tuner/gpu_part.h"

namespace tune::server {
namespace {

using Kind = WorkerAnswer::Kind;

absl::Status CancelledOn(const std::string& id) {
  return absl::CancelledError(absl::StrCat("cancelled while using device ", id));
}

// The error in a worker's answer; empty if it has the expected kind.
std::string Complaint(const WorkerAnswer& answer, worker::v1::WorkerReply::KindCase expected) {
  if (answer.kind != Kind::kReplied) return answer.message;
  if (answer.reply.status_code() != 0) {
    const std::string& why = answer.reply.status_message();
    return why.empty() ? "it gave up and did not say why" : why;
  }
  if (answer.reply.kind_case() != expected) return "its answer is not to the question";
  return "";
}

// May a runner say this of a variant?
bool IsRunnersWord(Outcome outcome) {
  return outcome == Outcome::kOk || outcome == Outcome::kInvalidConfig ||
         outcome == Outcome::kLaunchFailed || outcome == Outcome::kWrongResult ||
         outcome == Outcome::kFaulted;
}

RunReport Blamed(Outcome outcome, std::string message) {
  RunReport report;
  report.outcome = outcome;
  report.message = std::move(message);
  return report;
}

// Whose code runs while a problem is prepared.
std::string WhoPrepares(const worker::v1::WorkerRequest& request) {
  const bool checks = request.prepare().checker().steps_size() > 0;
  const bool computes = request.prepare().reference().steps_size() > 0;
  if (checks) return computes ? "the reference kernel or the checker" : "the checker";
  return "the reference kernel";
}

std::string StuckMessage(pid_t pid) {
  return absl::StrCat(
      "its worker, process ", pid,
      ", was killed and does not end: the device is out of use until it has; look "
      "into the kernel's log, and reset the device or restart the host if it stays");
}

}  // namespace

std::string WhyOutOfUse(const std::vector<DeviceStatus>& devices, const std::string& id) {
  const auto found = std::find_if(devices.begin(), devices.end(),
                                  [&](const DeviceStatus& status) { return status.id == id; });
  if (found == devices.end()) return absl::StrCat("device ", id, " is not there");
  if (!IsOutOfUse(*found)) return "";
  return absl::StrCat("device ", id, " cannot be used: ", found->message);
}

TargetTraits TraitsOf(const DeviceInfo& info) {
  TargetTraits traits = TargetTraitsFor(info.target).value_or(TargetTraits{});
  traits.target = info.target;
  if (info.max_shared_bytes > 0) traits.max_shared_bytes = info.max_shared_bytes;
  if (info.sm_count > 0) traits.sm_count = info.sm_count;
  return traits;
}

DeviceSupervisor::DeviceSupervisor(DeviceSupervisorOptions options)
    : DeviceSupervisor(std::move(options), std::make_shared<StuckWorkers>()) {}

DeviceSupervisor::DeviceSupervisor(DeviceSupervisorOptions options,
                                   std::shared_ptr<StuckWorkers> stuck)
    : options_(std::move(options)), stuck_(std::move(stuck)) {
  status_.id = options_.id;
  status_.model = options_.model;
  status_.message = "not opened yet";
}

DeviceSupervisor::~DeviceSupervisor() { EndWorker(); }

std::unique_ptr<DeviceSupervisor> DeviceSupervisor::MakeTwin(const std::string& name) const {
  DeviceSupervisorOptions options = options_;
  if (!options.scratch_dir.empty()) absl::StrAppend(&options.scratch_dir, "-", name);
  // It is replaced when its user says so, not in the middle of a comparison.
  options.runs_per_worker = std::numeric_limits<int>::max();
  return std::unique_ptr<DeviceSupervisor>(new DeviceSupervisor(std::move(options), stuck_));
}

DeviceStatus DeviceSupervisor::Status() const {
  const pid_t stuck = stuck_->First();
  MutexLock lock(status_mutex_);
  DeviceStatus status = status_;
  if (stuck != 0) {
    status.state = DeviceState::kUnavailable;
    status.message = StuckMessage(stuck);
  }
  return status;
}

void DeviceSupervisor::SetState(DeviceState state, const std::string& message) {
  MutexLock lock(status_mutex_);
  ++status_version_;
  status_.state = state;
  status_.message = message;
}

absl::Status DeviceSupervisor::Open(const Cancelled& cancelled) {
  MutexLock use(use_mutex_);
  return EnsureWorker(cancelled);
}

absl::Status DeviceSupervisor::Inspect(const Cancelled& cancelled) {
  MutexLock use(use_mutex_);
  const absl::Status opened = StartAnyWorker(cancelled);
  EndWorker();
  problem_loaded_ = false;
  return opened;
}

void DeviceSupervisor::Close() {
  MutexLock use(use_mutex_);
  EndWorker();
  problem_.reset();
  problem_loaded_ = false;
}

void DeviceSupervisor::SetCeilings(std::vector<Ceiling> ceilings) {
  MutexLock lock(status_mutex_);
  status_.ceilings = std::move(ceilings);
  status_.unsaved.clear();
}

void DeviceSupervisor::AddMeasured(std::vector<Ceiling> ceilings) {
  const int64_t now_ms = absl::ToUnixMillis(absl::Now());
  MutexLock lock(status_mutex_);
  for (Ceiling& ceiling : ceilings) {
    std::erase_if(status_.ceilings, [&](const Ceiling& old) { return old.name == ceiling.name; });
    std::erase_if(status_.unsaved,
                  [&](const MeasuredCeiling& old) { return old.ceiling.name == ceiling.name; });
    status_.unsaved.push_back({ceiling, now_ms});
    status_.ceilings.push_back(std::move(ceiling));
  }
}

absl::Status DeviceSupervisor::EnsureWorker(const Cancelled& cancelled) {
  RETURN_IF_ERROR(StartAnyWorker(cancelled));
  // A worker that has tried its walls is not used for anything else.
  return worker_->alive() ? absl::OkStatus() : StartAnyWorker(cancelled);
}

absl::Status DeviceSupervisor::StartAnyWorker(const Cancelled& cancelled) {
  if (cancelled && cancelled()) return CancelledOn(options_.id);
  if (const pid_t stuck = stuck_->First(); stuck != 0) {
    return absl::UnavailableError(absl::StrCat("device ", options_.id, ": ", StuckMessage(stuck)));
  }
  if (worker_ != nullptr && worker_->alive()) return absl::OkStatus();
  // A killed worker may leave the device busy for a moment, so a canary gets a second chance.
  absl::Status started = StartWorker(cancelled);
  if (absl::IsFailedPrecondition(started)) started = StartWorker(cancelled);
  if (started.ok()) {
    SetState(DeviceState::kHealthy, "");
    return started;
  }
  // The driver may take a while to end the killed worker; a caller that gave up need not wait for
  // it.
  if (absl::IsCancelled(started)) return started;
  EndWorker();
  if (absl::IsFailedPrecondition(started)) {
    SetState(DeviceState::kQuarantined, std::string(started.message()));
    return absl::FailedPreconditionError(absl::StrCat("device ", options_.id,
                                                      " is quarantined: ", started.message(),
                                                      "; it is tried again later, and at once by "
                                                      "`tunectl device retry ",
                                                      options_.id, "`"));
  }
  if (absl::IsUnavailable(started)) {
    SetState(DeviceState::kUnavailable, std::string(started.message()));
  }
  return started;
}

absl::Status DeviceSupervisor::StartWorker(const Cancelled& cancelled) {
  RETURN_IF_ERROR(StartProcess(cancelled));
  RETURN_IF_ERROR(TryCanary(cancelled));
  return CheckWalls(cancelled);
}

absl::Status DeviceSupervisor::CheckWalls(const Cancelled& cancelled) {
  if (options_.walls == nullptr) return absl::OkStatus();
  const std::string& program = options_.command.program;
  if (!options_.walls->Knows(program)) {
    RETURN_IF_ERROR(options_.walls->Try(program, *worker_, cancelled));
  }
  return options_.walls->Permit(program, walls_missing_);
}

absl::Status DeviceSupervisor::StartProcess(const Cancelled& cancelled) {
  EndWorker();
  tainted_ = false;
  problem_loaded_ = false;
  runs_ = 0;
  WorkerCommand command = options_.command;
  if (!options_.scratch_dir.empty()) {
    std::error_code ignored;
    RemoveFolder(options_.scratch_dir);
    std::filesystem::create_directories(options_.scratch_dir, ignored);
    command.args.insert(command.args.end(), {"--scratch", options_.scratch_dir});
  }
  ASSIGN_OR_RETURN(worker_, WorkerProcess::Start(command));
  return Greet(cancelled);
}

absl::Status DeviceSupervisor::Greet(const Cancelled& cancelled) {
  Request request;
  request.mutable_hello();
  const WorkerAnswer answer = worker_->Call(request, options_.start_deadline, cancelled);
  RETURN_IF_ERROR(NoAnswer(answer));
  if (answer.kind == Kind::kReplied && answer.reply.status_code() != 0) {
    return absl::UnavailableError(answer.reply.status_message());
  }
  const std::string complaint = Complaint(answer, worker::v1::WorkerReply::kHello);
  if (!complaint.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("the device worker does not start: ", complaint));
  }
  absl::StatusOr<DeviceInfo> info = FromWire(answer.reply.hello().device());
  if (!info.ok()) return absl::FailedPreconditionError(info.status().message());
  info->name = NameOfGpu(info->name, info->sm_count, info->memory_bytes);
  MutexLock lock(status_mutex_);
  // Another device behind the same id, or another driver, has other ceilings.
  if (info->name != status_.info.name || info->driver != status_.info.driver ||
      info->uuid != status_.info.uuid) {
    if (!status_.info.name.empty()) status_.ceilings.clear();
    status_.unsaved.clear();
  }
  ++status_version_;
  status_.info = *std::move(info);
  walls_missing_ = answer.reply.hello().walls_missing();
  return absl::OkStatus();
}

absl::Status DeviceSupervisor::TryCanary(const Cancelled& cancelled) {
  Request request;
  request.mutable_canary();
  const WorkerAnswer answer = worker_->Call(request, options_.canary_deadline, cancelled);
  RETURN_IF_ERROR(NoAnswer(answer));
  const std::string complaint = Complaint(answer, worker::v1::WorkerReply::kCanary);
  if (complaint.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("the canary kernel failed: ", complaint));
}

absl::Status DeviceSupervisor::NoAnswer(const WorkerAnswer& answer) const {
  if (answer.kind == Kind::kCancelled) return CancelledOn(options_.id);
  return answer.kind == Kind::kHostShort ? HostShortError(answer.message) : absl::OkStatus();
}

void DeviceSupervisor::Distrust(const std::string& why) {
  EndWorker();
  problem_loaded_ = false;
  MutexLock lock(status_mutex_);
  ++status_version_;
  ++status_.worker_restarts;
  status_.state = DeviceState::kSuspect;
  status_.message = absl::StrCat("its worker was ended: ", why);
}

absl::StatusOr<std::vector<Ceiling>> DeviceSupervisor::Ceilings(const Cancelled& cancelled) {
  MutexLock use(use_mutex_);
  if (Status().ceilings.empty()) DropTaintedWorker();
  RETURN_IF_ERROR(EnsureWorker(cancelled));
  if (std::vector<Ceiling> known = Status().ceilings; !known.empty()) return known;
  ASSIGN_OR_RETURN(std::vector<Ceiling> ceilings, MeasureCeilings(cancelled));
  AddMeasured(std::move(ceilings));
  return Status().ceilings;
}

absl::StatusOr<std::vector<Ceiling>> DeviceSupervisor::RaiseCeilings(const Cancelled& cancelled) {
  MutexLock use(use_mutex_);
  DropTaintedWorker();
  RETURN_IF_ERROR(EnsureWorker(cancelled));
  const std::vector<Ceiling> known = Status().ceilings;
  ASSIGN_OR_RETURN(std::vector<Ceiling> measured, MeasureCeilings(cancelled));
  std::erase_if(measured, [&](const Ceiling& now) {
    return std::any_of(known.begin(), known.end(), [&](const Ceiling& before) {
      return before.name == now.name &&
             (now.value <= before.value || now.kind == CeilingKind::kLaunch);
    });
  });
  AddMeasured(std::move(measured));
  return Status().ceilings;
}

absl::StatusOr<std::vector<Ceiling>> DeviceSupervisor::MeasureCeilings(const Cancelled& cancelled) {
  Request request;
  request.mutable_ceilings();
  const WorkerAnswer answer = worker_->Call(request, options_.ceilings_deadline, cancelled);
  RETURN_IF_ERROR(NoAnswer(answer));
  const std::string complaint = Complaint(answer, worker::v1::WorkerReply::kCeilings);
  if (!complaint.empty()) {
    Distrust(complaint);
    return absl::UnavailableError(absl::StrCat("the ceilings of device ", options_.id,
                                               " could not be measured: ", complaint));
  }
  return FromWire(answer.reply.ceilings());
}

absl::StatusOr<std::vector<Ceiling>> DeviceSupervisor::CeilingSuite(double sustained_seconds,
                                                                    const Cancelled& cancelled) {
  MutexLock use(use_mutex_);
  DropTaintedWorker();
  Request request;
  request.mutable_ceilings()->set_suite(true);
  request.mutable_ceilings()->set_sustained_seconds(sustained_seconds);
  ASSIGN_OR_RETURN(
      Reply reply,
      CallOnce(request, Reply::kCeilings,
               options_.suite_deadline + absl::Seconds(20 * sustained_seconds), cancelled));
  return FromWire(reply.ceilings());
}

absl::StatusOr<CountReport> DeviceSupervisor::Count(const CountRequest& count,
                                                    const Cancelled& cancelled) {
  MutexLock use(use_mutex_);
  RETURN_IF_ERROR(EnsureProblem(cancelled));
  Request request;
  *request.mutable_count() = ToWire(count);
  absl::StatusOr<Reply> reply =
      CallOnce(request, Reply::kCount, options_.count_deadline, cancelled);
  if (reply.ok()) return FromWire(reply->count());
  if (!absl::IsUnavailable(reply.status())) return reply.status();
  // A variant that kills the counting process may still run elsewhere.
  CountReport report;
  report.unavailable = std::string(reply.status().message());
  return report;
}

absl::StatusOr<CalibrationReport> DeviceSupervisor::Calibrate(const Cancelled& cancelled) {
  MutexLock use(use_mutex_);
  Request request;
  request.mutable_calibrate();
  ASSIGN_OR_RETURN(Reply reply,
                   CallOnce(request, Reply::kCalibration, options_.suite_deadline, cancelled));
  return FromWire(reply.calibration());
}

absl::StatusOr<DeviceSupervisor::Reply> DeviceSupervisor::CallOnce(const Request& request,
                                                                   Reply::KindCase expected,
                                                                   absl::Duration limit,
                                                                   const Cancelled& cancelled) {
  RETURN_IF_ERROR(EnsureWorker(cancelled));
  WorkerAnswer answer = worker_->Call(request, limit, cancelled);
  RETURN_IF_ERROR(NoAnswer(answer));
  const std::string complaint = Complaint(answer, expected);
  if (complaint.empty()) return std::move(answer.reply);
  Distrust(complaint);
  if (answer.kind == Kind::kReplied &&
      answer.reply.status_code() == static_cast<int>(absl::StatusCode::kUnimplemented)) {
    return absl::UnimplementedError(complaint);
  }
  return absl::UnavailableError(absl::StrCat("device ", options_.id, ": ", complaint));
}

absl::Status DeviceSupervisor::Prepare(const ProblemPlan& plan, const std::string& reference_binary,
                                       uint64_t seed, const Cancelled& cancelled) {
  MutexLock use(use_mutex_);
  DropTaintedWorker();
  // Ends the worker, since another kernel must not read what the last one left in the device's
  // memory.
  if (origin_.has_value() && *origin_ != plan.origin) {
    EndWorker();
    problem_loaded_ = false;
  }
  origin_ = plan.origin;
  problem_.emplace();
  *problem_->mutable_prepare() = ToWire(plan, reference_binary, seed);
  problem_loaded_ = false;
  absl::Status loaded = EnsureProblem(cancelled);
  if (!loaded.ok()) problem_.reset();
  return loaded;
}

void DeviceSupervisor::DropTaintedWorker() {
  if (!tainted_) return;
  EndWorker();
  problem_loaded_ = false;
}

absl::Status DeviceSupervisor::EnsureProblem(const Cancelled& cancelled) {
  if (!problem_) return absl::FailedPreconditionError("no problem is prepared on this device");
  std::string complaint;
  for (int attempt = 0; attempt < 2; ++attempt) {
    RETURN_IF_ERROR(EnsureWorker(cancelled));
    if (problem_loaded_) return absl::OkStatus();
    tainted_ = options_.runs_foreign_code;
    const WorkerAnswer answer = worker_->Call(*problem_, options_.prepare_deadline, cancelled);
    complaint = Complaint(answer, worker::v1::WorkerReply::kPrepared);
    if (complaint.empty()) {
      const worker::v1::Prepared& prepared = answer.reply.prepared();
      problem_loaded_ = prepared.status_code() == 0;
      if (problem_loaded_ && options_.headroom_bytes > 0) {
        worker_->LimitGrowth(options_.headroom_bytes);
      }
      if (problem_loaded_) return absl::OkStatus();
      if (prepared.status_code() == static_cast<int>(absl::StatusCode::kResourceExhausted)) {
        return absl::ResourceExhaustedError(prepared.status_message());
      }
      return absl::InvalidArgumentError(prepared.status_message());
    }
    RETURN_IF_ERROR(NoAnswer(answer));
    Distrust(complaint);
    if (answer.kind == Kind::kDeadline) {
      return absl::InvalidArgumentError(
          absl::StrCat(WhoPrepares(*problem_), " was not done within ",
                       absl::FormatDuration(options_.prepare_deadline), " on device ", options_.id,
                       "; try a smaller problem"));
    }
  }
  return absl::InvalidArgumentError(absl::StrCat(WhoPrepares(*problem_), " failed twice on device ",
                                                 options_.id, ": ", complaint));
}

absl::StatusOr<RunReport> DeviceSupervisor::Run(const RunRequest& run, const Cancelled& cancelled) {
  MutexLock use(use_mutex_);
  Request request;
  *request.mutable_run() = ToWire(run);
  RETURN_IF_ERROR(EnsureProblem(cancelled));
  ASSIGN_OR_RETURN(Try first, TryRun(request, cancelled));
  if (first.report) return *std::move(first.report);
  // Perhaps something that ran before it left the worker broken: alone it may do well.
  RETURN_IF_ERROR(EnsureProblem(cancelled));
  ASSIGN_OR_RETURN(Try second, TryRun(request, cancelled));
  if (second.report) return *std::move(second.report);
  return Blamed(
      Outcome::kFaulted,
      absl::StrCat("failed twice, the second time alone in a fresh worker: ", second.failure));
}

absl::StatusOr<RunReport> DeviceSupervisor::Judge(const std::vector<BufferFile>& outputs,
                                                  const Cancelled& cancelled) {
  MutexLock use(use_mutex_);
  Request request;
  *request.mutable_judge() = ToWire(outputs);
  RETURN_IF_ERROR(EnsureProblem(cancelled));
  absl::StatusOr<Reply> reply = CallOnce(request, Reply::kRun, options_.run_deadline, cancelled);
  if (!reply.ok()) return reply.status();
  return FromWireJudged(reply->run());
}

absl::StatusOr<DeviceSupervisor::Try> DeviceSupervisor::TryRun(const Request& request,
                                                               const Cancelled& cancelled) {
  const WorkerAnswer answer = worker_->Call(request, options_.run_deadline, cancelled);
  RETURN_IF_ERROR(NoAnswer(answer));
  Try result;
  result.failure = Complaint(answer, worker::v1::WorkerReply::kRun);
  if (result.failure.empty()) {
    absl::StatusOr<RunReport> report = FromWire(answer.reply.run());
    if (!report.ok()) {
      result.failure = absl::StrCat("its report makes no sense: ", report.status().message());
    } else if (!IsRunnersWord(report->outcome)) {
      result.failure = "its report makes no sense";
    } else if (report->outcome == Outcome::kFaulted) {
      result.failure = report->message;
      const std::string words = worker_->KillAndHear();
      if (!words.empty()) absl::StrAppend(&result.failure, "; its last words: ", words);
    } else {
      result.report = *std::move(report);
      if (++runs_ >= options_.runs_per_worker) EndWorker();  // age, not guilt
      return result;
    }
  }
  Distrust(result.failure);
  if (answer.kind == Kind::kDeadline) {
    // Runs are one at a time, so no other variant can be to blame.
    result.report =
        Blamed(Outcome::kTimedOut,
               absl::StrCat("still running after ", absl::FormatDuration(options_.run_deadline)));
  }
  return result;
}

}  // namespace tune::server
