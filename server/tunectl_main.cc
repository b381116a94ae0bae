// SPDX-License-Identifier: Apache-2.0
// tunectl. Its main is here because only server/ may start a server in process.
#include <memory>
#include <utility>

#include "client/app.h"
#include "server/embedded.h"

namespace {

class InProcessServer : public tune::client::EmbeddedServer {
 public:
  explicit InProcessServer(std::unique_ptr<tune::server::Server> server)
      : server_(std::move(server)) {}
  std::shared_ptr<grpc::Channel> channel() override { return server_->InProcessChannel(); }

 private:
  const std::unique_ptr<tune::server::Server> server_;
};

absl::StatusOr<std::unique_ptr<tune::client::EmbeddedServer>> StartInProcess() {
  auto server = tune::server::StartEmbedded();
  if (!server.ok()) return server.status();
  return std::make_unique<InProcessServer>(*std::move(server));
}

}  // namespace

int main(int argc, char** argv) { return tune::client::RunTunectl(argc, argv, StartInProcess); }
