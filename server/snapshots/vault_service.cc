// SPDX-License-Identifier: Apache-2.0
#include "server/snapshots/vault_service.h"

#include <algorithm>
#include <string>

#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "server/rpc/unary.h"
#include "server/wire/nouns.h"

namespace tune::server {
namespace {

constexpr uint32_t kListedByDefault = 100;
constexpr uint32_t kListedMax = 1000;
constexpr size_t kListedBytesMax = size_t{3} << 20;  // of a message

v1::VaultEntry EntryProto(const VaultEntry& entry) {
  v1::VaultEntry proto;
  proto.set_tuner(entry.tuner);
  proto.set_key(Utf8(entry.key));
  proto.set_value(Utf8(entry.value));
  proto.set_owner(Utf8(entry.owner));
  proto.set_stored_unix_ms(entry.stored_unix_ms);
  return proto;
}

absl::Status Fill(const absl::StatusOr<VaultEntry>& entry, v1::VaultEntry& response) {
  RETURN_IF_ERROR(entry.status());
  response = EntryProto(*entry);
  return absl::OkStatus();
}

}  // namespace

grpc::ServerUnaryReactor* VaultService::GetVaultEntry(grpc::CallbackServerContext* context,
                                                      const v1::GetVaultEntryRequest* request,
                                                      v1::VaultEntry* response) {
  return Answer(context, Fill(vault_.Find(request->tuner(), request->key()), *response));
}

grpc::ServerUnaryReactor* VaultService::ListVaultEntries(grpc::CallbackServerContext* context,
                                                         const v1::ListVaultEntriesRequest* request,
                                                         v1::ListVaultEntriesResponse* response) {
  return AnswerOn(executors_.reads, context, [=, this] {
    const uint32_t limit = request->limit() == 0 ? kListedByDefault : request->limit();
    size_t bytes = 0;
    for (const VaultEntry& entry : vault_.List(request->tuner(), std::min(limit, kListedMax))) {
      bytes += entry.value.size() + entry.key.size();
      if (bytes > kListedBytesMax) break;
      *response->add_entries() = EntryProto(entry);
    }
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* VaultService::PutVaultEntry(grpc::CallbackServerContext* context,
                                                      const v1::PutVaultEntryRequest* request,
                                                      v1::VaultEntry* response) {
  const Principal caller = principals_.Of(*context);
  return AnswerOn(executors_.reads, context, [=, this]() -> absl::Status {
    const VaultEntry entry = {.tuner = request->tuner(),
                              .key = request->key(),
                              .value = request->value(),
                              .owner = caller.name,
                              .stored_unix_ms = absl::ToUnixMillis(absl::Now())};
    ASSIGN_OR_RETURN(const bool changed, vault_.Put(entry, caller.role == db::Role::kOperator));
    if (changed) on_change_();
    return Fill(vault_.Find(entry.tuner, entry.key), *response);
  });
}

grpc::ServerUnaryReactor* VaultService::RemoveVaultEntry(grpc::CallbackServerContext* context,
                                                         const v1::RemoveVaultEntryRequest* request,
                                                         v1::VaultEntry* response) {
  return AnswerOn(executors_.reads, context, [=, this]() -> absl::Status {
    RETURN_IF_ERROR(Fill(vault_.Remove(request->tuner(), request->key()), *response));
    on_change_();
    return absl::OkStatus();
  });
}

}  // namespace tune::server
