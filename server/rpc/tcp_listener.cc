// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/tcp_listener.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/address.h"
#include "base/status_macros.h"

namespace tune::server {
namespace {

constexpr int kBacklog = 1024;
constexpr int kUnansweredMs = 20'000;  // a peer that acknowledges nothing for so long is gone

using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

absl::Status Failed(const std::string& address, const std::string& why) {
  return absl::FailedPreconditionError(absl::StrCat("cannot listen on ", address, ": ", why));
}

absl::StatusOr<Addresses> Resolve(const std::string& address) {
  ASSIGN_OR_RETURN(const HostPort place, HostPortOf(address));
  addrinfo wanted = {};
  wanted.ai_family = AF_UNSPEC;
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(place.host.c_str(), place.port.c_str(), &wanted, &found);
  if (error != 0) return Failed(address, gai_strerror(error));
  return Addresses(found, freeaddrinfo);
}

void SetPort(sockaddr& address, uint16_t port) {
  // Both families have the port at the same place.
  reinterpret_cast<sockaddr_in&>(address).sin_port = htons(port);
}

uint16_t PortOf(int socket) {
  sockaddr_storage address = {};
  socklen_t bytes = sizeof(address);
  if (getsockname(socket, reinterpret_cast<sockaddr*>(&address), &bytes) != 0) return 0;
  return ntohs(reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

// With errno, if it is not ok.
Descriptor BindOne(const addrinfo& address) {
  Descriptor made(
      socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP));
  if (!made.ok()) return made;
  const int on = 1;
  const int both_families = 0;
  setsockopt(made.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  // Connections inherit these two.
  setsockopt(made.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  setsockopt(made.get(), IPPROTO_TCP, TCP_USER_TIMEOUT, &kUnansweredMs, sizeof(kUnansweredMs));
  if (address.ai_family == AF_INET6) {
    setsockopt(made.get(), IPPROTO_IPV6, IPV6_V6ONLY, &both_families, sizeof(both_families));
  }
  if (bind(made.get(), address.ai_addr, address.ai_addrlen) != 0 ||
      listen(made.get(), kBacklog) != 0) {
    made.Reset();
  }
  return made;
}

bool AcceptOne(int socket, grpc::experimental::ExternalConnectionAcceptor& acceptor,
               Connections& connections) {
  if (!connections.HasRoom()) return false;
  sockaddr_storage peer = {};
  socklen_t bytes = sizeof(peer);
  Descriptor connection(
      accept4(socket, reinterpret_cast<sockaddr*>(&peer), &bytes, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!connection.ok()) return errno != EMFILE && errno != ENFILE && errno != ENOMEM;
  connections.Add(connection.get(), PeerName(peer));
  grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters accepted;
  accepted.listener_fd = socket;
  accepted.fd = connection.release();
  acceptor.HandleNewConnection(&accepted);
  return true;
}

}  // namespace

absl::StatusOr<std::unique_ptr<TcpListener>> TcpListener::Bind(const std::string& address) {
  ASSIGN_OR_RETURN(const Addresses resolved, Resolve(address));
  std::vector<Descriptor> sockets;
  uint16_t port = 0;
  int unusable = 0;
  for (addrinfo* one = resolved.get(); one != nullptr; one = one->ai_next) {
    if (port != 0) SetPort(*one->ai_addr, port);
    Descriptor made = BindOne(*one);
    if (!made.ok()) {
      // A host name may have an address of a family that this host lacks.
      unusable = errno;
      if (errno == EADDRNOTAVAIL || errno == EAFNOSUPPORT) continue;
      return Failed(address, std::strerror(errno));
    }
    port = PortOf(made.get());
    sockets.push_back(std::move(made));
  }
  if (sockets.empty()) return Failed(address, std::strerror(unusable));
  return std::unique_ptr<TcpListener>(new TcpListener(
      absl::StrCat(address.substr(0, address.rfind(':')), ":", port), std::move(sockets)));
}

absl::Status TcpListener::Start(grpc::experimental::ExternalConnectionAcceptor& acceptor,
                                Connections& connections) {
  const auto accept = [&acceptor, &connections](int socket) {
    return AcceptOne(socket, acceptor, connections);
  };
  ASSIGN_OR_RETURN(loop_, AcceptLoop::Start(std::move(sockets_), accept));
  return absl::OkStatus();
}

}  // namespace tune::server
