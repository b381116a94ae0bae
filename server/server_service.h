// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

#include "db/store.h"
#include "server/access/principals.h"
#include "server/access/tokens.h"
#include "server/jobs/scheduler.h"
#include "server/jobs/watch_ticker.h"
#include "server/records/record_service.h"
#include "server/rpc/certificate_files.h"
#include "server/rpc/connections.h"
#include "server/rpc/executor.h"
#include "server/supervision/workers.h"
#include "tune/v1/server.grpc.pb.h"

namespace tune::server {

// The parts of a status that do not change while the server runs.
struct ServerIdentity {
  std::string version;
  std::string state_dir;
  bool embedded = false;
  std::string address;      // several are separated by ", "
  std::string state_owner;  // the process that has the state folder, if this one only reads it
  int64_t started_unix_ms = 0;
  std::string web_url;         // of the daemon's page; empty: it has none
  std::function<void()> stop;  // asks the program to end; none: no call can
};

// The sources of a status. All must outlive the service.
struct ServerParts {
  const WatchTicker& ticker;
  db::Store& store;
  Scheduler& scheduler;
  Workers& workers;
  const RecordBook& records;
  const Principals& principals;
  const Tokens& tokens;
  const Connections& tcp_connections;
  const Connections& unix_connections;
  const CertificateFiles* certificates = nullptr;  // null: nothing listens on TCP
};

// Thread-safe.
class ServerService : public v1::ServerService::CallbackService {
 public:
  ServerService(ServerIdentity identity, const ServerParts& parts, Executors& executors);

  grpc::ServerUnaryReactor* GetStatus(grpc::CallbackServerContext* context,
                                      const v1::GetStatusRequest* request,
                                      v1::ServerStatus* response) override;
  grpc::ServerUnaryReactor* ClearCompileCache(grpc::CallbackServerContext* context,
                                              const v1::ClearCompileCacheRequest* request,
                                              v1::ClearCompileCacheResponse* response) override;

  grpc::ServerUnaryReactor* PruneJobs(grpc::CallbackServerContext* context,
                                      const v1::PruneJobsRequest* request,
                                      v1::PruneJobsResponse* response) override;
  grpc::ServerUnaryReactor* Drain(grpc::CallbackServerContext* context,
                                  const v1::DrainRequest* request,
                                  v1::DrainResponse* response) override;
  grpc::ServerUnaryReactor* ListHosts(grpc::CallbackServerContext* context,
                                      const v1::ListHostsRequest* request,
                                      v1::ListHostsResponse* response) override;
  grpc::ServerUnaryReactor* DrainHost(grpc::CallbackServerContext* context,
                                      const v1::DrainHostRequest* request,
                                      v1::DrainHostResponse* response) override;
  grpc::ServerUnaryReactor* StopServer(grpc::CallbackServerContext* context,
                                       const v1::StopServerRequest* request,
                                       v1::StopServerResponse* response) override;

 private:
  absl::Status AddStored(const Principal& caller, v1::ServerStatus& status) const;

  const ServerIdentity identity_;
  const ServerParts parts_;
  Executors& executors_;
  // The service has an executor of its own, so that it does not wait for what others wait for.
  Executor executor_{/*threads_max=*/2, /*queue_max=*/256};
};

}  // namespace tune::server
