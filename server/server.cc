// SPDX-License-Identifier: Apache-2.0
#include "server/server.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "absl/functional/bind_front.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "base/address.h"
#include "base/status_macros.h"
#include "db/large_store.h"
#include "db/retention.h"
#include "db/store.h"
#include "server/access/guard.h"
#include "server/access/principals.h"
#include "server/access/token_service.h"
#include "server/access/tokens.h"
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
#include "server/rpc/certificate_files.h"
#include "server/rpc/connections.h"
#include "server/rpc/executor.h"
#include "server/rpc/listener.h"
#include "server/rpc/tcp_listener.h"
#include "server/rpc/unix_listener.h"
#include "server/server_service.h"
#include "server/snapshots/snapshot_folder.h"
#include "server/snapshots/snapshot_service.h"
#include "server/snapshots/snapshot_text.h"
#include "server/snapshots/snapshot_writer.h"
#include "server/state/paths.h"
#include "server/state/run_mark.h"
#include "server/supervision/workers.h"
#include "server/sweep/misses.h"
#include "server/sweep/sweep_runner.h"
#include "server/sweep/sweep_service.h"
#include "server/sweep/sweeps.h"
#include "server/upkeep.h"

namespace tune::server {
namespace {

constexpr absl::Duration kWatchPeriod = absl::Milliseconds(250);
constexpr int kReceiveBytesMax = 24 << 20;  // a kernel's files have at most 20 MiB
constexpr int kConcurrentStreamsMax = 256;  // of one connection
constexpr int kHandshakeMs = 10'000;
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
  // Of a client that has connected, until TLS and HTTP/2 are agreed on.
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, kHandshakeMs);
  // Beyond it gRPC closes idle connections and ends calls with RESOURCE_EXHAUSTED.
  grpc::ResourceQuota quota("clients");
  quota.Resize(static_cast<size_t>(limits.connection_bytes));
  builder.SetResourceQuota(quota);
  // For reflection, the only synchronous service.
  builder.SetSyncServerOption(grpc::ServerBuilder::NUM_CQS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::MAX_POLLERS, 1);
}

// Of the files that the process may open, connections get three quarters: the others are for the
// store, the log and the workers.
Connections::Bounds TcpBounds() {
  constexpr size_t kMost = 16384;
  constexpr size_t kStrangersMost = 256;
  const size_t most = std::min(kMost, OpenFilesMax() / 2);
  return {.most = most, .strangers_most = std::min(kStrangersMost, most / 4)};
}
Connections::Bounds UnixBounds() {
  constexpr size_t kMost = 8192;
  const size_t most = std::min(kMost, OpenFilesMax() / 4);
  return {.most = most, .strangers_most = most};  // the kernel says who everybody is
}

}  // namespace

// In the order in which they depend on each other.
struct Server::Parts {
  ServerOptions options;
  std::vector<std::string> addresses;
  std::optional<PrivateFolder> scratch;  // of a server that shares its state folder
  std::unique_ptr<db::Store> store;      // null if it has none
  std::unique_ptr<RunMark> run_mark;     // of a daemon that owns its state folder
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
  UnixPeers peers;
  std::unique_ptr<Tokens> tokens;
  std::unique_ptr<Principals> principals;
  std::unique_ptr<CertificateFiles> certificates;  // null: nothing listens on TCP
  Connections tcp_connections{TcpBounds()};
  Connections unix_connections{UnixBounds()};
  std::unique_ptr<Scheduler> scheduler;  // its jobs use all of the above

  std::unique_ptr<JobService> job_service;
  std::unique_ptr<SweepService> sweep_service;
  std::unique_ptr<KernelService> kernel_service;
  std::unique_ptr<DeviceService> device_service;
  std::unique_ptr<ProfileService> profile_service;
  std::unique_ptr<Misses> misses;
  std::unique_ptr<RecordService> record_service;
  std::unique_ptr<SnapshotService> snapshot_service;
  std::unique_ptr<BenchService> bench_service;
  std::unique_ptr<ReportService> report_service;
  std::unique_ptr<ServerService> server_service;
  std::unique_ptr<GateService> gate_service;
  std::unique_ptr<ComparisonService> comparison_service;
  std::unique_ptr<TokenService> token_service;
  std::vector<std::unique_ptr<Guard>> guards;  // what gRPC serves: each of one of the services
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor;  // of TCP
  std::unique_ptr<grpc::Server> grpc_server;
  std::vector<std::unique_ptr<TcpListener>> tcp_listeners;
  std::vector<std::unique_ptr<UnixListener>> unix_listeners;
  std::unique_ptr<Upkeep> upkeep;

  // Before anything else: an address that cannot be listened at, or a certificate that cannot be
  // served, is told before the state is opened and devices are tried.
  absl::Status TakeAddresses();
  absl::Status OpenStore();
  absl::Status OpenState();
  absl::Status StartWork();
  absl::Status OpenSnapshots();
  void CheckStore();
  absl::Status EndLeftJobs();
  DeviceCare Care();
  // Of Sweeps::Options.
  Sweeps::KnownDevices KnownDevices() const;
  // Of Scheduler::Options.
  std::function<absl::Duration(const std::string&)> DeviceTimeMaxOf() const;
  // The process that has the store, if this one only reads it.
  std::string other_owner() const { return store->writable() ? "" : OwnerOf(options.state_dir); }
  absl::Status KnowClients();
  absl::Status Serve();
  void MakeServices();
  void MakeGuards();
  absl::Status Listen();
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
  if (!options.embedded) run_mark = std::make_unique<RunMark>(options.state_dir);
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
                                             .numpy_python = options.numpy_python,
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
  ASSIGN_OR_RETURN(
      records,
      RecordBook::Open(*store, catalogue, *devices, solver,
                       {.path = options.state_dir + "/records.index"}, workers->include_roots(),
                       options.embedded ? GridsTime::kWhenAsked : GridsTime::kAtOnce));
  RETURN_IF_ERROR(OpenSnapshots());
  runner = std::make_unique<SweepRunner>(*store, *workers, *records, *artifacts, *snapshot_writer,
                                         solver, [this](const std::string& owner) {
                                           return principals->ArtifactBytesMaxOf(
                                               owner, options.limits.artifact_bytes);
                                         });
  scheduler = std::make_unique<Scheduler>(
      Scheduler::Options{
          .unfinished_max = options.limits.unfinished_jobs,
          .operator_jobs = options.limits.operator_jobs,
          .turn = absl::Seconds(options.limits.turn_seconds),
          .embedded = options.embedded,
          .jobs_max_of = [this](const std::string& owner) { return principals->JobsMaxOf(owner); },
          .may_store =
              [this](const std::string& owner) { return principals->CheckStored(owner, *store); },
          .device_time_max_of = DeviceTimeMaxOf(),
          .job_time_max_of =
              [this](const std::string& owner) { return principals->JobTimeMaxOf(owner); },
          .is_operator =
              [this](const std::string& owner) { return principals->IsOperator(owner); }},
      *store, devices->turns(), *ticker, Care());
  RETURN_IF_ERROR(EndLeftJobs());
  ASSIGN_OR_RETURN(
      sweeps, Sweeps::Start({.deaths_max = options.limits.job_deaths,
                             .embedded = options.embedded,
                             .ended_in_order = run_mark != nullptr && run_mark->ended_in_order(),
                             .other_owner = other_owner(),
                             .known_devices = KnownDevices()},
                            *store, *scheduler, [this](SweepWork& work, JobContext& context) {
                              return runner->Run(work, context);
                            }));
  if (const auto known = store->Statistics(); known.ok() && known->withdrawn_record_count > 0) {
    spdlog::warn(
        "{} records of unconfirmed trials are withdrawn: an older daemon had published "
        "them; tune their problems again",
        known->withdrawn_record_count);
  }
  for (const db::UnreadableRow& row : store->UnreadableRows()) {
    spdlog::error("{} {} of the store is left out: {}", row.table, row.id, row.why);
  }
  (void)executors.heavy.Run([this] { CheckStore(); });
  return absl::OkStatus();
}

// Of a file that is too large to be checked before it serves. Nobody waits for it.
void Server::Parts::CheckStore() {
  db::LargeStore* const large = db::LargeStore::Of(*store);
  if (large == nullptr) return;
  const absl::Status checked =
      large->CheckFile([this] { return executors.heavy.stopping(); });  // or its end waits for it
  if (checked.ok() || absl::IsCancelled(checked)) return;
  spdlog::error("{}", checked.ToString());
  store->NoteUnreadable({"store", 0, std::string(checked.message())});
}

absl::Status Server::Parts::OpenSnapshots() {
  const std::string folder =
      options.snapshot_dir.empty() ? options.state_dir + "/snapshots" : options.snapshot_dir;
  ASSIGN_OR_RETURN(snapshots, SnapshotFolder::Open(folder,
                                                   store->writable() ? SnapshotFolder::Use::kWrite
                                                                     : SnapshotFolder::Use::kRead,
                                                   options.limits.snapshots));
  ASSIGN_OR_RETURN(artifacts, ArtifactFolder::Open(folder,
                                                   store->writable() ? ArtifactFolder::Use::kWrite
                                                                     : ArtifactFolder::Use::kRead,
                                                   options.limits.artifact_bytes));
  snapshot_writer = std::make_unique<SnapshotWriter>(
      *snapshots, [this] { return SnapshotText(records->knowledge(), kSnapshotBytesMax); });
  records->OnPublish([this] { snapshot_writer->Notice(); });
  // The catalogue may be another than before.
  snapshot_writer->Notice();
  return absl::OkStatus();
}

std::function<absl::Duration(const std::string&)> Server::Parts::DeviceTimeMaxOf() const {
  if (options.clients.device_seconds_per_principal == 0) return {};
  return [this](const std::string& owner) { return principals->DeviceTimeMaxOf(owner); };
}

// Inside tunectl no device is tried again, so there nothing waits for one.
Sweeps::KnownDevices Server::Parts::KnownDevices() const {
  if (options.embedded) return {};
  return [this] { return devices->Known(); };
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
          .quiet = [this](const std::string& id,
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

absl::Status Server::Parts::TakeAddresses() {
  addresses = options.addresses;
  if (!options.clients.submit_group.empty()) {
    RETURN_IF_ERROR(GroupNumber(options.clients.submit_group).status());
  }
  for (std::string& address : addresses) {
    if (const std::string path = SocketPath(address); !path.empty()) {
      RETURN_IF_ERROR(PrepareSocket(path));
      continue;
    }
    RETURN_IF_ERROR(CheckTcp(address, options.tls));
    ASSIGN_OR_RETURN(std::unique_ptr<TcpListener> listener, TcpListener::Bind(address));
    address = listener->address();
    tcp_listeners.push_back(std::move(listener));
  }
  if (tcp_listeners.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(certificates, CertificateFiles::Open(options.tls));
  return absl::OkStatus();
}

absl::Status Server::Parts::KnowClients() {
  ASSIGN_OR_RETURN(tokens, Tokens::Open(*store, [this](std::function<void()> work) {
                     executors.reads.Run(std::move(work)).status().IgnoreError();
                   }));
  const bool asks_certificates = certificates != nullptr && certificates->has_authority();
  principals = std::make_unique<Principals>(
      options.clients,
      Principals::Tools{.peers = peers,
                        .tokens = *tokens,
                        .certificates = asks_certificates ? &certificates->clients() : nullptr,
                        .connections = &tcp_connections});
  return absl::OkStatus();
}

void Server::Parts::MakeServices() {
  const ServerIdentity identity{.version = TUNE_VERSION,
                                .state_dir = options.state_dir,
                                .embedded = options.embedded,
                                .state_owner = other_owner(),
                                .started_unix_ms = absl::ToUnixMillis(absl::Now())};
  const JobTools tools{*scheduler, *ticker, executors, *principals};
  const Principals& asks = *principals;
  job_service = std::make_unique<JobService>(*store, tools, other_owner());
  sweep_service =
      std::make_unique<SweepService>(catalogue, *devices, *store, *sweeps, solver, tools);
  kernel_service =
      std::make_unique<KernelService>(catalogue, *workers, solver, *ticker, executors, &asks);
  device_service = std::make_unique<DeviceService>(*store, *workers, *devices, tools);
  profile_service = std::make_unique<ProfileService>(
      ProfileTools{catalogue, *store, *workers, *devices, *records}, tools);
  misses = std::make_unique<Misses>(
      Misses::Tools{*records, catalogue, *devices, solver, *sweeps, options.embedded});
  record_service = std::make_unique<RecordService>(
      asks, *records, *artifacts,
      [this](const std::string& artifact) -> absl::StatusOr<std::vector<std::string>> {
        db::Retention* const retention = db::Retention::Of(*store);
        if (retention == nullptr) return std::vector<std::string>();
        return retention->NameSpacesOf(artifact);
      },
      absl::bind_front(&Misses::Record, misses.get()), executors);
  snapshot_service =
      std::make_unique<SnapshotService>(*snapshots, *snapshot_writer, *artifacts, executors);
  bench_service =
      std::make_unique<BenchService>(*store, catalogue, *devices, *workers, *records, tools);
  report_service = std::make_unique<ReportService>(*store, *sweeps, *devices, catalogue, executors);
  server_service = std::make_unique<ServerService>(
      identity,
      ServerParts{*ticker, *store, *scheduler, *workers, *records, asks, tcp_connections,
                  unix_connections, certificates.get()},
      executors);
  gate_service = std::make_unique<GateService>(*store, *workers, *devices, tools);
  comparison_service = std::make_unique<ComparisonService>(
      *store, *workers, ComparisonTools{catalogue, *devices, *records}, tools);
  const auto cancel_jobs = [this](const std::string& owner, absl::Time deadline,
                                  v1::RevokeTokenResponse& response) {
    const CancelledJobs cancelled = CancelJobsOf(owner, *store, *scheduler, deadline);
    for (const JobView& job : cancelled.jobs) response.add_cancelled_job_ids(job.row.id);
    for (const std::string& error : cancelled.errors) response.add_job_errors(Utf8(error));
  };
  token_service = std::make_unique<TokenService>(*tokens, asks, cancel_jobs, executors);
}

// By the descriptors of proto/, which say what role each call needs.
void Server::Parts::MakeGuards() {
  const auto guard = [this](grpc::Service& service, const char* contract) {
    guards.push_back(std::make_unique<Guard>(
        *google::protobuf::DescriptorPool::generated_pool()->FindServiceByName(contract), service,
        *principals));
  };
  guard(*job_service, v1::JobService::service_full_name());
  guard(*sweep_service, v1::SweepService::service_full_name());
  guard(*kernel_service, v1::KernelService::service_full_name());
  guard(*device_service, v1::DeviceService::service_full_name());
  guard(*record_service, v1::RecordService::service_full_name());
  guard(*snapshot_service, v1::SnapshotService::service_full_name());
  guard(*profile_service, v1::ProfileService::service_full_name());
  guard(*bench_service, v1::BenchService::service_full_name());
  guard(*report_service, v1::ReportService::service_full_name());
  guard(*server_service, v1::ServerService::service_full_name());
  guard(*gate_service, v1::GateService::service_full_name());
  guard(*comparison_service, v1::CompareService::service_full_name());
  guard(*token_service, v1::TokenService::service_full_name());
}

absl::Status Server::Parts::Listen() {
  for (const std::unique_ptr<TcpListener>& listener : tcp_listeners) {
    RETURN_IF_ERROR(listener->Start(*acceptor, tcp_connections));
  }
  for (const std::string& address : addresses) {
    const std::string path = SocketPath(address);
    if (path.empty()) continue;
    ASSIGN_OR_RETURN(
        std::unique_ptr<UnixListener> listener,
        UnixListener::Start(
            {.path = path, .mode = options.socket_mode, .group = options.clients.submit_group},
            *grpc_server, peers, unix_connections));
    unix_listeners.push_back(std::move(listener));
  }
  return absl::OkStatus();
}

absl::Status Server::Parts::Serve() {
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ServerBuilder builder;
  SetLimits(options.limits, builder);
  if (certificates != nullptr) {
    acceptor = builder.experimental().AddExternalConnectionAcceptor(
        grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
        certificates->Credentials());
  }
  MakeServices();
  MakeGuards();
  for (const std::unique_ptr<Guard>& guard : guards) builder.RegisterService(guard.get());
  grpc_server = builder.BuildAndStart();
  if (grpc_server == nullptr) return absl::InternalError("gRPC does not start");
  server_service->SetAddresses(addresses);
  if (!addresses.empty()) {
    upkeep = std::make_unique<Upkeep>([this] { tokens->StoreLater(); });
  }
  return Listen();
}

absl::Status Server::Parts::ServeKernels() {
  kernel_service = std::make_unique<KernelService>(catalogue, *workers, solver, *ticker, executors,
                                                   /*principals=*/nullptr);
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
  RETURN_IF_ERROR(parts.TakeAddresses());
  RETURN_IF_ERROR(parts.OpenState());
  if (parts.store == nullptr) {
    RETURN_IF_ERROR(parts.ServeKernels());
    return server;
  }
  RETURN_IF_ERROR(parts.KnowClients());
  RETURN_IF_ERROR(parts.StartWork());
  RETURN_IF_ERROR(parts.Serve());
  if (!parts.addresses.empty()) {
    spdlog::info("listening on {}", absl::StrJoin(parts.addresses, ", "));
  }
  return server;
}

std::shared_ptr<grpc::Channel> Server::InProcessChannel() {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  return parts_->grpc_server->InProcessChannel(arguments);
}

const std::vector<std::string>& Server::addresses() const { return parts_->addresses; }

void Server::ReadCertificates() {
  if (parts_->certificates != nullptr) parts_->certificates->LookAgain();
}

void Server::Stop(absl::Time deadline) {
  Parts& parts = *parts_;
  const absl::Duration left = deadline - absl::Now();
  parts.unix_listeners.clear();
  parts.tcp_listeners.clear();
  parts.upkeep = nullptr;
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
    // By gRPC's clock, which absl::Now() may lag behind after somebody set it.
    parts.grpc_server->Shutdown(std::chrono::system_clock::now() +
                                absl::ToChronoMilliseconds(left));
    parts.grpc_server->Wait();
  }
  parts.executors.Stop();
  if (parts.snapshot_writer != nullptr) parts.snapshot_writer->Stop();
  // One that did not come to take up the sweeps leaves the mark to the next.
  if (parts.run_mark != nullptr && parts.sweeps != nullptr) parts.run_mark->EndInOrder();
}

}  // namespace tune::server
