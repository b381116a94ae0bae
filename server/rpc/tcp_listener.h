// SPDX-License-Identifier: Apache-2.0
// Accepts TCP connections and passes them to gRPC, which does the TLS. gRPC's own listener has no
// limit of connections, so a crowd of strangers would use up the files that the daemon may open.
//
// Bind takes the address before anything else is started; clients wait in its queue until Start.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/descriptor.h"
#include "grpcpp/server_builder.h"
#include "server/rpc/accept_loop.h"
#include "server/rpc/connections.h"

namespace tune::server {

class TcpListener {
 public:
  // "<host>:<port>" binds all addresses of the host; port 0 chooses a free one. INVALID_ARGUMENT if
  // it is no address; FAILED_PRECONDITION, with the reason, if it cannot be bound.
  static absl::StatusOr<std::unique_ptr<TcpListener>> Bind(const std::string& address);

  // Both must outlive the listener, and gRPC's server be started.
  absl::Status Start(grpc::experimental::ExternalConnectionAcceptor& acceptor,
                     Connections& connections);
  // The address to which clients connect, with the port that was chosen.
  const std::string& address() const { return address_; }

 private:
  TcpListener(std::string address, std::vector<Descriptor> sockets)
      : address_(std::move(address)), sockets_(std::move(sockets)) {}

  const std::string address_;
  std::vector<Descriptor> sockets_;  // until Start
  std::unique_ptr<AcceptLoop> loop_;
};

}  // namespace tune::server
