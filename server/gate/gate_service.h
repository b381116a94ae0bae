// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "absl/status/status.h"
#include "db/store.h"
#include "server/jobs/job_kinds.h"
#include "tune/v1/gate.grpc.pb.h"

namespace tune::server {

// Thread-safe.
class GateService : public v1::GateService::CallbackService {
 public:
  explicit GateService(const JobTools& tools) : store_(tools.store), tools_(tools) {}

  grpc::ServerUnaryReactor* SubmitGate(grpc::CallbackServerContext* context,
                                       const v1::SubmitGateRequest* request,
                                       v1::Job* response) override {
    return SubmitJob(tools_, db::JobKind::kGate, context, *request, response);
  }
  grpc::ServerUnaryReactor* ListGates(grpc::CallbackServerContext* context,
                                      const v1::ListGatesRequest* request,
                                      v1::ListGatesResponse* response) override;
  grpc::ServerUnaryReactor* GetGate(grpc::CallbackServerContext* context,
                                    const v1::GetGateRequest* request,
                                    v1::GateRun* response) override;
  grpc::ServerUnaryReactor* RecomputeGate(grpc::CallbackServerContext* context,
                                          const v1::RecomputeGateRequest* request,
                                          v1::RecomputeGateResponse* response) override;
  grpc::ServerUnaryReactor* ResampleGate(grpc::CallbackServerContext* context,
                                         const v1::ResampleGateRequest* request,
                                         v1::ResampleGateResponse* response) override;
  grpc::ServerUnaryReactor* SetBaseline(grpc::CallbackServerContext* context,
                                        const v1::SetBaselineRequest* request,
                                        v1::SetBaselineResponse* response) override;
  grpc::ServerUnaryReactor* ListBaselines(grpc::CallbackServerContext* context,
                                          const v1::ListBaselinesRequest* request,
                                          v1::ListBaselinesResponse* response) override;
  grpc::ServerUnaryReactor* GetHistory(grpc::CallbackServerContext* context,
                                       const v1::GetHistoryRequest* request,
                                       v1::GetHistoryResponse* response) override;

 private:
  // From the caller, what was said of kernels and jobs of others.
  void Hide(const db::JobRow& job, v1::GateRun& run) const;

  db::Store& store_;
  const JobTools tools_;
};

}  // namespace tune::server
