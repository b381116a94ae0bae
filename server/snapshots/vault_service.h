// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <utility>

#include "server/access/principals.h"
#include "server/rpc/executor.h"
#include "server/snapshots/vault.h"
#include "tune/v1/vault.grpc.pb.h"

namespace tune::server {

// Thread-safe.
class VaultService : public v1::VaultService::CallbackService {
 public:
  // `on_change` is called once the vault has changed. All must outlive the service.
  VaultService(Vault& vault, const Principals& principals, std::function<void()> on_change,
               Executors& executors)
      : vault_(vault),
        principals_(principals),
        on_change_(std::move(on_change)),
        executors_(executors) {}

  grpc::ServerUnaryReactor* GetVaultEntry(grpc::CallbackServerContext* context,
                                          const v1::GetVaultEntryRequest* request,
                                          v1::VaultEntry* response) override;
  grpc::ServerUnaryReactor* ListVaultEntries(grpc::CallbackServerContext* context,
                                             const v1::ListVaultEntriesRequest* request,
                                             v1::ListVaultEntriesResponse* response) override;
  grpc::ServerUnaryReactor* PutVaultEntry(grpc::CallbackServerContext* context,
                                          const v1::PutVaultEntryRequest* request,
                                          v1::VaultEntry* response) override;
  grpc::ServerUnaryReactor* RemoveVaultEntry(grpc::CallbackServerContext* context,
                                             const v1::RemoveVaultEntryRequest* request,
                                             v1::VaultEntry* response) override;

 private:
  Vault& vault_;
  const Principals& principals_;
  const std::function<void()> on_change_;
  Executors& executors_;
};

}  // namespace tune::server
