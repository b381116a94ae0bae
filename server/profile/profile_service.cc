// SPDX-License-Identifier: Apache-2.0
#include "server/profile/profile_service.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/calibration/calibration_job.h"
#include "server/ceilings/ceilings_job.h"
#include "server/profile/profile_convert.h"
#include "server/rpc/event_reactor.h"
#include "server/rpc/grpc_status.h"
#include "server/rpc/unary.h"
#include "server/wire/nouns.h"
#include "tuner/status_macros.h"
#include "tuner/steady_time.h"

namespace tune::server {
namespace {

constexpr absl::Duration kJobCap = absl::Hours(1);
constexpr absl::Duration kProbeCap = absl::Seconds(60);
constexpr uint32_t kListed = 100;
constexpr uint32_t kListedMax = 1000;

}  // namespace

grpc::ServerWriteReactor<v1::ProfileEvent>* ProfileService::RunProfile(
    grpc::CallbackServerContext* context, const v1::RunProfileRequest* request) {
  using Reactor = EventReactor<v1::ProfileEvent>;
  std::shared_ptr<Reactor> reactor = Reactor::Make();
  const absl::Time deadline = DeadlineOf(*context, kJobCap);
  // The request lives until the call ends, which the client may do at any time.
  reactor->RunOn(jobs_, [this, reactor, deadline, copy = *request] {
    const Cancelled cancelled = [&] {
      return jobs_.stopping() || reactor->cancelled() || SteadyNow() > deadline;
    };
    ProfileJob job(tools_, copy, cancelled,
                   [&](v1::ProfileEvent event) { reactor->Send(std::move(event)); });
    reactor->End(ToGrpc(job.Run(deadline)));
  });
  return reactor.get();
}

grpc::ServerUnaryReactor* ProfileService::ListProfiles(grpc::CallbackServerContext* context,
                                                       const v1::ListProfilesRequest* request,
                                                       v1::ListProfilesResponse* response) {
  return AnswerOn(executors_.reads, context, [=, this]() -> absl::Status {
    const uint32_t limit = request->limit() == 0 ? kListed : std::min(request->limit(), kListedMax);
    ASSIGN_OR_RETURN(std::vector<db::ProfileRow> rows,
                     tools_.store.ListProfiles({.sweep_id = request->sweep_id(),
                                                .trial_id = request->trial_id(),
                                                .kernel_name = request->kernel_name(),
                                                .kernel_hash = request->kernel_hash(),
                                                .device_name = request->device_name(),
                                                .limit = limit}));
    for (const db::ProfileRow& row : rows) *response->add_profiles() = ToProto(row);
    return absl::OkStatus();
  });
}

grpc::ServerWriteReactor<v1::CalibrateEvent>* ProfileService::Calibrate(
    grpc::CallbackServerContext* context, const v1::CalibrateRequest* request) {
  using Reactor = EventReactor<v1::CalibrateEvent>;
  std::shared_ptr<Reactor> reactor = Reactor::Make();
  const absl::Time deadline = DeadlineOf(*context, kJobCap);
  reactor->RunOn(jobs_, [this, reactor, deadline, device = request->device()] {
    const Cancelled cancelled = [&] {
      return jobs_.stopping() || reactor->cancelled() || SteadyNow() > deadline;
    };
    const TellStep tell = [&](const std::string& step) {
      v1::CalibrateEvent event;
      event.set_step(step);
      reactor->Send(std::move(event));
    };
    const absl::StatusOr<Calibrated> calibrated = CalibrateCounters(
        device, tools_.store, tools_.workers, tools_.devices, deadline, cancelled, tell);
    if (calibrated.ok()) {
      v1::CalibrateEvent event;
      *event.mutable_calibration() = ToProto(calibrated->row);
      reactor->Send(std::move(event));
    }
    absl::Status status = calibrated.status();
    if (status.ok() && !calibrated->passed) {
      status = absl::DataLossError(
          "a known kernel was counted wrong: the counters of this device are not to be relied on");
    }
    reactor->End(ToGrpc(status));
  });
  return reactor.get();
}

grpc::ServerUnaryReactor* ProfileService::GetCalibration(grpc::CallbackServerContext* context,
                                                         const v1::GetCalibrationRequest* request,
                                                         v1::Calibration* response) {
  const absl::Time deadline = DeadlineOf(*context, kProbeCap);
  return AnswerOn(executors_.waiting, context, [=, this]() -> absl::Status {
    ASSIGN_OR_RETURN(DeviceView device, tools_.devices.Choose(request->device(), deadline));
    absl::StatusOr<db::CalibrationRow> row =
        tools_.store.LatestCalibration(device.status.info.name, "");
    if (absl::IsNotFound(row.status())) {
      return absl::NotFoundError(absl::StrCat("the counters of ", device.status.id,
                                              " were never calibrated; run `tunectl device "
                                              "calibrate ",
                                              device.status.id, "`"));
    }
    RETURN_IF_ERROR(row.status());
    *response = ToProto(*row);
    return absl::OkStatus();
  });
}

}  // namespace tune::server
