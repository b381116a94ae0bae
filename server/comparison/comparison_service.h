// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "server/comparison/comparison_plan.h"
#include "server/comparison/peer_lease.h"
#include "server/jobs/job_call.h"
#include "server/supervision/workers.h"
#include "tune/v1/comparison.grpc.pb.h"

namespace tune::server {

// Thread-safe.
class ComparisonService : public v1::CompareService::CallbackService {
 public:
  // All must outlive the service.
  ComparisonService(db::Store& store, Workers& workers, const ComparisonTools& tools,
                    const JobTools& jobs)
      : store_(store), workers_(workers), tools_(tools), jobs_(jobs) {}

  grpc::ServerWriteReactor<v1::ComparisonEvent>* RunComparison(
      grpc::CallbackServerContext* context, const v1::RunComparisonRequest* request) override;
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
  db::Store& store_;
  Workers& workers_;
  const ComparisonTools tools_;
  const JobTools jobs_;
  PeerLeases leases_;
};

}  // namespace tune::server
