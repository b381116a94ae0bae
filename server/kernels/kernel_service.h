// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "server/access/principals.h"
#include "server/jobs/watch_ticker.h"
#include "server/kernels/catalogue.h"
#include "server/kernels/space_solver.h"
#include "server/rpc/executor.h"
#include "server/supervision/workers.h"
#include "tune/v1/catalogue.grpc.pb.h"

namespace tune::server {

// Thread-safe. Checks compile, which may take minutes: they have threads of their own.
class KernelService : public v1::KernelService::CallbackService {
 public:
  // `principals` is null in a program that serves itself alone.
  KernelService(const Catalogue& catalogue, Workers& workers, SpaceSolver& solver,
                WatchTicker& ticker, Executors& executors, const Principals* principals)
      : catalogue_(catalogue),
        workers_(workers),
        solver_(solver),
        ticker_(ticker),
        executors_(executors),
        principals_(principals) {}

  grpc::ServerUnaryReactor* ListKernels(grpc::CallbackServerContext* context,
                                        const v1::ListKernelsRequest* request,
                                        v1::ListKernelsResponse* response) override;
  grpc::ServerUnaryReactor* GetKernel(grpc::CallbackServerContext* context,
                                      const v1::GetKernelRequest* request,
                                      v1::Kernel* response) override;
  grpc::ServerWriteReactor<v1::CheckKernelEvent>* CheckKernel(
      grpc::CallbackServerContext* context, const v1::CheckKernelRequest* request) override;

  grpc::ServerUnaryReactor* DescribeSpace(grpc::CallbackServerContext* context,
                                          const v1::DescribeSpaceRequest* request,
                                          v1::DescribeSpaceResponse* response) override;
  grpc::ServerUnaryReactor* SampleSpace(grpc::CallbackServerContext* context,
                                        const v1::SampleSpaceRequest* request,
                                        v1::SampleSpaceResponse* response) override;

  // Ends the checks that run. Call before the server is shut down.
  void Stop() { checks_.Stop(); }

 private:
  // A catalogue kernel with its spaces, which are built on first use and kept.
  v1::Kernel Describe(const Kernel& kernel, const Cancelled& cancelled);
  std::set<std::string> TargetsShown();
  // Targets to ask about, this host's devices first.
  std::vector<std::string> TargetsPreferred();

  const Catalogue& catalogue_;
  Workers& workers_;
  SpaceSolver& solver_;
  WatchTicker& ticker_;
  Executors& executors_;
  const Principals* const principals_;
  Executor checks_{/*threads_max=*/8, /*queue_max=*/32, Executor::Priority::kNormal,
                   /*threads_per_principal=*/2};
  Mutex mutex_;
  std::map<std::string, v1::Kernel> described_ ABSL_GUARDED_BY(mutex_);  // by name and targets
};

}  // namespace tune::server
