// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "server/devices/devices.h"
#include "server/jobs/job_kinds.h"
#include "tune/v1/profile.grpc.pb.h"

namespace tune::server {

// Thread-safe.
class ProfileService : public v1::ProfileService::CallbackService {
 public:
  // All must outlive the service.
  ProfileService(const Devices& devices, const JobTools& jobs) : devices_(devices), jobs_(jobs) {}

  grpc::ServerUnaryReactor* SubmitProfile(grpc::CallbackServerContext* context,
                                          const v1::SubmitProfileRequest* request,
                                          v1::Job* response) override {
    return SubmitJob(jobs_, db::JobKind::kProfile, context, *request, response);
  }
  grpc::ServerUnaryReactor* ListProfiles(grpc::CallbackServerContext* context,
                                         const v1::ListProfilesRequest* request,
                                         v1::ListProfilesResponse* response) override;
  grpc::ServerUnaryReactor* SubmitCalibration(grpc::CallbackServerContext* context,
                                              const v1::SubmitCalibrationRequest* request,
                                              v1::Job* response) override {
    return SubmitJob(jobs_, db::JobKind::kCalibration, context, *request, response);
  }
  grpc::ServerUnaryReactor* GetCalibration(grpc::CallbackServerContext* context,
                                           const v1::GetCalibrationRequest* request,
                                           v1::Calibration* response) override;

 private:
  const Devices& devices_;
  const JobTools jobs_;
};

}  // namespace tune::server
