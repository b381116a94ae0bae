// SPDX-License-Identifier: Apache-2.0
// tunectl. Its main is here because only server/ may start a server in process.
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client/cli/app.h"
#include "server/embedded.h"
#include "server/replay/replay_server.h"
#include "server/store_service.h"

namespace {

template <typename Server>
class InProcess : public tune::client::EmbeddedServer {
 public:
  explicit InProcess(std::unique_ptr<Server> server) : server_(std::move(server)) {}
  std::shared_ptr<grpc::Channel> channel() override { return server_->InProcessChannel(); }

 private:
  const std::unique_ptr<Server> server_;
};

template <typename Server>
absl::StatusOr<std::unique_ptr<tune::client::EmbeddedServer>> Embed(
    absl::StatusOr<std::unique_ptr<Server>> server) {
  if (!server.ok()) return server.status();
  return std::make_unique<InProcess<Server>>(*std::move(server));
}

tune::server::StoreUse StoreUseFor(tune::client::Need need) {
  switch (need) {
    case tune::client::Need::kRead:
      return tune::server::StoreUse::kRead;
    case tune::client::Need::kKernels:
      return tune::server::StoreUse::kNone;
    case tune::client::Need::kAll:
      break;
  }
  return tune::server::StoreUse::kOwn;
}

}  // namespace

int main(int argc, char** argv) {
  // Silences gRPC: client/connect/tls_probe.h explains in a sentence why a connection failed.
  setenv("GRPC_VERBOSITY", "NONE", /*overwrite=*/0);
  return tune::client::RunTunectl(
      argc, argv,
      {.daemon =
           [](tune::client::Need need, const std::vector<std::string>& kernels,
              const tune::client::HostTools& tools) {
             return Embed(tune::server::StartEmbedded({.store_use = StoreUseFor(need),
                                                       .kernels = kernels,
                                                       .include_roots = tools.include_roots,
                                                       .triton_python = tools.triton_python,
                                                       .numpy_python = tools.numpy_python}));
           },
       .replay = [] { return Embed(tune::server::ReplayServer::Start()); },
       .restore_store = tune::server::RestoreStore});
}
