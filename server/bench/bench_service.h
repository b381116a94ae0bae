// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "server/jobs/job_kinds.h"
#include "tune/v1/bench.grpc.pb.h"

namespace tune::server {

// Thread-safe.
class BenchService : public v1::BenchService::CallbackService {
 public:
  explicit BenchService(const JobTools& tools) : tools_(tools) {}

  grpc::ServerUnaryReactor* SubmitBench(grpc::CallbackServerContext* context,
                                        const v1::SubmitBenchRequest* request,
                                        v1::Job* response) override {
    return SubmitJob(tools_, db::JobKind::kBench, context, *request, response);
  }

 private:
  const JobTools tools_;
};

}  // namespace tune::server
