// SPDX-License-Identifier: Apache-2.0
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "server/modules.h"
#include "server/supervision/process_tree.h"
#include "server/upkeep.h"

namespace tune::server {
namespace {

using Families = std::vector<prometheus::MetricFamily>;

void AddGauge(Families& families, const std::string& name, const std::string& help, double value) {
  families.push_back(Gauge(name, help, {{{}, value}}));
}

void AddCounter(Families& families, const std::string& name, const std::string& help,
                double value) {
  families.push_back(Counter(name, help, {{{}, value}}));
}

void AddProcess(Families& families, const std::string& state_dir, absl::Time started) {
  families.push_back(Gauge("tunerd_build_info", "1, with the daemon's version",
                           {{{{"version", TUNE_VERSION}}, 1}}));
  AddGauge(families, "tunerd_start_time_seconds", "When the daemon started, since 1970",
           absl::ToDoubleSeconds(started - absl::UnixEpoch()));
  AddGauge(families, "tunerd_resident_memory_bytes", "Memory of the daemon's process",
           static_cast<double>(ResidentBytesOf(getpid())));
  AddGauge(families, "tunerd_open_files", "Open files of the daemon's process",
           static_cast<double>(OpenFiles()));
  AddGauge(families, "tunerd_open_files_max", "Files that it may open",
           static_cast<double>(OpenFilesMax()));
  std::error_code error;
  const std::filesystem::space_info disk = std::filesystem::space(state_dir, error);
  if (error) return;
  AddGauge(families, "tunerd_state_free_bytes", "Free bytes where the state is",
           static_cast<double>(disk.available));
}

void AddQueue(Families& families, const Scheduler& scheduler) {
  const Scheduler::Counts counts = scheduler.counts();
  families.push_back(Gauge("tunerd_jobs", "Jobs that wait or run",
                           {{{{"state", "queued"}}, 1.0 * counts.queued},
                            {{{"state", "running"}}, 1.0 * counts.running}}));
  AddGauge(families, "tunerd_queue_oldest_wait_seconds", "Wait of the job that waits the longest",
           absl::ToDoubleSeconds(scheduler.queue().oldest_wait));
  AddGauge(families, "tunerd_draining", "1 while the daemon takes and starts no jobs",
           scheduler.draining());
}

void AddConnections(Families& families, const Connections& tcp, const Connections& local,
                    const RefusedCalls::Counts& refused) {
  families.push_back(Gauge("tunerd_connections", "Open connections of clients",
                           {{{{"kind", "tcp"}}, static_cast<double>(tcp.counts().identified)},
                            {{{"kind", "stranger"}}, static_cast<double>(tcp.counts().strangers)},
                            {{{"kind", "unix"}}, static_cast<double>(local.counts().identified)}}));
  AddCounter(families, "tunerd_refused_calls_total", "Calls refused for want of a role or identity",
             static_cast<double>(refused.calls));
  AddCounter(families, "tunerd_wrong_tokens_total", "Calls with a wrong token",
             static_cast<double>(refused.wrong_tokens));
}

void AddWorkers(Families& families, Workers& workers) {
  CompileCache& cache = workers.cache();
  AddGauge(families, "tunerd_compile_cache_bytes", "Compiled variants on disk",
           static_cast<double>(cache.known_bytes()));
  families.push_back(Counter("tunerd_compile_cache_requests_total",
                             "Compiles that were looked for in the cache",
                             {{{{"result", "hit"}}, static_cast<double>(cache.hits())},
                              {{{"result", "miss"}}, static_cast<double>(cache.misses())}}));
  AddCounter(families, "tunerd_compile_workers_replaced_total",
             "Compile workers replaced after a crash or hang",
             static_cast<double>(workers.compilers().worker_restarts()));
  LabelledValues missing;
  for (const v1::WorkerWalls& walls : workers.walls().All()) {
    missing.push_back({{{"worker", walls.worker()}}, MissingWalls(walls).empty() ? 0.0 : 1.0});
  }
  families.push_back(
      Gauge("tunerd_walls_missing", "1 if a wall of a worker program is missing", missing));
}

void AddDevices(Families& families, const std::vector<DeviceStatus>& devices) {
  LabelledValues usable, replaced;
  for (const DeviceStatus& device : devices) {
    usable.push_back({{{"device", device.id}}, IsOutOfUse(device) ? 0.0 : 1.0});
    replaced.push_back({{{"device", device.id}}, static_cast<double>(device.worker_restarts)});
  }
  families.push_back(Gauge("tunerd_device_usable", "1 if jobs may have the device", usable));
  families.push_back(Counter("tunerd_device_workers_replaced_total",
                             "Device workers replaced after a crash or hang", replaced));
}

void AddSnapshots(Families& families, const SnapshotFolder& folder) {
  const std::vector<StoredSnapshot> snapshots = folder.List();
  AddGauge(families, "tunerd_snapshots", "Snapshots kept, pinned ones included",
           static_cast<double>(snapshots.size()));
  for (const StoredSnapshot& snapshot : snapshots) {
    if (!snapshot.newest) continue;
    AddGauge(families, "tunerd_snapshot_records", "Records of the newest snapshot",
             static_cast<double>(snapshot.header.record_count));
    AddGauge(families, "tunerd_snapshot_time_seconds",
             "When the newest record of the newest snapshot was published, since 1970",
             static_cast<double>(snapshot.header.published_unix_ms) / 1000);
  }
}

}  // namespace

std::string MetricsModule::Text() const {
  Families families = jobs.store.metrics->Collect();
  AddProcess(families, jobs.store.options.state_dir, started);
  AddQueue(families, *jobs.scheduler);
  AddConnections(families, jobs.access.listeners.tcp_connections,
                 jobs.access.listeners.unix_connections, jobs.access.principals->refused());
  AddWorkers(families, *jobs.devices.workers);
  AddDevices(families, *jobs.devices.devices->Known());
  AddSnapshots(families, *jobs.records.snapshots);
  if (const CertificateFiles* certificates = jobs.access.listeners.certificates.get()) {
    AddGauge(families, "tunerd_certificate_expiry_time_seconds",
             "When the certificate of the TCP listeners ends, since 1970",
             static_cast<double>(certificates->state().expires_unix_ms) / 1000);
  }
  return TextOf(families);
}

absl::Status MetricsModule::Start() {
  if (jobs.store.metrics == nullptr) return absl::OkStatus();
  ASSIGN_OR_RETURN(listener,
                   MetricsListener::Start(jobs.store.options.metrics, [this] { return Text(); }));
  spdlog::info("metrics at http://{}/metrics", listener->address());
  return absl::OkStatus();
}

}  // namespace tune::server
