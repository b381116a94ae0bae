// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "server/comparison/peer_lease.h"
#include "server/jobs/job_kinds.h"
#include "tune/v1/comparison.grpc.pb.h"

namespace tune::server {

// Thread-safe.
class ComparisonService : public v1::CompareService::CallbackService {
 public:
  // All must outlive the service.
  ComparisonService(PeerLeases& leases, const JobTools& jobs) : leases_(leases), jobs_(jobs) {}

  grpc::ServerUnaryReactor* SubmitComparison(grpc::CallbackServerContext* context,
                                             const v1::SubmitComparisonRequest* request,
                                             v1::Job* response) override {
    return SubmitJob(jobs_, db::JobKind::kComparison, context, *request, response);
  }
  grpc::ServerUnaryReactor* AnswerPeer(grpc::CallbackServerContext* context,
                                       const v1::AnswerPeerRequest* request,
                                       v1::AnswerPeerResponse* response) override;
  grpc::ServerUnaryReactor* ListComparisons(grpc::CallbackServerContext* context,
                                            const v1::ListComparisonsRequest* request,
                                            v1::ListComparisonsResponse* response) override;
  grpc::ServerUnaryReactor* GetComparison(grpc::CallbackServerContext* context,
                                          const v1::GetComparisonRequest* request,
                                          v1::Comparison* response) override;

 private:
  // From the caller, what was said of kernels of others.
  void Hide(const std::string& owner, v1::Comparison& comparison) const;

  PeerLeases& leases_;
  const JobTools jobs_;
};

}  // namespace tune::server
