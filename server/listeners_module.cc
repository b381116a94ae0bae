// SPDX-License-Identifier: Apache-2.0
#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_join.h"
#include "base/address.h"
#include "base/status_macros.h"
#include "server/modules.h"
#include "server/rpc/listener.h"
#include "server/upkeep.h"

namespace tune::server {
namespace {

// Connections get three quarters of the files that the process may open; the others are for the
// store, the log and the workers.
Connections::Bounds TcpBounds() {
  constexpr size_t kMost = 16384;
  constexpr size_t kStrangersMost = 256;
  const size_t most = std::min(kMost, OpenFilesMax() / 2);
  return {.most = most, .strangers_most = std::min(kStrangersMost, most / 4)};
}
Connections::Bounds UnixBounds() {
  constexpr size_t kMost = 8192;
  const size_t most = std::min(kMost, OpenFilesMax() / 4);
  return {.most = most, .strangers_most = most};  // the kernel says who everybody is
}

}  // namespace

ListenersModule::ListenersModule(const ServerOptions& server_options, CallsModule& calls_module)
    : options(server_options),
      calls(calls_module),
      tcp_connections(TcpBounds()),
      unix_connections(UnixBounds()) {}

absl::Status ListenersModule::Check(const ServerOptions& options) {
  if (!options.clients.submit_group.empty()) {
    RETURN_IF_ERROR(GroupNumber(options.clients.submit_group).status());
  }
  bool is_tcp = false;
  for (const std::string& address : options.addresses) {
    if (!SocketPath(address).empty()) continue;
    RETURN_IF_ERROR(CheckTcp(address, options.tls));
    is_tcp = true;
  }
  return is_tcp ? CertificateFiles::Open(options.tls).status() : absl::OkStatus();
}

absl::Status ListenersModule::Bind() {
  RETURN_IF_ERROR(Check(options));
  addresses = options.addresses;
  for (std::string& address : addresses) {
    if (const std::string path = SocketPath(address); !path.empty()) {
      RETURN_IF_ERROR(PrepareSocket(path));
      continue;
    }
    ASSIGN_OR_RETURN(std::unique_ptr<TcpListener> listener, TcpListener::Bind(address));
    address = listener->address();
    tcp_listeners_.push_back(std::move(listener));
  }
  if (tcp_listeners_.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(certificates, CertificateFiles::Open(options.tls));
  return absl::OkStatus();
}

void ListenersModule::AddTo(grpc::ServerBuilder& builder) {
  if (certificates == nullptr) return;
  acceptor_ = builder.experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
      certificates->Credentials());
}

absl::Status ListenersModule::Start() {
  for (const std::unique_ptr<TcpListener>& listener : tcp_listeners_) {
    RETURN_IF_ERROR(listener->Start(*acceptor_, tcp_connections));
  }
  for (const std::string& address : addresses) {
    const std::string path = SocketPath(address);
    if (path.empty()) continue;
    ASSIGN_OR_RETURN(
        std::unique_ptr<UnixListener> listener,
        UnixListener::Start(
            {.path = path, .mode = options.socket_mode, .group = options.clients.submit_group},
            *calls.server, peers, unix_connections));
    unix_listeners_.push_back(std::move(listener));
  }
  if (!addresses.empty()) spdlog::info("listening on {}", absl::StrJoin(addresses, ", "));
  return absl::OkStatus();
}

void ListenersModule::BeginStop() {
  unix_listeners_.clear();
  tcp_listeners_.clear();
}

}  // namespace tune::server
