// SPDX-License-Identifier: Apache-2.0
#include "server/device_service.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/steady_time.h"
#include "server/ceilings/ceilings_job.h"
#include "server/devices/device_convert.h"
#include "server/rpc/grpc_status.h"
#include "server/rpc/unary.h"
#include "server/workload/workload.h"

namespace tune::server {
namespace {

constexpr absl::Duration kProbeCap = absl::Seconds(60);
constexpr absl::Duration kRetryCap = absl::Hours(1);

// What there is to tell where nothing needs to be measured: a job that has ended.
std::shared_ptr<Job> KnownAlready(const DeviceView& view) {
  auto job = std::make_shared<Job>(db::JobRow{}, std::vector<std::string>{view.status.id}, nullptr);
  job->feed().AddResult(std::make_shared<v1::Device>(ToProto(view)));
  job->feed().End(absl::OkStatus());
  return job;
}

}  // namespace

grpc::ServerUnaryReactor* DeviceService::ListDevices(grpc::CallbackServerContext* context,
                                                     const v1::ListDevicesRequest*,
                                                     v1::ListDevicesResponse* response) {
  const absl::Time deadline = DeadlineOf(*context, kProbeCap);
  const auto list = [=, this](const Cancelled& cancelled) -> absl::Status {
    ASSIGN_OR_RETURN(std::vector<DeviceView> views, devices_.List(deadline, cancelled));
    for (DeviceView& view : views) {
      devices_.AddLanguages(view, cancelled);
      *response->add_devices() = ToProto(view);
    }
    return absl::OkStatus();
  };
  return AnswerOn(tools_.executors.waiting, context, kProbeCap, list);
}

grpc::ServerUnaryReactor* DeviceService::GetDevice(grpc::CallbackServerContext* context,
                                                   const v1::GetDeviceRequest* request,
                                                   v1::Device* response) {
  const absl::Time deadline = DeadlineOf(*context, kProbeCap);
  const auto get = [=, this](const Cancelled& cancelled) -> absl::Status {
    ASSIGN_OR_RETURN(DeviceView view, NamedDevice(request->id(), devices_, deadline));
    devices_.AddLanguages(view, cancelled);
    *response = ToProto(view);
    return absl::OkStatus();
  };
  return AnswerOn(tools_.executors.waiting, context, kProbeCap, get);
}

grpc::ServerUnaryReactor* DeviceService::RetryDevice(grpc::CallbackServerContext* context,
                                                     const v1::RetryDeviceRequest* request,
                                                     v1::RetryDeviceResponse* response) {
  const absl::Time deadline = DeadlineOf(*context, kRetryCap);
  const auto retry = [=, this](const Cancelled& cancelled) -> absl::Status {
    workers_.compilers().ForgetMissing();
    ASSIGN_OR_RETURN(std::vector<DeviceView> views,
                     devices_.Retry(request->id(), deadline, cancelled));
    for (const DeviceView& view : views) *response->add_devices() = ToProto(view);
    return absl::OkStatus();
  };
  return AnswerOn(retries_, context, kRetryCap, retry);
}

grpc::ServerWriteReactor<v1::MeasureCeilingsEvent>* DeviceService::MeasureCeilings(
    grpc::CallbackServerContext* context, const v1::MeasureCeilingsRequest* request) {
  using Reactor = FeedReactor<v1::MeasureCeilingsEvent>;
  std::shared_ptr<Reactor> reactor = Reactor::Make(tools_.ticker);
  const absl::Time deadline = DeadlineOf(*context, kProbeCap);
  StartJobCall<Reactor>(
      tools_, reactor,
      [=, this, owner = tools_.principals.Of(*context).name,
       asked = *request](const Cancelled& cancelled) -> absl::StatusOr<Followed<Reactor>> {
        if (asked.processes() > kCeilingProcessesMax) {
          return absl::InvalidArgumentError(
              absl::StrCat(asked.processes(), " processes; at most ", kCeilingProcessesMax));
        }
        ASSIGN_OR_RETURN(const DeviceChoice choice,
                         ChooseDevice(asked.device(), devices_, deadline, cancelled));
        std::shared_ptr<Job> job;
        if (!asked.remeasure() && HasFreshSuite(choice.view)) {
          job = KnownAlready(choice.view);
        } else {
          const auto work =
              std::make_shared<CeilingsJob>(store_, workers_, devices_, asked.processes());
          ASSIGN_OR_RETURN(job, tools_.scheduler.Submit({.kind = db::JobKind::kCeilings,
                                                         .owner = owner,
                                                         .subject = choice.view.status.info.name},
                                                        choice.ids, work));
        }
        return Followed<Reactor>{job,
                                 StepsAndResults(job, &v1::MeasureCeilingsEvent::mutable_device)};
      });
  return reactor.get();
}

}  // namespace tune::server
