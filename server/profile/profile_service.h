// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "server/profile/profile_job.h"
#include "server/rpc/executor.h"
#include "tune/v1/profile.grpc.pb.h"

namespace tune::server {

// Thread-safe. What runs on a device has threads of its own.
class ProfileService : public v1::ProfileService::CallbackService {
 public:
  ProfileService(const ProfileTools& tools, Executors& executors)
      : tools_(tools), executors_(executors) {}

  grpc::ServerWriteReactor<v1::ProfileEvent>* RunProfile(
      grpc::CallbackServerContext* context, const v1::RunProfileRequest* request) override;
  grpc::ServerUnaryReactor* ListProfiles(grpc::CallbackServerContext* context,
                                         const v1::ListProfilesRequest* request,
                                         v1::ListProfilesResponse* response) override;
  grpc::ServerWriteReactor<v1::CalibrateEvent>* Calibrate(
      grpc::CallbackServerContext* context, const v1::CalibrateRequest* request) override;
  grpc::ServerUnaryReactor* GetCalibration(grpc::CallbackServerContext* context,
                                           const v1::GetCalibrationRequest* request,
                                           v1::Calibration* response) override;

  // Ends what runs. Call before the server is shut down.
  void Stop() { jobs_.Stop(); }

 private:
  const ProfileTools tools_;
  Executors& executors_;
  Executor jobs_{/*threads_max=*/4, /*queue_max=*/16};
};

}  // namespace tune::server
