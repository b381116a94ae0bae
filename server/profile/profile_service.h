// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "server/jobs/job_call.h"
#include "server/profile/profile_job.h"
#include "tune/v1/profile.grpc.pb.h"

namespace tune::server {

// Thread-safe.
class ProfileService : public v1::ProfileService::CallbackService {
 public:
  ProfileService(const ProfileTools& tools, const JobTools& jobs) : tools_(tools), jobs_(jobs) {}

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

 private:
  const ProfileTools tools_;
  const JobTools jobs_;
};

}  // namespace tune::server
