// SPDX-License-Identifier: Apache-2.0
// Counts the connections of clients and limits them, so that neither strangers nor one client use
// up the files that the daemon may open.
//
// A connection belongs to a stranger, known by its address, until one of its calls is
// authenticated; from then on it belongs to that principal. A listener adds each connection before
// it passes it to gRPC, which owns and closes the descriptor. Beyond a limit an older connection is
// shut: the oldest of the address with the most strangers, or the oldest of the principal with the
// most. So a new client is always admitted, and a principal with few connections keeps them. A
// connection is gone once its descriptor is closed or is another file.
#pragma once

#include <sys/socket.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>

#include "absl/strings/string_view.h"
#include "base/mutex.h"

namespace tune::server {

// gRPC's name of a connection's peer, without its percent signs: "ipv4:10.0.0.7:4242",
// "ipv6:[::1]:4242". Empty for other families.
std::string PeerName(const sockaddr_storage& address);
// The host of a peer that gRPC names, for quotas and logs: "10.0.0.7", the network of an IPv6 host
// ("2001:db8:1:2::/64"), or "a unix socket".
std::string HostOfPeer(absl::string_view grpc_peer);

// Thread-safe.
class Connections {
 public:
  struct Bounds {
    size_t most = 0;            // in all
    size_t strangers_most = 0;  // that have not shown who they are
  };
  explicit Connections(const Bounds& bounds) : bounds_(bounds) {}

  // Returns false while shut connections are still open; ask again a little later.
  bool HasRoom();
  // Adds a stranger's connection. `peer` is gRPC's name for it.
  void Add(int fd, absl::string_view peer);
  // Adds the connection of a principal that is already known.
  void Add(int fd, absl::string_view peer, const std::string& principal);
  // Assigns the peer's connection to the principal that one of its calls authenticated.
  void Identify(absl::string_view peer, const std::string& principal);
  // Notes that a call of the peer had an invalid token. Shuts the connection after a number of
  // them.
  void NoteWrongToken(absl::string_view peer);
  // Shuts the peer's connection. gRPC closes it once it sees that it ended.
  void Shut(absl::string_view peer);

  struct Counts {
    size_t identified = 0;
    size_t strangers = 0;
    uint64_t shut = 0;  // since the start, by bounds and for wrong tokens
  };
  Counts counts() const;
  const Bounds& bounds() const { return bounds_; }

 private:
  struct Connection {
    int fd = -1;
    ino_t inode = 0;
    std::string peer;
    std::string owner;  // a principal, or a stranger's host
    bool stranger = true;
    bool shut = false;
    uint32_t wrong_tokens = 0;
  };

  void AddOne(int fd, Connection connection);
  static bool IsOpen(const Connection& connection);
  Connection* Find(absl::string_view peer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Shut(Connection& connection) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Shuts the oldest connection of the owner that has the most, among strangers or among all.
  void ShutOldest(bool strangers_only) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ForgetClosed() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  size_t Strangers() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Bounds bounds_;
  mutable Mutex mutex_;
  std::map<uint64_t, Connection> open_ ABSL_GUARDED_BY(mutex_);  // by number, which grows
  std::unordered_map<std::string, uint64_t> by_peer_ ABSL_GUARDED_BY(mutex_);
  uint64_t next_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t shut_count_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace tune::server
