// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/connections.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"

namespace tune::server {
namespace {

constexpr uint32_t kWrongTokensMax = 20;  // of a connection
constexpr size_t kNetworkBytes = 8;       // of an IPv6 address, the part that a site is given

// Undoes the escapes of gRPC's URIs: "ipv6:%5B::1%5D:4242".
std::string WithoutEscapes(absl::string_view peer) {
  return absl::StrReplaceAll(peer, {{"%5B", "["}, {"%5D", "]"}, {"%25", "%"}});
}

}  // namespace

std::string PeerName(const sockaddr_storage& address) {
  char text[INET6_ADDRSTRLEN] = {};
  if (address.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
    inet_ntop(AF_INET, &v4.sin_addr, text, sizeof(text));
    return absl::StrCat("ipv4:", text, ":", ntohs(v4.sin_port));
  }
  if (address.ss_family != AF_INET6) return "";
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
  if (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr)) {
    inet_ntop(AF_INET, &v6.sin6_addr.s6_addr[12], text, sizeof(text));
    return absl::StrCat("ipv4:", text, ":", ntohs(v6.sin6_port));
  }
  inet_ntop(AF_INET6, &v6.sin6_addr, text, sizeof(text));
  const std::string scope = v6.sin6_scope_id == 0 ? "" : absl::StrCat("%", v6.sin6_scope_id);
  return absl::StrCat("ipv6:[", text, scope, "]:", ntohs(v6.sin6_port));
}

std::string HostOfPeer(absl::string_view grpc_peer) {
  const std::string peer = WithoutEscapes(grpc_peer);
  absl::string_view host = peer;
  if (absl::ConsumePrefix(&host, "ipv4:")) return std::string(host.substr(0, host.rfind(':')));
  if (!absl::ConsumePrefix(&host, "ipv6:[")) return "a unix socket";
  in6_addr address = {};
  const std::string text(host.substr(0, host.find_first_of("%]")));
  if (inet_pton(AF_INET6, text.c_str(), &address) != 1) return text;
  std::fill(address.s6_addr + kNetworkBytes, address.s6_addr + sizeof(address.s6_addr), 0);
  char network[INET6_ADDRSTRLEN] = {};
  inet_ntop(AF_INET6, &address, network, sizeof(network));
  return absl::StrCat(network, "/64");
}

bool Connections::HasRoom() {
  MutexLock lock(mutex_);
  const size_t with_shut_ones = bounds_.most + bounds_.most / 8 + 1;
  if (open_.size() < with_shut_ones) return true;
  ForgetClosed();
  return open_.size() < with_shut_ones;
}

void Connections::Add(int fd, absl::string_view peer) {
  AddOne(fd, {.peer = std::string(peer), .owner = HostOfPeer(peer)});
}

void Connections::Add(int fd, absl::string_view peer, const std::string& principal) {
  AddOne(fd, {.peer = std::string(peer), .owner = principal, .stranger = false});
}

void Connections::AddOne(int fd, Connection connection) {
  struct stat file = {};
  if (fstat(fd, &file) != 0) return;
  connection.fd = fd;
  connection.inode = file.st_ino;
  MutexLock lock(mutex_);
  // Shut connections still count as open until they are closed; HasRoom waits for them.
  const auto in_use = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return static_cast<size_t>(std::count_if(
        open_.begin(), open_.end(), [](const auto& numbered) { return !numbered.second.shut; }));
  };
  if (in_use() >= bounds_.most || Strangers() >= bounds_.strangers_most) ForgetClosed();
  if (connection.stranger && Strangers() >= bounds_.strangers_most) {
    ShutOldest(/*strangers_only=*/true);
  }
  if (in_use() >= bounds_.most) ShutOldest(/*strangers_only=*/false);
  by_peer_[connection.peer] = next_;
  open_.emplace(next_++, std::move(connection));
}

void Connections::Identify(absl::string_view peer, const std::string& principal) {
  MutexLock lock(mutex_);
  Connection* const connection = Find(peer);
  if (connection == nullptr || !connection->stranger) return;
  connection->stranger = false;
  connection->owner = principal;
}

void Connections::NoteWrongToken(absl::string_view peer) {
  MutexLock lock(mutex_);
  Connection* const connection = Find(peer);
  if (connection != nullptr && ++connection->wrong_tokens >= kWrongTokensMax) Shut(*connection);
}

void Connections::Shut(absl::string_view peer) {
  MutexLock lock(mutex_);
  if (Connection* const connection = Find(peer)) Shut(*connection);
}

Connections::Counts Connections::counts() const {
  MutexLock lock(mutex_);
  Counts counts{.shut = shut_count_};
  for (const auto& [number, connection] : open_) {
    if (!IsOpen(connection)) continue;
    ++(connection.stranger ? counts.strangers : counts.identified);
  }
  return counts;
}

bool Connections::IsOpen(const Connection& connection) {
  struct stat file = {};
  return fstat(connection.fd, &file) == 0 && S_ISSOCK(file.st_mode) &&
         file.st_ino == connection.inode;
}

Connections::Connection* Connections::Find(absl::string_view peer) {
  const auto named = by_peer_.find(WithoutEscapes(peer));
  if (named == by_peer_.end()) return nullptr;
  const auto found = open_.find(named->second);
  return found == open_.end() ? nullptr : &found->second;
}

// gRPC may close the descriptor just before it is shut, and a new connection be given its number:
// then that one ends, and its client connects again.
void Connections::Shut(Connection& connection) {
  if (connection.shut) return;
  connection.shut = true;
  ++shut_count_;
  if (IsOpen(connection)) (void)shutdown(connection.fd, SHUT_RDWR);
}

void Connections::ShutOldest(bool strangers_only) {
  std::unordered_map<std::string, size_t> counts;
  const auto counts_for = [&](const Connection& connection) {
    return !connection.shut && (connection.stranger || !strangers_only);
  };
  for (const auto& [number, connection] : open_) {
    if (counts_for(connection)) ++counts[connection.owner];
  }
  Connection* oldest = nullptr;
  size_t most = 0;
  for (auto& [number, connection] : open_) {
    if (!counts_for(connection) || counts[connection.owner] <= most) continue;
    most = counts[connection.owner];
    oldest = &connection;
  }
  if (oldest != nullptr) Shut(*oldest);
}

void Connections::ForgetClosed() {
  std::erase_if(open_, [this](const auto& numbered) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto& [number, connection] = numbered;
    if (IsOpen(connection)) return false;
    const auto named = by_peer_.find(connection.peer);
    if (named != by_peer_.end() && named->second == number) by_peer_.erase(named);
    return true;
  });
}

size_t Connections::Strangers() const {
  return static_cast<size_t>(std::count_if(open_.begin(), open_.end(), [](const auto& numbered) {
    return numbered.second.stranger && !numbered.second.shut;
  }));
}

}  // namespace tune::server
