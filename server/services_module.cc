// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "absl/functional/bind_front.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "server/access/token_service.h"
#include "server/bench/bench_service.h"
#include "server/comparison/comparison_service.h"
#include "server/device_service.h"
#include "server/gate/gate_service.h"
#include "server/jobs/job_service.h"
#include "server/kernels/kernel_service.h"
#include "server/metrics/call_metrics.h"
#include "server/modules.h"
#include "server/profile/profile_service.h"
#include "server/records/record_service.h"
#include "server/reflection_service.h"
#include "server/report/report_service.h"
#include "server/server_service.h"
#include "server/snapshots/snapshot_service.h"
#include "server/snapshots/vault_service.h"
#include "server/store_service.h"
#include "server/sweep/sweep_service.h"
#include "server/wire/nouns.h"

namespace tune::server {

ServicesModule::~ServicesModule() = default;

template <typename Contract, typename Service, typename... Arguments>
Service* ServicesModule::Add(Arguments&&... arguments) {
  contracts_.emplace_back(Contract::service_full_name());
  auto service = std::make_unique<Service>(std::forward<Arguments>(arguments)...);
  Service* const added = service.get();
  const auto* const contract =
      google::protobuf::DescriptorPool::generated_pool()->FindServiceByName(
          Contract::service_full_name());
  guards_.push_back(std::make_unique<Guard>(*contract, *added, *jobs.access.principals));
  services_.push_back(std::move(service));
  return added;
}

void ServicesModule::AddJobServices() {
  const Devices& devices = *jobs.devices.devices;
  const JobTools tools = jobs.tools();
  Add<v1::JobService, JobService>(tools, jobs.store.other_owner());
  Add<v1::SweepService, SweepService>(jobs.devices.catalogue, devices, *jobs.store.store,
                                      *jobs.sweeps, jobs.devices.solver, tools);
  device_service_ = Add<v1::DeviceService, DeviceService>(*jobs.devices.workers, devices, tools);
  Add<v1::ProfileService, ProfileService>(devices, tools);
  Add<v1::BenchService, BenchService>(tools);
  Add<v1::GateService, GateService>(tools);
  Add<v1::CompareService, ComparisonService>(jobs.leases, tools);
}

void ServicesModule::AddRecordServices() {
  DevicesModule& devices = jobs.devices;
  RecordsModule& records = jobs.records;
  Executors& executors = jobs.calls.executors;
  kernel_service_ = Add<v1::KernelService, KernelService>(devices.catalogue, *devices.workers,
                                                          devices.solver, *jobs.calls.ticker,
                                                          executors, jobs.access.principals.get());
  misses_ = std::make_unique<Misses>(Misses::Tools{*records.records, devices.catalogue,
                                                   *devices.devices, devices.solver, *jobs.sweeps,
                                                   jobs.store.options.embedded});
  Add<v1::RecordService, RecordService>(
      *jobs.access.principals, *records.records, *records.artifacts,
      [this](const std::string& artifact) -> absl::StatusOr<std::vector<std::string>> {
        return jobs.store.store->NameSpacesOf(artifact);
      },
      absl::bind_front(&Misses::Record, misses_.get()), executors);
  Add<v1::SnapshotService, SnapshotService>(*records.snapshots, *records.snapshot_writer,
                                            *records.artifacts, executors);
  Add<v1::VaultService, VaultService>(
      *records.vault, *jobs.access.principals,
      [&writer = *records.snapshot_writer] { writer.Notice(); }, executors);
  Add<v1::ReportService, ReportService>(*jobs.store.store, *jobs.sweeps, *devices.devices,
                                        devices.catalogue, executors);
}

void ServicesModule::AddServerServices() {
  const ServerOptions& options = jobs.store.options;
  ListenersModule& listeners = jobs.access.listeners;
  Principals& principals = *jobs.access.principals;
  Executors& executors = jobs.calls.executors;
  Add<v1::ServerService, ServerService>(
      ServerIdentity{.version = TUNE_VERSION,
                     .state_dir = options.state_dir,
                     .embedded = options.embedded,
                     .address = absl::StrJoin(listeners.addresses, ", "),
                     .state_owner = jobs.store.other_owner(),
                     .started_unix_ms = absl::ToUnixMillis(absl::Now()),
                     .web_url = options.web_url,
                     .stop = options.stop},
      ServerParts{*jobs.calls.ticker, *jobs.store.store, *jobs.scheduler, *jobs.devices.workers,
                  *jobs.records.records, principals, *jobs.access.tokens, listeners.tcp_connections,
                  listeners.unix_connections, listeners.certificates.get()},
      executors);
  Add<v1::StoreService, StoreService>(*jobs.store.store, options.state_dir, executors);
  const auto cancel_jobs = [this](const std::string& owner, absl::Time deadline,
                                  v1::RevokeTokenResponse& response) {
    const CancelledJobs cancelled = CancelJobsOf(owner, jobs.tools(), deadline);
    for (const JobView& job : cancelled.jobs) response.add_cancelled_job_ids(job.row.id);
    for (const std::string& error : cancelled.errors) response.add_job_errors(Utf8(error));
  };
  Add<v1::TokenService, TokenService>(*jobs.access.tokens, principals, cancel_jobs, executors);
  Add<grpc::reflection::v1alpha::ServerReflection, ReflectionService>(contracts_);
}

absl::Status ServicesModule::ServeKernels() {
  auto service = std::make_unique<KernelService>(jobs.devices.catalogue, *jobs.devices.workers,
                                                 jobs.devices.solver, *jobs.calls.ticker,
                                                 jobs.calls.executors, /*principals=*/nullptr);
  kernel_service_ = service.get();
  services_.push_back(std::move(service));
  return jobs.calls.Serve(
      [this](grpc::ServerBuilder& builder) { builder.RegisterService(kernel_service_); });
}

absl::Status ServicesModule::Start() {
  if (jobs.store.store == nullptr) return ServeKernels();
  AddJobServices();
  AddRecordServices();
  AddServerServices();
  grpc::EnableDefaultHealthCheckService(true);
  return jobs.calls.Serve([this](grpc::ServerBuilder& builder) {
    jobs.access.listeners.AddTo(builder);
    if (Metrics* const metrics = jobs.store.metrics; metrics != nullptr) {
      std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>> creators;
      creators.push_back(MakeCallCounter(*metrics));
      builder.experimental().SetInterceptorCreators(std::move(creators));
    }
    for (const std::unique_ptr<Guard>& guard : guards_) builder.RegisterService(guard.get());
  });
}

void ServicesModule::Stop(absl::Duration) {
  if (kernel_service_ != nullptr) kernel_service_->Stop();
  if (device_service_ != nullptr) device_service_->Stop();
}

}  // namespace tune::server
