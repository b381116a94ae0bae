// SPDX-License-Identifier: Apache-2.0
// Accepts connections at a unix socket and hands them to gRPC, which itself does not tell who is at
// the other end.
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

// The number of a group. INVALID_ARGUMENT: there is no such group.
absl::StatusOr<gid_t> GroupNumber(const std::string& group);

class UnixListener {
 public:
  // Listens when it returns; a socket that nobody answers at is replaced. All must outlive the
  // listener, and the server be started. FAILED_PRECONDITION: a daemon listens there, or it cannot
  // be listened there.
  static absl::StatusOr<std::unique_ptr<UnixListener>> Start(const UnixSocketOptions& options,
                                                             grpc::Server& server, UnixPeers& peers,
                                                             Connections& connections);
  // Takes no further connections, and removes the socket if it is still ours.
  ~UnixListener();

 private:
  UnixListener(const std::string& path, grpc::Server& server, UnixPeers& peers,
               Connections& connections);

  bool Accept(int socket);
  // Under a number that no connection had for long, so that a call of one that is dying cannot be
  // taken for its successor's.
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
