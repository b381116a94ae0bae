// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/unix_listener.h"

#include <fcntl.h>
#include <grp.h>
#include <grpcpp/server_posix.h>
#include <pwd.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "server/rpc/listener.h"

namespace tune::server {
namespace {

constexpr int kUnixBacklog = 1024;
constexpr int kFirstFd = 64;  // above those that the daemon itself opens at the start
constexpr int kLastFd = 1 << 16;
constexpr size_t kEntryBytesMax = 64 << 10;  // of an entry of the user or group database
constexpr size_t kGroupsMax = 65536;

absl::Status CannotListen(const std::string& path, const std::string& what) {
  return absl::FailedPreconditionError(
      absl::StrCat("cannot listen on unix:", path, ": ", what, ": ", std::strerror(errno)));
}

std::vector<gid_t> GroupsOf(int connection, gid_t primary) {
  std::vector<gid_t> groups(64);
  socklen_t bytes = static_cast<socklen_t>(groups.size() * sizeof(gid_t));
  int got = getsockopt(connection, SOL_SOCKET, SO_PEERGROUPS, groups.data(), &bytes);
  if (got != 0 && errno == ERANGE && bytes <= kGroupsMax * sizeof(gid_t)) {
    groups.resize(bytes / sizeof(gid_t));
    got = getsockopt(connection, SOL_SOCKET, SO_PEERGROUPS, groups.data(), &bytes);
  }
  groups.resize(got == 0 ? bytes / sizeof(gid_t) : 0);
  groups.insert(groups.begin(), primary);
  return groups;
}

}  // namespace

std::string UserName(uid_t uid) {
  std::vector<char> buffer(kEntryBytesMax);
  passwd entry = {};
  passwd* found = nullptr;
  getpwuid_r(uid, &entry, buffer.data(), buffer.size(), &found);
  return found == nullptr ? absl::StrCat("uid:", uid) : std::string(found->pw_name);
}

absl::StatusOr<gid_t> GroupNumber(const std::string& group) {
  gid_t number = 0;
  if (absl::SimpleAtoi(group, &number)) return number;
  std::vector<char> buffer(kEntryBytesMax);
  struct group entry = {};
  struct group* found = nullptr;
  getgrnam_r(group.c_str(), &entry, buffer.data(), buffer.size(), &found);
  if (found != nullptr) return found->gr_gid;
  return absl::InvalidArgumentError(absl::StrCat("there is no group '", group, "'"));
}

std::optional<UnixPeer> UnixPeers::Find(absl::string_view grpc_peer) const {
  int fd = 0;
  if (!absl::ConsumePrefix(&grpc_peer, "fd:") || !absl::SimpleAtoi(grpc_peer, &fd)) {
    return std::nullopt;
  }
  MutexLock lock(mutex_);
  const auto found = peers_.find(fd);
  if (found == peers_.end()) return std::nullopt;
  return found->second;
}

absl::StatusOr<std::unique_ptr<UnixListener>> UnixListener::Start(const UnixSocketOptions& options,
                                                                  grpc::Server& server,
                                                                  UnixPeers& peers,
                                                                  Connections& connections) {
  const std::string& path = options.path;
  RETURN_IF_ERROR(PrepareSocket(path));
  ASSIGN_OR_RETURN(const sockaddr_un name, SocketName(path));
  Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.ok()) return CannotListen(path, "socket");
  unlink(path.c_str());  // a socket that nobody answers at, as PrepareSocket has found
  if (bind(socket.get(), reinterpret_cast<const sockaddr*>(&name), sizeof(name)) != 0) {
    return CannotListen(path, "bind");
  }
  if (!options.group.empty()) {
    ASSIGN_OR_RETURN(const gid_t group, GroupNumber(options.group));
    if (chown(path.c_str(), static_cast<uid_t>(-1), group) != 0) {
      return CannotListen(path, absl::StrCat("giving it to the group ", options.group));
    }
  }
  // The mode is set before the socket accepts connections.
  if (chmod(path.c_str(), options.mode) != 0) return CannotListen(path, "chmod");
  if (listen(socket.get(), kUnixBacklog) != 0) return CannotListen(path, "listen");
  std::unique_ptr<UnixListener> listener(new UnixListener(path, server, peers, connections));
  std::vector<Descriptor> sockets;
  sockets.push_back(std::move(socket));
  ASSIGN_OR_RETURN(listener->loop_,
                   AcceptLoop::Start(std::move(sockets), [raw = listener.get()](int ready) {
                     return raw->Accept(ready);
                   }));
  return listener;
}

UnixListener::UnixListener(const std::string& path, grpc::Server& server, UnixPeers& peers,
                           Connections& connections)
    : path_(path), server_(server), peers_(peers), connections_(connections), next_fd_(kFirstFd) {
  (void)stat(path_.c_str(), &identity_);
}

UnixListener::~UnixListener() {
  loop_ = nullptr;
  struct stat now = {};
  if (stat(path_.c_str(), &now) == 0 && now.st_ino == identity_.st_ino &&
      now.st_dev == identity_.st_dev) {
    unlink(path_.c_str());
  }
}

bool UnixListener::Accept(int socket) {
  if (!connections_.HasRoom()) return false;
  Descriptor connection(accept4(socket, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!connection.ok()) return errno == EAGAIN || errno == EINTR || errno == ECONNABORTED;
  ucred peer = {};
  socklen_t bytes = sizeof(peer);
  if (getsockopt(connection.get(), SOL_SOCKET, SO_PEERCRED, &peer, &bytes) != 0) {
    spdlog::warn("a connection is closed, since who made it cannot be told: {}",
                 std::strerror(errno));
    return true;
  }
  connection = MoveUp(std::move(connection));
  const std::string user = UserName(peer.uid);
  peers_.Set(connection.get(),
             {.uid = peer.uid, .groups = GroupsOf(connection.get(), peer.gid), .name = user});
  connections_.Add(connection.get(), absl::StrCat("fd:", connection.get()), user);
  grpc::AddInsecureChannelFromFd(&server_, connection.release());
  return true;
}

Descriptor UnixListener::MoveUp(Descriptor connection) {
  int moved = fcntl(connection.get(), F_DUPFD_CLOEXEC, next_fd_);
  if (moved < 0) moved = fcntl(connection.get(), F_DUPFD_CLOEXEC, kFirstFd);  // round again
  if (moved < 0) return connection;
  next_fd_ = moved < kLastFd ? moved + 1 : kFirstFd;
  return Descriptor(moved);
}

}  // namespace tune::server
