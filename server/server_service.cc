// SPDX-License-Identifier: Apache-2.0
#include "server/server_service.h"

#include <unistd.h>

#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/rpc/unary.h"
#include "server/supervision/process_tree.h"
#include "server/wire/nouns.h"
#include "tuner/status_macros.h"

namespace tune::server {
namespace {

v1::Bounds ToProto(const Limits& limits) {
  v1::Bounds proto;
  proto.set_binary_bytes(static_cast<uint64_t>(limits.binary_bytes));
  proto.set_gate_binary_bytes(static_cast<uint64_t>(limits.gate_binary_bytes));
  proto.set_log_bytes(static_cast<uint64_t>(limits.log_bytes));
  proto.set_cache_bytes(static_cast<uint64_t>(limits.cache_bytes));
  proto.set_unfinished_jobs(limits.unfinished_jobs);
  proto.set_connection_bytes(static_cast<uint64_t>(limits.connection_bytes));
  proto.set_watchers(limits.watchers);
  proto.set_watchers_per_job(limits.watchers_per_job);
  proto.set_known_trials(limits.known_trials);
  proto.set_remembered_results(limits.remembered_results);
  proto.set_job_deaths(limits.job_deaths);
  return proto;
}

}  // namespace

ServerService::ServerService(ServerIdentity identity, const WatchTicker& ticker, db::Store& store,
                             const Scheduler& scheduler, Workers& workers,
                             const RecordBook& records, Executors& executors)
    : identity_(std::move(identity)),
      ticker_(ticker),
      store_(store),
      scheduler_(scheduler),
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
    const Scheduler::Counts counts = scheduler_.counts();
    response->set_version(identity_.version);
    response->set_started_unix_ms(identity_.started_unix_ms);
    response->set_pid(getpid());
    response->set_embedded(identity_.embedded);
    response->set_address(identity_.address);
    response->set_state_dir(identity_.state_dir);
    response->set_resident_bytes(ResidentBytesOf(getpid()));
    response->set_queued_jobs(counts.queued);
    response->set_running_jobs(counts.running);
    response->set_trial_count(statistics.trial_count);
    response->set_record_count(statistics.record_count);
    response->set_snapshot_id(records_.snapshot()->snapshot_id());
    response->set_sqlite_version(statistics.sqlite_version);
    response->set_schema_version(statistics.schema_version);
    response->set_compile_cache_bytes(workers_.cache().known_bytes());
    response->set_compile_workers(workers_.limits().compile_workers);
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
