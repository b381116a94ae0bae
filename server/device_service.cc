// SPDX-License-Identifier: Apache-2.0
#include "server/device_service.h"

#include <memory>
#include <utility>

#include "server/ceilings/ceilings_job.h"
#include "server/devices/device_convert.h"
#include "server/rpc/event_reactor.h"
#include "server/rpc/grpc_status.h"
#include "server/rpc/unary.h"
#include "server/wire/nouns.h"
#include "tuner/status_macros.h"
#include "tuner/steady_time.h"

namespace tune::server {
namespace {

constexpr absl::Duration kProbeCap = absl::Seconds(60);
constexpr absl::Duration kMeasureCap = absl::Hours(1);

}  // namespace

grpc::ServerUnaryReactor* DeviceService::ListDevices(grpc::CallbackServerContext* context,
                                                     const v1::ListDevicesRequest*,
                                                     v1::ListDevicesResponse* response) {
  const absl::Time deadline = DeadlineOf(*context, kProbeCap);
  return AnswerOn(executors_.waiting, context, [=, this]() -> absl::Status {
    ASSIGN_OR_RETURN(std::vector<DeviceView> views, devices_.List(deadline));
    for (const DeviceView& view : views) *response->add_devices() = ToProto(view);
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* DeviceService::GetDevice(grpc::CallbackServerContext* context,
                                                   const v1::GetDeviceRequest* request,
                                                   v1::Device* response) {
  const absl::Time deadline = DeadlineOf(*context, kProbeCap);
  return AnswerOn(executors_.waiting, context, [=, this]() -> absl::Status {
    ASSIGN_OR_RETURN(DeviceView view, devices_.Choose(request->id(), deadline));
    *response = ToProto(view);
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* DeviceService::RetryDevice(grpc::CallbackServerContext* context,
                                                     const v1::RetryDeviceRequest* request,
                                                     v1::RetryDeviceResponse* response) {
  const absl::Time deadline = DeadlineOf(*context, kMeasureCap);
  const auto retry = [=, this](const Cancelled& cancelled) -> absl::Status {
    ASSIGN_OR_RETURN(std::vector<DeviceView> views,
                     devices_.Retry(request->id(), deadline, cancelled));
    for (const DeviceView& view : views) *response->add_devices() = ToProto(view);
    return absl::OkStatus();
  };
  return AnswerOn(jobs_, context, kMeasureCap, retry);
}

grpc::ServerWriteReactor<v1::MeasureCeilingsEvent>* DeviceService::MeasureCeilings(
    grpc::CallbackServerContext* context, const v1::MeasureCeilingsRequest* request) {
  using Reactor = EventReactor<v1::MeasureCeilingsEvent>;
  std::shared_ptr<Reactor> reactor = Reactor::Make();
  const absl::Time deadline = DeadlineOf(*context, kMeasureCap);
  const CeilingsOrder order{.device = request->device(),
                            .remeasure = request->remeasure(),
                            .processes = request->processes()};
  reactor->RunOn(jobs_, [this, reactor, deadline, order] {
    const Cancelled cancelled = [&] {
      return jobs_.stopping() || reactor->cancelled() || SteadyNow() > deadline;
    };
    const TellStep tell = [&](const std::string& step) {
      v1::MeasureCeilingsEvent event;
      event.set_step(step);
      reactor->Send(std::move(event));
    };
    absl::StatusOr<DeviceView> device =
        MeasureAllCeilings(order, store_, workers_, devices_, deadline, cancelled, tell);
    if (device.ok()) {
      v1::MeasureCeilingsEvent event;
      *event.mutable_device() = ToProto(*device);
      reactor->Send(std::move(event));
    }
    reactor->End(ToGrpc(device.status()));
  });
  return reactor.get();
}

}  // namespace tune::server
