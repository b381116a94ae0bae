// SPDX-License-Identifier: Apache-2.0
#include "server/worker/device_worker.h"

#include <stdio.h>

#include <string>
#include <utility>

#include "base/status_macros.h"
#include "server/worker/arguments.h"
#include "server/worker/convert.h"
#include "server/worker/convert_counters.h"
#include "server/worker/serve.h"
#include "server/worker/wall_trial.h"
#include "server/worker/walls.h"

namespace tune::server {
namespace {

using worker::v1::WorkerReply;
using worker::v1::WorkerRequest;

class DeviceWorker {
 public:
  DeviceWorker(absl::StatusOr<std::unique_ptr<Runner>> runner, const Walls& walls)
      : runner_(std::move(runner)), walls_(walls) {}

  WorkerReply Handle(const WorkerRequest& request) {
    WorkerReply reply;
    if (request.has_try_walls()) {
      *reply.mutable_walls() = TryWalls(walls_, request.try_walls());
      return reply;
    }
    const absl::Status done = runner_.ok() ? Answer(request, reply) : runner_.status();
    if (!done.ok()) {
      reply.Clear();
      SetStatus(done, reply);
    }
    return reply;
  }

 private:
  absl::Status Answer(const WorkerRequest& request, WorkerReply& reply) {
    switch (request.kind_case()) {
      case WorkerRequest::kHello:
        *reply.mutable_hello()->mutable_device() = ToWire((*runner_)->info());
        reply.mutable_hello()->set_walls_missing(walls_.missing());
        return absl::OkStatus();
      case WorkerRequest::kCeilings: {
        const worker::v1::MeasureCeilings& wanted = request.ceilings();
        ASSIGN_OR_RETURN(std::vector<Ceiling> ceilings,
                         wanted.suite()
                             ? (*runner_)->MeasureCeilingSuite(wanted.sustained_seconds())
                             : (*runner_)->MeasureCeilings());
        *reply.mutable_ceilings() = ToWire(ceilings);
        return absl::OkStatus();
      }
      case WorkerRequest::kCanary:
        reply.mutable_canary();
        return (*runner_)->Canary();
      case WorkerRequest::kPrepare:
        return Prepare(request.prepare(), *reply.mutable_prepared());
      case WorkerRequest::kRun: {
        if (!prepared_) return absl::FailedPreconditionError("run before prepare");
        ASSIGN_OR_RETURN(RunRequest run, FromWire(request.run()));
        ASSIGN_OR_RETURN(RunReport report, (*runner_)->Run(run));
        *reply.mutable_run() = ToWire(report);
        return absl::OkStatus();
      }
      case WorkerRequest::kJudge: {
        if (!prepared_) return absl::FailedPreconditionError("judge before prepare");
        ASSIGN_OR_RETURN(const std::vector<BufferFile> outputs, FromWire(request.judge()));
        ASSIGN_OR_RETURN(RunReport report, (*runner_)->Judge(outputs));
        *reply.mutable_run() = ToWire(report);
        return absl::OkStatus();
      }
      case WorkerRequest::kCount: {
        if (!prepared_) return absl::FailedPreconditionError("count before prepare");
        ASSIGN_OR_RETURN(CountRequest count, FromWire(request.count()));
        ASSIGN_OR_RETURN(CountReport report, (*runner_)->Count(count));
        *reply.mutable_count() = ToWire(report);
        return absl::OkStatus();
      }
      case WorkerRequest::kCalibrate: {
        ASSIGN_OR_RETURN(CalibrationReport report, (*runner_)->Calibrate());
        *reply.mutable_calibration() = ToWire(report);
        return absl::OkStatus();
      }
      default:
        return absl::UnimplementedError("a device worker runs variants");
    }
  }

  absl::Status Prepare(const worker::v1::Prepare& request, worker::v1::Prepared& prepared) {
    ASSIGN_OR_RETURN(ProblemPlan plan, FromWire(request));
    prepared_ = false;
    const absl::Status done =
        (*runner_)->Prepare(plan, request.reference().binary(), request.seed());
    if (absl::IsInvalidArgument(done) || absl::IsResourceExhausted(done)) {
      WorkerReply reply;
      SetStatus(done, reply);
      prepared.set_status_code(reply.status_code());
      prepared.set_status_message(reply.status_message());
      return absl::OkStatus();
    }
    prepared_ = done.ok();
    return done;
  }

  const absl::StatusOr<std::unique_ptr<Runner>> runner_;
  const Walls& walls_;
  bool prepared_ = false;
};

}  // namespace

int RunDeviceWorker(int argc, char** argv, WorkerRole role, const RunnerFactory& factory) {
  if (!JoinControlGroup()) return 2;
  absl::StatusOr<WorkerArguments> arguments = ParseWorkerArguments(argc, argv);
  if (!arguments.ok()) {
    fprintf(stderr, "%s\n", arguments.status().ToString().c_str());
    return 2;
  }
  UseScratchDir(arguments->scratch_dir);
  Walls walls(role, arguments->scratch_dir);
  // On the host the walls come first: the runner starts the threads that variants run on. A driver
  // comes up without walls, since it may have to load its modules through a privileged program.
  const bool runs_foreign_code = role == WorkerRole::kHostDevice;
  if (runs_foreign_code) walls.EncloseProcess();
  absl::StatusOr<std::unique_ptr<Runner>> runner = factory(arguments->ordinal);
  if (!runs_foreign_code) walls.EncloseProcess();
  ExitWhenDaemonCloses(kWorkerFd);
  walls.EncloseCalls();
  DeviceWorker worker(std::move(runner), walls);
  return ServeRequests(kWorkerFd, [&](const auto& request) { return worker.Handle(request); });
}

}  // namespace tune::server
