// SPDX-License-Identifier: Apache-2.0
// The user at the other end of each unix socket connection, as the kernel reported it at its start.
#pragma once

#include <sys/types.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "base/mutex.h"

namespace tune::server {

struct UnixPeer {
  uid_t uid = 0;
  std::vector<gid_t> groups;  // the primary one first
  std::string name;           // of the user; "uid:1000" where there is no such user
};

// "uid:1000" if the user database has no such user.
std::string UserName(uid_t uid);

// Peers by descriptor: gRPC names the peer of a connection that was passed to it "fd:13".
// Thread-safe.
class UnixPeers {
 public:
  // Records the peer of a connection before gRPC gets it.
  void Set(int fd, UnixPeer peer) {
    MutexLock lock(mutex_);
    peers_[fd] = std::move(peer);
  }
  // The peer of gRPC's name; nullopt for another kind of connection.
  std::optional<UnixPeer> Find(absl::string_view grpc_peer) const;

 private:
  mutable Mutex mutex_;
  std::map<int, UnixPeer> peers_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tune::server
