// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <list>
#include <memory>
#include <mutex>
#include <set>
#include <thread>

#include "absl/status/status.h"
#include "db/store.h"
#include "server/devices/devices.h"
#include "server/rpc/executor.h"
#include "server/gate/gate_job.h"
#include "server/gate/gate_runner.h"
#include "server/supervision/workers.h"
#include "tune/v1/gate.grpc.pb.h"

namespace tune::server {

class GateReactor;

// Thread-safe. A run has a thread of its own; a few may run or wait at once.
class GateService : public v1::GateService::CallbackService {
 public:
  GateService(db::Store& store, Workers& workers, Devices& devices, Executors& executors);
  ~GateService() override { Stop(); }

  grpc::ServerBidiReactor<v1::RunGateRequest, v1::GateEvent>* RunGate(
      grpc::CallbackServerContext* context) override;
  grpc::ServerUnaryReactor* ListGates(grpc::CallbackServerContext* context,
                                      const v1::ListGatesRequest* request,
                                      v1::ListGatesResponse* response) override;
  grpc::ServerUnaryReactor* GetGate(grpc::CallbackServerContext* context,
                                    const v1::GetGateRequest* request,
                                    v1::GateRun* response) override;
  grpc::ServerUnaryReactor* ReplayGate(grpc::CallbackServerContext* context,
                                       const v1::ReplayGateRequest* request,
                                       v1::ReplayGateResponse* response) override;
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

  // Ends what runs; what was measured stays stored. Idempotent.
  void Stop();

 private:
  friend class GateReactor;
  void RunOn(const std::shared_ptr<GateReactor>& reactor);
  absl::StatusOr<GateJob> ReceiveJob(GateReactor& reactor, absl::Time deadline);
  absl::Status RunAndTell(GateReactor& reactor, absl::Time deadline);

  db::Store& store_;
  Workers& workers_;
  Devices& devices_;
  Executors& executors_;
  GateRunner runner_;
  std::atomic<bool> stopping_ = false;

  std::mutex mutex_;
  std::condition_variable changed_;
  int running_ = 0;  // guarded by mutex_
};

}  // namespace tune::server
