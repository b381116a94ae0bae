// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "server/devices/devices.h"
#include "server/rpc/executor.h"
#include "server/supervision/workers.h"
#include "tune/v1/device.grpc.pb.h"

namespace tune::server {

// Thread-safe.
class DeviceService : public v1::DeviceService::CallbackService {
 public:
  DeviceService(db::Store& store, Workers& workers, Devices& devices, Executors& executors)
      : store_(store), workers_(workers), devices_(devices), executors_(executors) {}

  grpc::ServerUnaryReactor* ListDevices(grpc::CallbackServerContext* context,
                                        const v1::ListDevicesRequest* request,
                                        v1::ListDevicesResponse* response) override;
  grpc::ServerUnaryReactor* GetDevice(grpc::CallbackServerContext* context,
                                      const v1::GetDeviceRequest* request,
                                      v1::Device* response) override;

  grpc::ServerUnaryReactor* RetryDevice(grpc::CallbackServerContext* context,
                                        const v1::RetryDeviceRequest* request,
                                        v1::RetryDeviceResponse* response) override;

  grpc::ServerWriteReactor<v1::MeasureCeilingsEvent>* MeasureCeilings(
      grpc::CallbackServerContext* context, const v1::MeasureCeilingsRequest* request) override;

  // Ends what measures. Call before the server is shut down.
  void Stop() { jobs_.Stop(); }

 private:
  db::Store& store_;
  Workers& workers_;
  Devices& devices_;
  Executors& executors_;
  Executor jobs_{/*threads_max=*/4, /*queue_max=*/16};  // a device's ceilings take a minute
};

}  // namespace tune::server
