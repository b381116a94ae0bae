// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "server/devices.h"
#include "server/executor.h"
#include "tune/v1/device.grpc.pb.h"

namespace tune::server {

// Thread-safe.
class DeviceService : public v1::DeviceService::CallbackService {
 public:
  DeviceService(const Devices& devices, Executor& executor)
      : devices_(devices), executor_(executor) {}

  grpc::ServerUnaryReactor* ListDevices(grpc::CallbackServerContext* context,
                                        const v1::ListDevicesRequest* request,
                                        v1::ListDevicesResponse* response) override;
  grpc::ServerUnaryReactor* GetDevice(grpc::CallbackServerContext* context,
                                      const v1::GetDeviceRequest* request,
                                      v1::Device* response) override;

 private:
  const Devices& devices_;
  Executor& executor_;
};

}  // namespace tune::server
