// SPDX-License-Identifier: Apache-2.0
#include "client/connect/daemon_socket.h"

#include <grpcpp/create_channel_posix.h>
#include <poll.h>
#include <pwd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/descriptor.h"
#include "base/status_macros.h"

namespace tune::client {
namespace {

constexpr char kSettings = 4;               // the type of a frame
constexpr size_t kUserBytesMax = 16 << 10;  // of an entry of the user database

std::string UserText(uid_t uid) {
  std::vector<char> buffer(kUserBytesMax);
  passwd entry = {};
  passwd* found = nullptr;
  getpwuid_r(uid, &entry, buffer.data(), buffer.size(), &found);
  return found == nullptr ? absl::StrCat(uid) : absl::StrCat(found->pw_name, " (", uid, ")");
}

absl::StatusOr<std::optional<uid_t>> TrustedUser(const std::string& given) {
  std::string user = given;
  if (const char* variable = std::getenv("TUNE_DAEMON_USER"); user.empty() && variable != nullptr) {
    user = variable;
  }
  if (user.empty()) return std::nullopt;
  uid_t uid = 0;
  if (absl::SimpleAtoi(user, &uid)) return uid;
  std::vector<char> buffer(kUserBytesMax);
  passwd entry = {};
  passwd* found = nullptr;
  getpwnam_r(user.c_str(), &entry, buffer.data(), buffer.size(), &found);
  if (found != nullptr) return found->pw_uid;
  return absl::InvalidArgumentError(
      absl::StrCat("--daemon-user or TUNE_DAEMON_USER: there is no user '", user, "'"));
}

// By HTTP/2's settings: the length in three bytes, then the type.
bool IsGreeted(int socket) {
  char begin[4] = {};
  const ssize_t count = recv(socket, begin, sizeof(begin), MSG_PEEK);
  return count > 0 && (count < static_cast<ssize_t>(sizeof(begin)) || begin[3] == kSettings);
}

absl::Status NobodyAnswers(const std::string& path, const std::string& why) {
  return absl::UnavailableError(absl::StrCat("no daemon answers at 'unix:", path, "': ", why));
}

absl::Status MayNotConnect(const std::string& path) {
  return absl::PermissionDeniedError(absl::StrCat(
      "you may not connect to 'unix:", path,
      "': its mode and its folders' say who may, as a rule its owner and its group; ask the "
      "daemon's operator, who has tunerd --submit-group and --socket-mode for that"));
}

absl::Status CheckPeer(int socket, const std::string& path, const std::optional<uid_t>& trusted) {
  ucred peer = {};
  socklen_t size = sizeof(peer);
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) {
    return absl::PermissionDeniedError(absl::StrCat(
        "cannot find the process that listens at 'unix:", path, "': ", std::strerror(errno)));
  }
  if (peer.uid == geteuid() || peer.uid == 0 || peer.uid == trusted) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat(
      "the process that listens at 'unix:", path, "' runs as user ", UserText(peer.uid),
      ", not as you or root, so it is sent nothing; if you trust that user: --daemon-user ",
      peer.uid, " or TUNE_DAEMON_USER=", peer.uid, "; else name another daemon with --address"));
}

}  // namespace

absl::StatusOr<std::shared_ptr<grpc::Channel>> ConnectToDaemon(const std::string& socket_path,
                                                               const SocketOptions& options) {
  ASSIGN_OR_RETURN(const std::optional<uid_t> trusted, TrustedUser(options.daemon_user));
  sockaddr_un name{.sun_family = AF_UNIX};
  if (socket_path.empty() || socket_path.size() >= sizeof(name.sun_path)) {
    return absl::InvalidArgumentError(absl::StrCat("socket path '", socket_path, "' has ",
                                                   socket_path.size(), " characters; 1 to ",
                                                   sizeof(name.sun_path) - 1, " will do"));
  }
  std::memcpy(name.sun_path, socket_path.data(), socket_path.size());
  Descriptor fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.ok()) return absl::InternalError(absl::StrCat("socket: ", std::strerror(errno)));
  // Does not wait: a queue of connections that is full is EAGAIN.
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&name), sizeof(name)) != 0) {
    if (errno == EACCES) return MayNotConnect(socket_path);
    return NobodyAnswers(socket_path, std::strerror(errno));
  }
  RETURN_IF_ERROR(CheckPeer(fd.get(), socket_path, trusted));
  // A daemon that is there greets first.
  pollfd greeting = {fd.get(), POLLIN, 0};
  if (poll(&greeting, 1, static_cast<int>(options.timeout.count())) <= 0) {
    return NobodyAnswers(socket_path, "it accepts the connection and does not answer");
  }
  if (!IsGreeted(fd.get())) return NobodyAnswers(socket_path, "the process there is not tunerd");
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(options.message_bytes_max);
  return grpc::CreateCustomInsecureChannelFromFd("tunerd", fd.release(), arguments);
}

}  // namespace tune::client
