// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>

#include "db/store.h"
#include "server/rpc/executor.h"
#include "tune/v1/store.grpc.pb.h"

namespace tune::server {

// Thread-safe.
class StoreService : public v1::StoreService::CallbackService {
 public:
  // The store and the executors must outlive the service.
  StoreService(db::Store& store, std::string state_dir, Executors& executors)
      : store_(store), state_dir_(std::move(state_dir)), executors_(executors) {}

  grpc::ServerUnaryReactor* CheckStore(grpc::CallbackServerContext* context,
                                       const v1::CheckStoreRequest* request,
                                       v1::CheckStoreResponse* response) override;
  grpc::ServerUnaryReactor* BackUpStore(grpc::CallbackServerContext* context,
                                        const v1::BackUpStoreRequest* request,
                                        v1::BackUpStoreResponse* response) override;

 private:
  db::Store& store_;
  const std::string state_dir_;
  Executors& executors_;
};

// Puts a backup in the place of the store of a state folder that no process has open. Returns the
// new name of the store that was there; empty: there was none. Errors as of db::Store::Restore.
absl::StatusOr<std::string> RestoreStore(const std::string& backup);

}  // namespace tune::server
