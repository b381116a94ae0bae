// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "server/devices/devices.h"
#include "server/jobs/job_kinds.h"
#include "server/supervision/workers.h"
#include "tune/v1/device.grpc.pb.h"

namespace tune::server {

// Thread-safe.
class DeviceService : public v1::DeviceService::CallbackService {
 public:
  DeviceService(Workers& workers, const Devices& devices, const JobTools& tools)
      : workers_(workers), devices_(devices), tools_(tools) {}

  grpc::ServerUnaryReactor* ListDevices(grpc::CallbackServerContext* context,
                                        const v1::ListDevicesRequest* request,
                                        v1::ListDevicesResponse* response) override;
  grpc::ServerUnaryReactor* GetDevice(grpc::CallbackServerContext* context,
                                      const v1::GetDeviceRequest* request,
                                      v1::Device* response) override;

  grpc::ServerUnaryReactor* RetryDevice(grpc::CallbackServerContext* context,
                                        const v1::RetryDeviceRequest* request,
                                        v1::RetryDeviceResponse* response) override;

  grpc::ServerUnaryReactor* SubmitCeilings(grpc::CallbackServerContext* context,
                                           const v1::SubmitCeilingsRequest* request,
                                           v1::Job* response) override {
    return SubmitJob(tools_, db::JobKind::kCeilings, context, *request, response);
  }

  // Ends the tries of devices. Call before the server is shut down.
  void Stop() { retries_.Stop(); }

 private:
  Workers& workers_;
  const Devices& devices_;
  const JobTools tools_;
  Executor retries_{/*threads_max=*/4, /*queue_max=*/16};  // which wait for a device's turn
};

}  // namespace tune::server
