// SPDX-License-Identifier: Apache-2.0
// The parts of the server. server.cc starts them one by one, and stops them.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "db/store.h"
#include "grpcpp/grpcpp.h"
#include "server/access/guard.h"
#include "server/access/principals.h"
#include "server/access/tokens.h"
#include "server/artifacts/artifact_folder.h"
#include "server/comparison/peer_lease.h"
#include "server/devices/devices.h"
#include "server/jobs/fleet.h"
#include "server/jobs/job_kinds.h"
#include "server/jobs/scheduler.h"
#include "server/jobs/watch_ticker.h"
#include "server/kernels/catalogue.h"
#include "server/kernels/space_solver.h"
#include "server/metrics/metrics.h"
#include "server/metrics/metrics_listener.h"
#include "server/records/record_book.h"
#include "server/rpc/certificate_files.h"
#include "server/rpc/connections.h"
#include "server/rpc/executor.h"
#include "server/rpc/tcp_listener.h"
#include "server/rpc/unix_listener.h"
#include "server/rpc/unix_peers.h"
#include "server/server.h"
#include "server/snapshots/snapshot_folder.h"
#include "server/snapshots/snapshot_writer.h"
#include "server/snapshots/vault.h"
#include "server/state/paths.h"
#include "server/state/run_mark.h"
#include "server/supervision/limits.h"
#include "server/supervision/workers.h"
#include "server/sweep/misses.h"
#include "server/sweep/sweep_runner.h"
#include "server/sweep/sweeps.h"
#include "server/upkeep.h"

namespace tune::server {

// A part of the server. It is started after the modules that it was constructed with, which outlive
// it; Start sets its public members. The server stops its modules in two rounds from the last to
// the first. The first round, BeginStop, makes everything end soon that a thread of another module
// may wait for: a job, a space, the probe of a device. The second round, Stop, ends the module's
// own threads, which wait for nothing by then.
class Module {
 public:
  Module() = default;
  virtual ~Module() = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  virtual absl::Status Start() = 0;
  // Both are called once after Start was, whether it succeeded or not.
  virtual void BeginStop() {}
  // Calls in flight are cancelled after `patience`.
  virtual void Stop(absl::Duration patience) { (void)patience; }
};

std::string StorePath(const std::string& state_dir);

// The store of the state folder.
struct StoreModule final : Module {
  StoreModule(const ServerOptions& server_options, Metrics* event_metrics)
      : options(server_options), metrics(event_metrics), use(server_options.store_use) {}

  absl::Status Start() override;
  // The process that owns the store, if this one only reads it.
  std::string other_owner() const {
    return store->writable() ? "" : Server::OwnerOf(options.state_dir);
  }
  // Logs which rows could not be read so far. Checks a file that is too large to be checked before
  // it serves, on a thread of `executor`.
  void Report(Executor& executor);

  const ServerOptions& options;
  Metrics* const metrics;            // of every module; null: nobody reads them
  StoreUse use;                      // kOwn also if a store to be read was not there
  bool has_no_jobs = false;          // that this server would take up
  std::unique_ptr<db::Store> store;  // null if the server has none
};

// The tools to make and measure kernels: the catalogue, the solver of their spaces, the worker
// processes, and the devices.
struct DevicesModule final : Module {
  explicit DevicesModule(const StoreModule& store_module) : store(store_module) {}

  absl::Status Start() override;
  void BeginStop() override;

  const StoreModule& store;
  std::optional<PrivateFolder> scratch;  // of a server that shares its state folder
  std::unique_ptr<Workers> workers;
  Catalogue catalogue;
  std::unique_ptr<Devices> devices;  // null without a store
  SpaceSolver solver;
};

// gRPC's server and the tools of its calls: the threads of their handlers and the ticker of their
// watches.
struct CallsModule final : Module {
  explicit CallsModule(const Limits& server_limits) : limits(server_limits) {}

  absl::Status Start() override;
  void BeginStop() override { executors.BeginStop(); }
  void Stop(absl::Duration patience) override;

  // Starts gRPC's server. `add` registers the services, which must not end before Stop.
  absl::Status Serve(const std::function<void(grpc::ServerBuilder& builder)>& add);

  const Limits& limits;
  Executors executors;
  std::unique_ptr<WatchTicker> ticker;
  std::unique_ptr<grpc::Server> server;  // from Serve to Stop
};

// The addresses that clients connect to, and the connections that came in by them.
struct ListenersModule final : Module {
  ListenersModule(const ServerOptions& server_options, CallsModule& calls_module);

  // Bind's errors of options that are wrong.
  static absl::Status Check(const ServerOptions& options);
  // Takes the addresses and reads the certificates. Called before any module is started: an address
  // that cannot be listened at is an error before the state is opened and devices are tried.
  absl::Status Bind();
  // Has gRPC serve what the TCP listeners accept.
  void AddTo(grpc::ServerBuilder& builder);
  // REQUIRES: gRPC's server serves.
  absl::Status Start() override;
  void BeginStop() override;

  const ServerOptions& options;
  CallsModule& calls;
  std::vector<std::string> addresses;  // with the ports that were taken
  UnixPeers peers;
  std::unique_ptr<CertificateFiles> certificates;  // null: nothing listens on TCP
  Connections tcp_connections;
  Connections unix_connections;

 private:
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor_;  // of TCP
  std::vector<std::unique_ptr<TcpListener>> tcp_listeners_;
  std::vector<std::unique_ptr<UnixListener>> unix_listeners_;
};

// Tokens, and the identities of callers.
struct AccessModule final : Module {
  AccessModule(StoreModule& store_module, CallsModule& calls_module,
               ListenersModule& listeners_module)
      : store(store_module), calls(calls_module), listeners(listeners_module) {}

  absl::Status Start() override;
  void BeginStop() override { upkeep = nullptr; }

  StoreModule& store;
  CallsModule& calls;
  ListenersModule& listeners;
  std::unique_ptr<AuditLog> audit;  // null: none is kept
  std::unique_ptr<Tokens> tokens;
  std::unique_ptr<Principals> principals;
  std::unique_ptr<Upkeep> upkeep;  // null: the store is only read
};

// The records, their snapshots and their artifacts.
struct RecordsModule final : Module {
  RecordsModule(StoreModule& store_module, DevicesModule& devices_module)
      : store(store_module), devices(devices_module) {}

  absl::Status Start() override;
  void Stop(absl::Duration patience) override;

  StoreModule& store;
  DevicesModule& devices;
  std::unique_ptr<RecordBook> records;
  std::unique_ptr<SnapshotFolder> snapshots;
  std::unique_ptr<ArtifactFolder> artifacts;
  std::unique_ptr<Vault> vault;
  std::unique_ptr<SnapshotWriter> snapshot_writer;
};

// The scheduler of jobs, and the sweeps that an earlier server left.
struct JobsModule final : Module {
  JobsModule(StoreModule& store_module, DevicesModule& devices_module, CallsModule& calls_module,
             AccessModule& access_module, RecordsModule& records_module)
      : store(store_module),
        devices(devices_module),
        calls(calls_module),
        access(access_module),
        records(records_module) {}

  absl::Status Start() override;
  void BeginStop() override;
  void Stop(absl::Duration patience) override;

  // REQUIRES: it is started.
  JobTools tools() const {
    return {*scheduler,   *calls.ticker, calls.executors,       *access.principals,
            *store.store, kinds,         store.options.web_url, fleet.get()};
  }

  StoreModule& store;
  DevicesModule& devices;
  CallsModule& calls;
  AccessModule& access;
  RecordsModule& records;
  std::unique_ptr<RunMark> run_mark;  // of a daemon that owns its state folder
  std::unique_ptr<SweepRunner> runner;
  std::unique_ptr<Sweeps> sweeps;
  PeerLeases leases;  // of comparisons
  JobKinds kinds;
  std::unique_ptr<Scheduler> scheduler;  // its jobs use all of the above
  std::unique_ptr<Fleet> fleet;          // null: no other host shares the store

 private:
  Scheduler::Options SchedulerOptions() const;
  absl::Status JoinFleet(const LeftJobRules& left);
  DeviceCare Care() const;
};

class DeviceService;
class KernelService;

// The services, each behind its guard, and gRPC's server that serves them. A server without a store
// serves kernels alone, in its own process, where everybody may call.
struct ServicesModule final : Module {
  // `jobs_module` has the modules that this one uses.
  explicit ServicesModule(JobsModule& jobs_module) : jobs(jobs_module) {}
  ~ServicesModule() override;

  absl::Status Start() override;
  void Stop(absl::Duration patience) override;

 private:
  absl::Status ServeKernels();
  void AddJobServices();
  void AddRecordServices();
  void AddServerServices();
  // Constructs a `Service`, which implements `Contract`.
  template <typename Contract, typename Service, typename... Arguments>
  Service* Add(Arguments&&... arguments);

  JobsModule& jobs;
  std::unique_ptr<Misses> misses_;
  std::vector<std::string> contracts_;  // the names of the services
  std::vector<std::unique_ptr<grpc::Service>> services_;
  std::vector<std::unique_ptr<Guard>> guards_;
  KernelService* kernel_service_ = nullptr;
  DeviceService* device_service_ = nullptr;
};

// The port at which metrics are read.
struct MetricsModule final : Module {
  // `jobs_module` has the modules whose figures are read.
  explicit MetricsModule(JobsModule& jobs_module) : jobs(jobs_module) {}

  absl::Status Start() override;
  void BeginStop() override { listener = nullptr; }

  JobsModule& jobs;
  const absl::Time started = absl::Now();
  std::unique_ptr<MetricsListener> listener;  // null: they are not served

 private:
  std::string Text() const;
};

}  // namespace tune::server
