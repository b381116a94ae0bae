// SPDX-License-Identifier: Apache-2.0
#include "server/server_service.h"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "server/rpc/unary.h"
#include "server/supervision/process_tree.h"
#include "server/upkeep.h"
#include "server/wire/nouns.h"

namespace tune::server {
namespace {

constexpr uint32_t kStoredShown = 20;
constexpr absl::Duration kPruneCap = absl::Minutes(10);

v1::Bounds ToProto(const Limits& limits) {
  v1::Bounds proto;
  proto.set_binary_bytes(static_cast<uint64_t>(limits.binary_bytes));
  proto.set_gate_binary_bytes(static_cast<uint64_t>(limits.gate_binary_bytes));
  proto.set_log_bytes(static_cast<uint64_t>(limits.log_bytes));
  proto.set_cache_bytes(static_cast<uint64_t>(limits.cache_bytes));
  proto.set_unfinished_jobs(limits.unfinished_jobs);
  proto.set_connection_bytes(static_cast<uint64_t>(limits.connection_bytes));
  proto.set_operator_jobs(limits.operator_jobs);
  proto.set_turn_seconds(limits.turn_seconds);
  proto.set_watchers(limits.watchers);
  proto.set_watchers_per_job(limits.watchers_per_job);
  proto.set_known_trials(limits.known_trials);
  proto.set_remembered_results(limits.remembered_results);
  proto.set_job_deaths(limits.job_deaths);
  return proto;
}

void AddQueue(const Scheduler::Queue& queue, v1::ServerStatus& status) {
  status.set_oldest_wait_seconds(absl::ToDoubleSeconds(queue.oldest_wait));
  for (const Scheduler::OwnerQueue& owner : queue.owners) {
    v1::PrincipalQueue& principal = *status.add_principals();
    principal.set_name(Utf8(owner.owner));
    principal.set_waiting_jobs(owner.waiting);
    principal.set_running_jobs(owner.running);
    principal.set_device_seconds(absl::ToDoubleSeconds(owner.device_time));
  }
}

v1::Traffic TrafficOf(const ServerParts& parts, const std::string& state_dir) {
  v1::Traffic traffic;
  const Connections::Counts tcp = parts.tcp_connections.counts();
  const Connections::Counts local = parts.unix_connections.counts();
  traffic.set_tcp_connections(static_cast<uint32_t>(tcp.identified));
  traffic.set_stranger_connections(static_cast<uint32_t>(tcp.strangers));
  traffic.set_unix_connections(static_cast<uint32_t>(local.identified));
  traffic.set_tcp_connections_max(static_cast<uint32_t>(parts.tcp_connections.bounds().most));
  traffic.set_stranger_connections_max(
      static_cast<uint32_t>(parts.tcp_connections.bounds().strangers_most));
  traffic.set_unix_connections_max(static_cast<uint32_t>(parts.unix_connections.bounds().most));
  traffic.set_shut_connections(tcp.shut + local.shut);
  const RefusedCalls::Counts refused = parts.principals.refused();
  traffic.set_refused_calls(refused.calls);
  traffic.set_wrong_tokens(refused.wrong_tokens);
  traffic.set_open_files(static_cast<uint32_t>(OpenFiles()));
  traffic.set_open_files_max(static_cast<uint64_t>(OpenFilesMax()));
  std::error_code error;
  const std::filesystem::space_info disk = std::filesystem::space(state_dir, error);
  if (!error) traffic.set_state_free_bytes(disk.available);
  return traffic;
}

absl::StatusOr<db::FleetStore*> FleetOf(db::Store& store) {
  if (store.fleet() != nullptr) return store.fleet();
  return absl::FailedPreconditionError(
      "the store is of this host alone; hosts share one by tunerd --store postgresql://... "
      "(docs/operations.md)");
}

}  // namespace

ServerService::ServerService(ServerIdentity identity, const ServerParts& parts,
                             Executors& executors)
    : identity_(std::move(identity)), parts_(parts), executors_(executors) {
  // A look at the whole folder, so that a status need not take one.
  (void)executors.heavy.Run([this] { parts_.workers.cache().bytes(); });
}

absl::Status ServerService::AddStored(const Principal& caller, v1::ServerStatus& status) const {
  std::vector<db::StoredBytes> all;
  if (caller.role == db::Role::kOperator) {
    ASSIGN_OR_RETURN(all, parts_.store.StoredMost(kStoredShown));
  } else {
    ASSIGN_OR_RETURN(all.emplace_back(), parts_.store.StoredBy(caller.name));
  }
  for (const db::StoredBytes& stored : all) {
    v1::StoredBytes& proto = *status.add_stored();
    proto.set_owner(Utf8(stored.owner));
    proto.set_kernel_bytes(stored.kernel_bytes);
    proto.set_result_bytes(stored.result_bytes);
    proto.set_artifact_bytes(stored.artifact_bytes);
  }
  return absl::OkStatus();
}

grpc::ServerUnaryReactor* ServerService::GetStatus(grpc::CallbackServerContext* context,
                                                   const v1::GetStatusRequest*,
                                                   v1::ServerStatus* response) {
  return AnswerOn(
      executor_, context, [=, this, caller = parts_.principals.Of(*context)]() -> absl::Status {
        response->mutable_caller()->set_name(Utf8(caller.name));
        response->mutable_caller()->set_role(static_cast<v1::PrincipalRole>(caller.role));
        if (parts_.certificates != nullptr) {
          const CertificateFiles::State state = parts_.certificates->state();
          v1::TlsCertificate& certificate = *response->mutable_certificate();
          certificate.set_file(parts_.certificates->file());
          certificate.set_expires_unix_ms(state.expires_unix_ms);
          certificate.set_problem(Utf8(state.problem));
        }
        *response->mutable_traffic() = TrafficOf(parts_, identity_.state_dir);
        ASSIGN_OR_RETURN(db::StoreStatistics statistics, parts_.store.Statistics());
        const Scheduler::Counts counts = parts_.scheduler.counts();
        response->set_version(identity_.version);
        response->set_started_unix_ms(identity_.started_unix_ms);
        response->set_pid(getpid());
        response->set_embedded(identity_.embedded);
        response->set_address(identity_.address);
        response->set_web_url(identity_.web_url);
        response->set_state_dir(identity_.state_dir);
        response->set_state_owner(Utf8(identity_.state_owner));
        response->set_resident_bytes(ResidentBytesOf(getpid()));
        response->set_queued_jobs(counts.queued);
        response->set_running_jobs(counts.running);
        response->set_draining(parts_.scheduler.draining());
        response->set_trial_count(statistics.trial_count);
        response->set_record_count(statistics.record_count);
        response->set_withdrawn_record_count(statistics.withdrawn_record_count);
        response->set_snapshot_id(parts_.records.snapshot()->snapshot_id());
        response->set_store_engine(statistics.engine);
        response->set_schema_version(statistics.schema_version);
        response->set_compile_cache_bytes(parts_.workers.cache().known_bytes());
        response->set_compile_workers(parts_.workers.limits().compile_workers);
        *response->mutable_bounds() = ToProto(parts_.workers.limits());
        const ClientRules rules = *parts_.principals.rules();
        response->mutable_bounds()->set_jobs_per_principal(rules.jobs_per_principal);
        response->mutable_bounds()->set_kernel_bytes_per_principal(
            static_cast<uint64_t>(rules.kernel_bytes_per_principal));
        response->mutable_bounds()->set_job_seconds_per_principal(rules.job_seconds_per_principal);
        AddQueue(parts_.scheduler.queue(), *response);
        response->mutable_bounds()->set_stored_bytes_per_principal(
            static_cast<uint64_t>(rules.stored_bytes_per_principal));
        RETURN_IF_ERROR(AddStored(caller, *response));
        response->set_watchers(static_cast<uint32_t>(parts_.ticker.watchers()));
        response->set_unstored_revocation_count(
            static_cast<uint32_t>(parts_.tokens.NotStored().size()));
        for (const db::UnreadableRow& row : parts_.store.UnreadableRows()) {
          response->add_unreadable_rows(Utf8(absl::StrCat(row.table, " ", row.id, ": ", row.why)));
        }
        const std::vector<v1::WorkerWalls> walls = parts_.workers.walls().All();
        response->mutable_walls()->Assign(walls.begin(), walls.end());
        response->set_weak_walls_allowed(parts_.workers.walls().weak_allowed());
        response->set_workers_watched_since(Utf8(parts_.workers.watched_since()));
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* ServerService::PruneJobs(grpc::CallbackServerContext* context,
                                                   const v1::PruneJobsRequest* request,
                                                   v1::PruneJobsResponse* response) {
  const auto prune = [=, this](const Cancelled& cancelled) -> absl::Status {
    const db::PruneFilter filter{.owner = request->owner(),
                                 .before_unix_ms = request->before_unix_ms(),
                                 .dry_run = request->dry_run()};
    for (int64_t last = 0; true;) {
      if (cancelled()) return absl::CancelledError("cancelled; some jobs were pruned");
      ASSIGN_OR_RETURN(const db::Pruned pruned, parts_.store.Prune(filter, last));
      last = pruned.last_job_id;
      response->set_jobs(response->jobs() + pruned.jobs);
      response->set_trials(response->trials() + pruned.trials);
      response->set_bytes(response->bytes() + pruned.bytes);
      if (last == 0) return absl::OkStatus();
    }
  };
  return AnswerOn(executors_.cancels, context, kPruneCap, prune);
}

grpc::ServerUnaryReactor* ServerService::ClearCompileCache(
    grpc::CallbackServerContext* context, const v1::ClearCompileCacheRequest*,
    v1::ClearCompileCacheResponse* response) {
  const std::string who = parts_.principals.Of(*context).name;
  return AnswerOn(executors_.cancels, context, [=, this]() -> absl::Status {
    ASSIGN_OR_RETURN(const int64_t removed, parts_.workers.cache().Clear());
    spdlog::info("{} has emptied the compile cache of {} bytes", who, removed);
    response->set_removed_bytes(static_cast<uint64_t>(removed));
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* ServerService::Drain(grpc::CallbackServerContext* context,
                                               const v1::DrainRequest* request,
                                               v1::DrainResponse* response) {
  return AnswerOn(executor_, context, [=, this, caller = parts_.principals.Of(*context)] {
    parts_.scheduler.SetDraining(!request->undo());
    spdlog::info("{} has {} the daemon", caller.name, request->undo() ? "undrained" : "drained");
    const Scheduler::Counts counts = parts_.scheduler.counts();
    response->set_running_jobs(counts.running);
    response->set_queued_jobs(counts.queued);
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* ServerService::ListHosts(grpc::CallbackServerContext* context,
                                                   const v1::ListHostsRequest*,
                                                   v1::ListHostsResponse* response) {
  return AnswerOn(executors_.reads, context, [=, this]() -> absl::Status {
    ASSIGN_OR_RETURN(db::FleetStore* const fleet, FleetOf(parts_.store));
    ASSIGN_OR_RETURN(const std::vector<db::HostView> hosts, fleet->Hosts());
    for (const db::HostView& view : hosts) {
      v1::Host& host = *response->add_hosts();
      host.set_name(view.row.name);
      host.set_address(view.row.address);
      host.set_version(view.row.version);
      const auto devices = nlohmann::json::parse(view.row.devices, nullptr, false);
      for (const auto& [id, name] : devices.items()) {
        if (name.is_string()) (*host.mutable_devices())[id] = name.get<std::string>();
      }
      host.set_running_jobs(view.running_jobs);
      host.set_waiting_jobs(view.waiting_jobs);
      host.set_drained(view.drained);
      host.set_joined_unix_ms(view.row.joined_unix_ms);
    }
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* ServerService::DrainHost(grpc::CallbackServerContext* context,
                                                   const v1::DrainHostRequest* request,
                                                   v1::DrainHostResponse*) {
  return AnswerOn(executors_.cancels, context, [=, this]() -> absl::Status {
    ASSIGN_OR_RETURN(db::FleetStore* const fleet, FleetOf(parts_.store));
    RETURN_IF_ERROR(fleet->SetDrained(request->name(), !request->undo()));
    spdlog::info("{} has {} host {}", parts_.principals.Of(*context).name,
                 request->undo() ? "undrained" : "drained", request->name());
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* ServerService::StopServer(grpc::CallbackServerContext* context,
                                                    const v1::StopServerRequest*,
                                                    v1::StopServerResponse* response) {
  if (!identity_.stop) {
    return Answer(context, absl::FailedPreconditionError("the server ends with its program"));
  }
  response->set_pid(getpid());
  identity_.stop();
  return Answer(context, absl::OkStatus());
}

}  // namespace tune::server
