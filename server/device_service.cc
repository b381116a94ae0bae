// SPDX-License-Identifier: Apache-2.0
#include "server/device_service.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/steady_time.h"
#include "server/devices/device_convert.h"
#include "server/rpc/unary.h"
#include "server/workload/workload.h"

namespace tune::server {
namespace {

constexpr absl::Duration kProbeCap = absl::Seconds(60);
constexpr absl::Duration kRetryCap = absl::Hours(1);

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

}  // namespace tune::server
