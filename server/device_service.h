// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "server/devices/devices.h"
#include "server/jobs/job_call.h"
#include "server/supervision/workers.h"
#include "tune/v1/device.grpc.pb.h"

namespace tune::server {

// Thread-safe.
class DeviceService : public v1::DeviceService::CallbackService {
 public:
  DeviceService(db::Store& store, Workers& workers, const Devices& devices, const JobTools& tools)
      : store_(store), workers_(workers), devices_(devices), tools_(tools) {}

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

  // Ends the tries of devices. Call before the server is shut down.
  void Stop() { retries_.Stop(); }

 private:
  db::Store& store_;
  Workers& workers_;
  const Devices& devices_;
  const JobTools tools_;
  Executor retries_{/*threads_max=*/4, /*queue_max=*/16};  // which wait for a device's turn
};

}  // namespace tune::server
