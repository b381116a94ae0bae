// SPDX-License-Identifier: Apache-2.0
#include "server/device_service.h"

#include "server/convert.h"
#include "server/unary.h"
#include "tuner/status_macros.h"

namespace tune::server {
namespace {

constexpr absl::Duration kProbeCap = absl::Seconds(60);

}  // namespace

grpc::ServerUnaryReactor* DeviceService::ListDevices(grpc::CallbackServerContext* context,
                                                     const v1::ListDevicesRequest*,
                                                     v1::ListDevicesResponse* response) {
  const absl::Time deadline = DeadlineOf(*context, kProbeCap);
  return AnswerOn(executor_, context, [=, this]() -> absl::Status {
    ASSIGN_OR_RETURN(std::vector<DeviceView> views, devices_.List(deadline));
    for (const DeviceView& view : views) *response->add_devices() = ToProto(view);
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* DeviceService::GetDevice(grpc::CallbackServerContext* context,
                                                   const v1::GetDeviceRequest* request,
                                                   v1::Device* response) {
  const absl::Time deadline = DeadlineOf(*context, kProbeCap);
  return AnswerOn(executor_, context, [=, this]() -> absl::Status {
    ASSIGN_OR_RETURN(DeviceView view, devices_.Choose(request->id(), deadline));
    *response = ToProto(view);
    return absl::OkStatus();
  });
}

}  // namespace tune::server
