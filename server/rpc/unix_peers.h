// SPDX-License-Identifier: Apache-2.0
// Who is at the other end of each unix socket connection, as the kernel told when it was made.
#pragma once

#include <sys/types.h>

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace tune::server {

struct UnixPeer {
  uid_t uid = 0;
  std::vector<gid_t> groups;  // the primary one first
  std::string name;           // of the user; "uid:1000" where there is no such user
};

// "uid:1000" where the user database has no such user.
std::string UserName(uid_t uid);

// By descriptor: gRPC calls the peer of a connection that was handed over "fd:13". Thread-safe.
class UnixPeers {
 public:
  // Of a connection that gRPC does not have yet.
  void Set(int fd, UnixPeer peer) {
    std::lock_guard lock(mutex_);
    peers_[fd] = std::move(peer);
  }
  // Of what gRPC says the peer is; nothing for another kind of connection.
  std::optional<UnixPeer> Find(absl::string_view grpc_peer) const;

 private:
  mutable std::mutex mutex_;
  std::map<int, UnixPeer> peers_;  // guarded by mutex_
};

}  // namespace tune::server
