// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "db/store.h"
#include "server/rpc/executor.h"
#include "server/supervision/workers.h"
#include "server/jobs/scheduler.h"
#include "server/jobs/watch_ticker.h"
#include "server/records/record_service.h"
#include "tune/v1/server.grpc.pb.h"

namespace tune::server {

// What does not change while the server runs.
struct ServerIdentity {
  std::string version;
  std::string address;
  std::string state_dir;
  bool embedded = false;
  int64_t started_unix_ms = 0;
};

// Thread-safe.
class ServerService : public v1::ServerService::CallbackService {
 public:
  ServerService(ServerIdentity identity, const WatchTicker& ticker, db::Store& store,
                const Scheduler& scheduler, Workers& workers, const RecordBook& records,
                Executors& executors);

  grpc::ServerUnaryReactor* GetStatus(grpc::CallbackServerContext* context,
                                      const v1::GetStatusRequest* request,
                                      v1::ServerStatus* response) override;

 private:
  const ServerIdentity identity_;
  const WatchTicker& ticker_;
  db::Store& store_;
  const Scheduler& scheduler_;
  Workers& workers_;
  const RecordBook& records_;
  // Of its own: what others wait for, it does not.
  Executor executor_{/*threads_max=*/2, /*queue_max=*/256};
};

}  // namespace tune::server
