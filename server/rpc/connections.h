// SPDX-License-Identifier: Apache-2.0
// Counts the connections of clients and keeps them within bounds, so that neither strangers nor one
// client use up the files that the daemon may open.
//
// A connection belongs to a stranger, known by its address, until one of its calls shows who makes
// it; from then on it belongs to that principal. A listener adds each connection before it hands it
// to gRPC, which owns and closes the descriptor. Beyond a bound an older connection is shut: the
// oldest of the address with the most strangers, or the oldest of whoever has the most. So a new
// client always finds a place, and whoever has few connections keeps them. A connection is gone
// once its descriptor is closed or is another file.
#pragma once

#include <sys/socket.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <unordered_map>

#include "absl/strings/string_view.h"

namespace tune::server {

// How gRPC names the peer of a connection, without its percent signs: "ipv4:10.0.0.7:4242",
// "ipv6:[::1]:4242". Empty: neither family.
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

  // False: connections that were shut are still open; ask again a little later.
  bool HasRoom();
  // Of a stranger. `peer` is how gRPC will name it.
  void Add(int fd, absl::string_view peer);
  // Of a principal that is known already.
  void Add(int fd, absl::string_view peer, const std::string& principal);
  // A call of the peer has shown who makes it.
  void Identify(absl::string_view peer, const std::string& principal);
  // The peer's call had a token that is not taken. Shuts the connection after a number of them.
  void NoteWrongToken(absl::string_view peer);
  // gRPC closes the connection once it sees that it ended.
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
  // REQUIRES, as all below: mutex_ is held.
  Connection* Find(absl::string_view peer);
  void Shut(Connection& connection);
  // The oldest of the owner that has the most, of strangers or of all.
  void ShutOldest(bool strangers_only);
  void ForgetClosed();
  size_t Strangers() const;

  const Bounds bounds_;
  mutable std::mutex mutex_;
  // Guarded by mutex_.
  std::map<uint64_t, Connection> open_;  // by number, which grows
  std::unordered_map<std::string, uint64_t> by_peer_;
  uint64_t next_ = 0;
  uint64_t shut_count_ = 0;
};

}  // namespace tune::server
