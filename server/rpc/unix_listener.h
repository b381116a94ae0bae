// SPDX-License-Identifier: Apache-2.0
// Accepts connections at a unix socket and passes them to gRPC, after it has recorded the peer's
// user, which gRPC does not report.
#pragma once

#include <sys/stat.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/descriptor.h"
#include "grpcpp/server.h"
#include "server/rpc/accept_loop.h"
#include "server/rpc/connections.h"
#include "server/rpc/unix_peers.h"

namespace tune::server {

struct UnixSocketOptions {
  std::string path;
  mode_t mode = 0660;  // who may connect
  std::string group;   // the socket's, by name or number; empty: the daemon's
};

// The number of a group. INVALID_ARGUMENT if there is no such group.
absl::StatusOr<gid_t> GroupNumber(const std::string& group);

class UnixListener {
 public:
  // Listens when it returns, and replaces a socket on which no process listens. All must outlive
  // the listener, and the server must be started. FAILED_PRECONDITION if a daemon listens there, or
  // the path cannot be bound.
  static absl::StatusOr<std::unique_ptr<UnixListener>> Start(const UnixSocketOptions& options,
                                                             grpc::Server& server, UnixPeers& peers,
                                                             Connections& connections);
  // Accepts no further connections, and removes the socket if it is still this listener's.
  ~UnixListener();

 private:
  UnixListener(const std::string& path, grpc::Server& server, UnixPeers& peers,
               Connections& connections);

  bool Accept(int socket);
  // Moves a connection to a descriptor number that was unused for long, so that a call of a dying
  // connection cannot be taken for its successor's.
  Descriptor MoveUp(Descriptor connection);

  const std::string path_;
  grpc::Server& server_;
  UnixPeers& peers_;
  Connections& connections_;
  struct stat identity_ = {};
  int next_fd_;
  std::unique_ptr<AcceptLoop> loop_;
};

}  // namespace tune::server
