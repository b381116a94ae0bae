// SPDX-License-Identifier: Apache-2.0
#include "server/server.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>
#include <spdlog/spdlog.h>

#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/address.h"
#include "db/store.h"
#include "server/artifacts/artifact_folder.h"
#include "server/bench/bench_service.h"
#include "server/comparison/comparison_service.h"
#include "server/device_service.h"
#include "server/devices/devices.h"
#include "server/gate/gate_service.h"
#include "server/jobs/job_service.h"
#include "server/jobs/left_job.h"
#include "server/jobs/scheduler.h"
#include "server/jobs/watch_ticker.h"
#include "server/kernels/catalogue.h"
#include "server/kernels/kernel_service.h"
#include "server/kernels/space_solver.h"
#include "server/profile/profile_service.h"
#include "server/records/record_book.h"
#include "server/records/record_service.h"
#include "server/report/report_service.h"
#include "server/rpc/executor.h"
#include "server/rpc/listener.h"
#include "server/snapshots/snapshot_folder.h"
#include "server/snapshots/snapshot_service.h"
#include "server/snapshots/snapshot_text.h"
#include "server/snapshots/snapshot_writer.h"
#include "server/server_service.h"
#include "server/state/paths.h"
#include "server/supervision/workers.h"
#include "server/sweep/sweep_runner.h"
#include "server/sweep/sweep_service.h"
#include "server/sweep/sweeps.h"
#include "tuner/status_macros.h"

namespace tune::server {
namespace {

constexpr absl::Duration kWatchPeriod = absl::Milliseconds(250);
constexpr int kReceiveBytesMax = 24 << 20;  // a kernel's files have at most 20 MiB
constexpr int kConcurrentStreamsMax = 256;  // of one connection
constexpr uint32_t kLeftJobsMax = 100000;

std::string StorePath(const std::string& state_dir) { return state_dir + "/tune.db"; }

void SetLimits(const Limits& limits, grpc::ServerBuilder& builder) {
  builder.SetMaxReceiveMessageSize(kReceiveBytesMax);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kConcurrentStreamsMax);
  // Clients may ping every minute, also between calls; see docs/architecture.md.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 30'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 120'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 20'000);
  // A port belongs to one daemon.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  // Beyond it gRPC closes idle connections and ends calls with RESOURCE_EXHAUSTED.
  grpc::ResourceQuota quota("clients");
  quota.Resize(static_cast<size_t>(limits.connection_bytes));
  builder.SetResourceQuota(quota);
  // For reflection, the only synchronous service.
  builder.SetSyncServerOption(grpc::ServerBuilder::NUM_CQS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::MAX_POLLERS, 1);
}

}  // namespace

// In the order in which they depend on each other.
struct Server::Parts {
  ServerOptions options;
  std::string address;
  std::optional<PrivateFolder> scratch;  // of a server that shares its state folder
  std::unique_ptr<db::Store> store;      // null if it has none
  std::unique_ptr<Workers> workers;
  Catalogue catalogue;
  std::unique_ptr<Devices> devices;
  SpaceSolver solver;
  std::unique_ptr<RecordBook> records;
  std::unique_ptr<SnapshotFolder> snapshots;
  std::unique_ptr<ArtifactFolder> artifacts;
  std::unique_ptr<SnapshotWriter> snapshot_writer;
  std::unique_ptr<WatchTicker> ticker;
  std::unique_ptr<SweepRunner> runner;
  std::unique_ptr<Sweeps> sweeps;
  Executors executors;
  std::unique_ptr<Scheduler> scheduler;  // its jobs use all of the above

  std::unique_ptr<JobService> job_service;
  std::unique_ptr<SweepService> sweep_service;
  std::unique_ptr<KernelService> kernel_service;
  std::unique_ptr<DeviceService> device_service;
  std::unique_ptr<ProfileService> profile_service;
  std::unique_ptr<RecordService> record_service;
  std::unique_ptr<SnapshotService> snapshot_service;
  std::unique_ptr<BenchService> bench_service;
  std::unique_ptr<ReportService> report_service;
  std::unique_ptr<ServerService> server_service;
  std::unique_ptr<GateService> gate_service;
  std::unique_ptr<ComparisonService> comparison_service;
  std::unique_ptr<grpc::Server> grpc_server;

  absl::Status OpenStore();
  absl::Status OpenState();
  absl::Status StartWork();
  absl::Status OpenSnapshots();
  absl::Status EndLeftJobs();
  DeviceCare Care();
  // The process that has the store, if this one only reads it.
  std::string other_owner() const {
    return store->writable() ? "" : OwnerOf(options.state_dir);
  }
  absl::Status Serve();
  // What needs no store.
  absl::Status ServeKernels();
};

absl::Status Server::Parts::OpenStore() {
  if (options.store_use == StoreUse::kRead) {
    absl::StatusOr<std::unique_ptr<db::Store>> opened =
        db::Store::OpenToRead(StorePath(options.state_dir));
    const bool needs_owner =
        absl::IsNotFound(opened.status()) || absl::IsFailedPrecondition(opened.status());
    if (!needs_owner) {
      ASSIGN_OR_RETURN(store, std::move(opened));
      return absl::OkStatus();
    }
    options.store_use = StoreUse::kOwn;
  }
  RETURN_IF_ERROR(MakePrivateDir(options.state_dir));
  ASSIGN_OR_RETURN(store, db::Store::Open(StorePath(options.state_dir),
                                          {.drop_damaged_log = options.drop_damaged_log}));
  return absl::OkStatus();
}

absl::Status Server::Parts::OpenState() {
  if (options.store_use != StoreUse::kNone) {
    RETURN_IF_ERROR(OpenStore());
  } else {
    MakePrivateDir(options.state_dir).IgnoreError();  // for the compile cache, if it can be
  }
  if (options.store_use != StoreUse::kOwn) {
    ASSIGN_OR_RETURN(scratch, PrivateFolder::Make());
  }
  ASSIGN_OR_RETURN(IncludeRoots include_roots, IncludeRoots::Read(options.include_roots));
  ASSIGN_OR_RETURN(workers, Workers::Create({.state_dir = options.state_dir,
                                             .scratch_dir = scratch ? scratch->path() : "",
                                             .worker_dir = options.worker_dir,
                                             .limits = options.limits,
                                             .include_roots = std::move(include_roots),
                                             .triton_python = options.triton_python,
                                             .allow_weak_walls = options.allow_weak_walls,
                                             .compile_deadline = options.compile_deadline,
                                             .prepare_deadline = options.prepare_deadline,
                                             .run_deadline = options.run_deadline}));
  ticker = std::make_unique<WatchTicker>(
      WatchTicker::Options{.period = kWatchPeriod,
                           .watchers_max = options.limits.watchers,
                           .watchers_per_job_max = options.limits.watchers_per_job});
  ASSIGN_OR_RETURN(std::vector<CatalogueEntry> entries, LoadCatalogue());
  std::vector<absl::Status> faults;
  catalogue = Catalogue::Parse(entries, faults);
  for (const absl::Status& fault : faults) {
    spdlog::error("a kernel of the catalogue is left out: {}", fault.ToString());
  }
  spdlog::info("state in {}, {} kernels in the catalogue", options.state_dir,
               catalogue.kernels().size());
  return absl::OkStatus();
}

absl::Status Server::Parts::StartWork() {
  // Inside tunectl most commands need no device, and should not pay for one.
  devices = std::make_unique<Devices>(
      *workers, *store, options.embedded ? ProbeTime::kWhenAsked : ProbeTime::kAtOnce);
  ASSIGN_OR_RETURN(records, RecordBook::Open(*store, catalogue, *devices, solver));
  RETURN_IF_ERROR(OpenSnapshots());
  runner = std::make_unique<SweepRunner>(*store, *workers, *records, *artifacts, *snapshot_writer,
                                         solver);
  scheduler = std::make_unique<Scheduler>(
      Scheduler::Options{.unfinished_max = options.limits.unfinished_jobs,
                         .embedded = options.embedded},
      *store, devices->turns(), *ticker, Care());
  RETURN_IF_ERROR(EndLeftJobs());
  ASSIGN_OR_RETURN(
      sweeps, Sweeps::Start(
                  {.deaths_max = options.limits.job_deaths,
                   .embedded = options.embedded,
                   .other_owner = other_owner()},
                  *store, *scheduler, [this](SweepWork& work, JobContext& context) {
                    return runner->Run(work, context);
                  }));
  for (const db::UnreadableRow& row : store->UnreadableRows()) {
    spdlog::error("{} {} of the store is left out: {}", row.table, row.id, row.why);
  }
  return absl::OkStatus();
}

absl::Status Server::Parts::OpenSnapshots() {
  const std::string folder =
      options.snapshot_dir.empty() ? options.state_dir + "/snapshots" : options.snapshot_dir;
  ASSIGN_OR_RETURN(snapshots,
                   SnapshotFolder::Open(folder,
                                        store->writable() ? SnapshotFolder::Use::kWrite
                                                          : SnapshotFolder::Use::kRead,
                                        options.limits.snapshots));
  ASSIGN_OR_RETURN(artifacts,
                   ArtifactFolder::Open(folder,
                                        store->writable() ? ArtifactFolder::Use::kWrite
                                                          : ArtifactFolder::Use::kRead,
                                        options.limits.artifact_bytes));
  snapshot_writer = std::make_unique<SnapshotWriter>(*snapshots, [this] {
    return SnapshotText(records->knowledge(), kSnapshotBytesMax);
  });
  records->OnPublish([this] { snapshot_writer->Notice(); });
  // The catalogue may be another than before.
  snapshot_writer->Notice();
  return absl::OkStatus();
}

DeviceCare Server::Parts::Care() {
  const auto supervisor = [this](const std::string& id) -> DeviceSupervisor* {
    return workers->FindDevice(id).value_or(nullptr);
  };
  return {.before =
              [=, this](const std::string& id) {
                if (DeviceSupervisor* device = supervisor(id)) devices->RestoreCeilings(*device);
              },
          .after =
              [=, this](const std::string& id) {
                DeviceSupervisor* device = supervisor(id);
                if (device == nullptr) return;
                if (absl::Status kept = devices->KeepCeilings(*device); !kept.ok()) {
                  spdlog::error("the ceilings of {} are not stored: {}", id, kept.ToString());
                }
              },
          .quiet =
              [this](const std::string& id,
                     const Cancelled& cancelled) -> absl::StatusOr<CompilePause> {
            ASSIGN_OR_RETURN(DeviceSupervisor * device, workers->FindDevice(id));
            return workers->compilers().PauseHost(device->Status().info.target, cancelled);
          }};
}

// Sweeps go on. What else an earlier process was in the middle of has no client left to tell.
absl::Status Server::Parts::EndLeftJobs() {
  if (!store->writable()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::vector<db::JobRow> left,
                   store->ListJobs({.unfinished = true, .limit = kLeftJobsMax}));
  for (db::JobRow job : left) {
    if (job.kind == db::JobKind::kSweep) continue;
    job = AsLeft(std::move(job), "");
    if (job.started_unix_ms == 0) job.message = "the daemon stopped before it started";
    job.finished_unix_ms = absl::ToUnixMillis(absl::Now());
    if (absl::Status ended = store->UpdateJob(job); !ended.ok()) {
      spdlog::error("job {} is left as it is: {}", job.id, ended.ToString());
    }
  }
  return absl::OkStatus();
}

absl::Status Server::Parts::Serve() {
  const ServerIdentity identity{.version = TUNE_VERSION,
                                .address = options.address,
                                .state_dir = options.state_dir,
                                .embedded = options.embedded,
                                .started_unix_ms = absl::ToUnixMillis(absl::Now())};
  const JobTools tools{*scheduler, *ticker, executors};
  job_service = std::make_unique<JobService>(*store, tools, other_owner());
  sweep_service =
      std::make_unique<SweepService>(catalogue, *devices, *store, *sweeps, solver, tools);
  kernel_service = std::make_unique<KernelService>(catalogue, *workers, solver, *ticker, executors);
  device_service = std::make_unique<DeviceService>(*store, *workers, *devices, tools);
  profile_service = std::make_unique<ProfileService>(
      ProfileTools{catalogue, *store, *workers, *devices, *records}, tools);
  record_service = std::make_unique<RecordService>(*records, *artifacts, executors);
  snapshot_service = std::make_unique<SnapshotService>(*snapshots, *snapshot_writer, executors);
  bench_service =
      std::make_unique<BenchService>(*store, catalogue, *devices, *workers, *records, tools);
  report_service = std::make_unique<ReportService>(*store, *sweeps, *devices, catalogue, executors);
  server_service = std::make_unique<ServerService>(identity, *ticker, *store, *scheduler, *workers,
                                                   *records, executors);
  gate_service = std::make_unique<GateService>(*store, *workers, *devices, tools);
  comparison_service = std::make_unique<ComparisonService>(
      *store, *workers, ComparisonTools{catalogue, *devices, *records}, tools);

  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ServerBuilder builder;
  SetLimits(options.limits, builder);
  for (grpc::Service* service : std::initializer_list<grpc::Service*>{
           job_service.get(), sweep_service.get(), kernel_service.get(), device_service.get(),
           record_service.get(), snapshot_service.get(), profile_service.get(),
           bench_service.get(), report_service.get(), server_service.get(), gate_service.get(),
           comparison_service.get()}) {
    builder.RegisterService(service);
  }
  const std::string socket_path = client::SocketPath(options.address);
  int port = 0;
  if (!options.address.empty()) {
    ASSIGN_OR_RETURN(auto credentials, CredentialsFor(options.address, options.tls));
    if (!socket_path.empty()) RETURN_IF_ERROR(PrepareSocket(socket_path));
    builder.AddListeningPort(options.address, std::move(credentials), &port);
  }
  grpc_server = builder.BuildAndStart();
  if (grpc_server == nullptr || (!options.address.empty() && port == 0)) {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot listen on ", options.address, ": is the port taken, or not ours?"));
  }
  if (!socket_path.empty()) RETURN_IF_ERROR(RestrictSocket(socket_path));
  if (socket_path.empty() && !options.address.empty() &&
      options.tls.client_authority_file.empty()) {
    spdlog::warn("clients of {} show no certificate, so they may look up and list, and neither "
                 "submit kernels nor start work; --tls-ca asks them for one", options.address);
  }
  address = options.address;
  if (socket_path.empty() && !address.empty()) {
    address = absl::StrCat(address.substr(0, address.rfind(':')), ":", port);
  }
  return absl::OkStatus();
}

absl::Status Server::Parts::ServeKernels() {
  kernel_service = std::make_unique<KernelService>(catalogue, *workers, solver, *ticker, executors);
  grpc::ServerBuilder builder;
  SetLimits(options.limits, builder);
  builder.RegisterService(kernel_service.get());
  grpc_server = builder.BuildAndStart();
  if (grpc_server == nullptr) return absl::InternalError("gRPC does not start");
  return absl::OkStatus();
}

std::string Server::OwnerOf(const std::string& state_dir) {
  return db::Store::WriterOf(StorePath(state_dir));
}

Server::Server(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}

Server::~Server() { Stop(absl::Now()); }

absl::StatusOr<std::unique_ptr<Server>> Server::Start(const ServerOptions& options) {
  std::unique_ptr<Server> server(new Server(std::make_unique<Parts>()));
  Parts& parts = *server->parts_;
  parts.options = options;
  RETURN_IF_ERROR(parts.OpenState());
  if (parts.store == nullptr) {
    RETURN_IF_ERROR(parts.ServeKernels());
    return server;
  }
  RETURN_IF_ERROR(parts.StartWork());
  RETURN_IF_ERROR(parts.Serve());
  if (!parts.address.empty()) spdlog::info("listening on {}", parts.address);
  return server;
}

std::shared_ptr<grpc::Channel> Server::InProcessChannel() {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  return parts_->grpc_server->InProcessChannel(arguments);
}

const std::string& Server::address() const { return parts_->address; }

void Server::Stop(absl::Time deadline) {
  Parts& parts = *parts_;
  // First what calls in flight wait for, then the calls.
  parts.executors.BeginStop();
  if (parts.scheduler != nullptr) parts.scheduler->BeginStop();
  parts.solver.Stop();
  if (parts.devices != nullptr) parts.devices->Stop();
  if (parts.scheduler != nullptr) parts.scheduler->Stop();
  if (parts.records != nullptr) parts.records->Stop();
  if (parts.kernel_service != nullptr) parts.kernel_service->Stop();
  if (parts.device_service != nullptr) parts.device_service->Stop();
  if (parts.ticker != nullptr) parts.ticker->Stop();
  if (parts.grpc_server != nullptr) {
    parts.grpc_server->Shutdown(absl::ToChronoTime(deadline));
    parts.grpc_server->Wait();
  }
  parts.executors.Stop();
  if (parts.snapshot_writer != nullptr) parts.snapshot_writer->Stop();
}

}  // namespace tune::server
