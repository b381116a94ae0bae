// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/connections.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <map>
#include <string>

#include "base/descriptor.h"

namespace tune::server {
namespace {

// A connection, of which the test is the client and gRPC's part is played by the other end.
class Pair {
 public:
  Pair() {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    daemon_ = Descriptor(ends[0]);
    client_ = Descriptor(ends[1]);
  }
  int fd() const { return daemon_.get(); }
  bool WasShut() const {
    char byte = 0;
    return recv(client_.get(), &byte, 1, MSG_DONTWAIT) == 0;
  }
  void Close() { daemon_.Reset(); }

 private:
  Descriptor daemon_;
  Descriptor client_;
};

class ConnectionsTest : public testing::Test {
 protected:
  // A stranger's, from 10.0.0.<host>.
  Pair& Stranger(int host) {
    const int port = ++last_port_;
    Pair& pair = pairs_[port];
    connections_.Add(pair.fd(), PeerOf(host, port));
    return pair;
  }
  Pair& Known(const std::string& principal, int host = 9) {
    Pair& pair = Stranger(host);
    connections_.Identify(PeerOf(host, last_port_), principal);
    return pair;
  }
  static std::string PeerOf(int host, int port) {
    return "ipv4:10.0.0." + std::to_string(host) + ":" + std::to_string(port);
  }

  Connections connections_{{.most = 8, .strangers_most = 4}};
  std::map<int, Pair> pairs_;  // by port
  int last_port_ = 0;
};

TEST_F(ConnectionsTest, TheOldestStrangerMakesRoom) {
  Pair& first = Stranger(1);
  for (int i = 0; i < 3; ++i) Stranger(1);
  EXPECT_FALSE(first.WasShut());
  Pair& fifth = Stranger(1);
  EXPECT_TRUE(first.WasShut());
  EXPECT_FALSE(fifth.WasShut());
  EXPECT_EQ(connections_.counts().shut, 1u);
}

TEST_F(ConnectionsTest, AStrangerFromAnotherHostIsNotInTheCrowdsWay) {
  Pair& lonely = Stranger(2);
  for (int i = 0; i < 20; ++i) Stranger(1);
  EXPECT_FALSE(lonely.WasShut());
  EXPECT_EQ(connections_.counts().shut, 17u);
}

TEST_F(ConnectionsTest, StrangersDoNotDisplaceThoseWhoAreKnown) {
  Pair& alice = Known("alice");
  for (int i = 0; i < 50; ++i) Stranger(1);
  EXPECT_FALSE(alice.WasShut());
  EXPECT_EQ(connections_.counts().identified, 1u);
}

TEST_F(ConnectionsTest, WhoHasTheMostMakesRoom) {
  Pair& alice = Known("alice");
  Pair& first = Known("mallory");
  for (int i = 0; i < 6; ++i) Known("mallory");
  EXPECT_FALSE(first.WasShut());
  Pair& bob = Known("bob");
  EXPECT_TRUE(first.WasShut());
  EXPECT_FALSE(alice.WasShut());
  EXPECT_FALSE(bob.WasShut());
}

TEST_F(ConnectionsTest, WhatIsClosedCountsNoMore) {
  for (int i = 0; i < 4; ++i) Stranger(1).Close();
  EXPECT_EQ(connections_.counts().strangers, 0u);
  Pair& next = Stranger(1);
  for (int i = 0; i < 3; ++i) Stranger(1);
  EXPECT_FALSE(next.WasShut());
  EXPECT_EQ(connections_.counts().shut, 0u);
}

TEST_F(ConnectionsTest, NoRoomWhileThoseThatWereShutAreOpen) {
  for (int i = 0; i < 8; ++i) Known("alice");
  for (int i = 0; i < 2; ++i) Known("bob");
  EXPECT_FALSE(connections_.HasRoom()) << "gRPC has not closed what was shut";
  for (auto& [port, pair] : pairs_) pair.Close();
  EXPECT_TRUE(connections_.HasRoom());
}

TEST_F(ConnectionsTest, ManyWrongTokensEndAConnection) {
  Pair& pair = Stranger(1);
  for (int i = 0; i < 19; ++i) connections_.NoteWrongToken(PeerOf(1, last_port_));
  EXPECT_FALSE(pair.WasShut());
  connections_.NoteWrongToken(PeerOf(1, last_port_));
  EXPECT_TRUE(pair.WasShut());
}

TEST(PeerTest, NamesAreGrpcs) {
  sockaddr_storage address = {};
  auto& v4 = reinterpret_cast<sockaddr_in&>(address);
  v4.sin_family = AF_INET;
  v4.sin_port = htons(4242);
  inet_pton(AF_INET, "10.1.2.3", &v4.sin_addr);
  EXPECT_EQ(PeerName(address), "ipv4:10.1.2.3:4242");
  address = {};
  auto& v6 = reinterpret_cast<sockaddr_in6&>(address);
  v6.sin6_family = AF_INET6;
  v6.sin6_port = htons(1);
  inet_pton(AF_INET6, "2001:db8:1:2:3::4", &v6.sin6_addr);
  EXPECT_EQ(PeerName(address), "ipv6:[2001:db8:1:2:3::4]:1");
  inet_pton(AF_INET6, "::ffff:10.1.2.3", &v6.sin6_addr);
  EXPECT_EQ(PeerName(address), "ipv4:10.1.2.3:1");
}

TEST(PeerTest, AHostOfIpv6IsItsNetwork) {
  EXPECT_EQ(HostOfPeer("ipv4:10.1.2.3:4242"), "10.1.2.3");
  EXPECT_EQ(HostOfPeer("ipv6:%5B2001:db8:1:2:3::4%5D:1"), "2001:db8:1:2::/64");
  EXPECT_EQ(HostOfPeer("fd:17"), "a unix socket");
}

}  // namespace
}  // namespace tune::server
