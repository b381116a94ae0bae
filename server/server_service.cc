// SPDX-License-Identifier: Apache-2.0
#include "server/server_service.h"

#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/rpc/unary.h"
#include "server/wire/nouns.h"
#include "tuner/status_macros.h"

namespace tune::server {
namespace {

// Of this process alone; 0 if the kernel does not say.
uint64_t ResidentBytes() {
  std::ifstream statm("/proc/self/statm");
  uint64_t pages_mapped = 0;
  uint64_t pages_resident = 0;
  if (!(statm >> pages_mapped >> pages_resident)) return 0;
  return pages_resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

v1::Bounds ToProto(const Limits& limits) {
  v1::Bounds proto;
  proto.set_binary_bytes(static_cast<uint64_t>(limits.binary_bytes));
  proto.set_gate_binary_bytes(static_cast<uint64_t>(limits.gate_binary_bytes));
  proto.set_log_bytes(static_cast<uint64_t>(limits.log_bytes));
  proto.set_cache_bytes(static_cast<uint64_t>(limits.cache_bytes));
  proto.set_unfinished_sweeps(limits.unfinished_sweeps);
  proto.set_connection_bytes(static_cast<uint64_t>(limits.connection_bytes));
  proto.set_watchers(limits.watchers);
  proto.set_watchers_per_sweep(limits.watchers_per_sweep);
  proto.set_known_trials(limits.known_trials);
  proto.set_remembered_results(limits.remembered_results);
  proto.set_sweep_deaths(limits.sweep_deaths);
  return proto;
}

}  // namespace

ServerService::ServerService(ServerIdentity identity, const WatchTicker& ticker, db::Store& store,
                             const SweepQueue& queue, Workers& workers, const RecordBook& records,
                             Executors& executors)
    : identity_(std::move(identity)),
      ticker_(ticker),
      store_(store),
      queue_(queue),
      workers_(workers),
      records_(records) {
  // A look at the whole folder, so that a status need not take one.
  (void)executors.heavy.Run([this] { workers_.cache().bytes(); });
}

grpc::ServerUnaryReactor* ServerService::GetStatus(grpc::CallbackServerContext* context,
                                                   const v1::GetStatusRequest*,
                                                   v1::ServerStatus* response) {
  return AnswerOn(executor_, context, [=, this]() -> absl::Status {
    ASSIGN_OR_RETURN(db::StoreStatistics statistics, store_.Statistics());
    const SweepQueue::Counts counts = queue_.counts();
    response->set_version(identity_.version);
    response->set_started_unix_ms(identity_.started_unix_ms);
    response->set_pid(getpid());
    response->set_embedded(identity_.embedded);
    response->set_address(identity_.address);
    response->set_state_dir(identity_.state_dir);
    response->set_resident_bytes(ResidentBytes());
    response->set_queued_sweeps(counts.queued);
    response->set_running_sweeps(counts.running);
    response->set_trial_count(statistics.trial_count);
    response->set_record_count(statistics.record_count);
    response->set_snapshot_id(records_.snapshot()->snapshot_id());
    response->set_sqlite_version(statistics.sqlite_version);
    response->set_schema_version(statistics.schema_version);
    response->set_compile_cache_bytes(workers_.cache().known_bytes());
    response->set_compile_workers(workers_.compile_workers());
    *response->mutable_bounds() = ToProto(workers_.limits());
    response->set_watchers(static_cast<uint32_t>(ticker_.watchers()));
    for (const db::UnreadableRow& row : store_.UnreadableRows()) {
      response->add_unreadable_rows(Utf8(absl::StrCat(row.table, " ", row.id, ": ", row.why)));
    }
    const std::vector<v1::WorkerWalls> walls = workers_.walls().All();
    response->mutable_walls()->Assign(walls.begin(), walls.end());
    response->set_weak_walls_allowed(workers_.walls().weak_allowed());
    return absl::OkStatus();
  });
}

}  // namespace tune::server
