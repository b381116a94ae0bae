// SPDX-License-Identifier: Apache-2.0
// Serves ReplayService to its own process only.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "grpcpp/grpcpp.h"

namespace tune::server {

// Listens on nothing; needs no state folder. Stops when destroyed.
class ReplayServer {
 public:
  static absl::StatusOr<std::unique_ptr<ReplayServer>> Start();
  ~ReplayServer();

  std::shared_ptr<grpc::Channel> InProcessChannel();

 private:
  ReplayServer();

  const std::unique_ptr<grpc::Service> service_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace tune::server
