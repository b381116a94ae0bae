// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/listener.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "base/address.h"
#include "base/status_macros.h"
#include "server/state/paths.h"

namespace tune::server {
namespace {

bool SomebodyAnswers(const sockaddr_un& name) {
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  const bool connected = connect(fd, reinterpret_cast<const sockaddr*>(&name), sizeof(name)) == 0;
  close(fd);
  return connected;
}

// An existing socket may be replaced. Any other file, also a link to a socket, is not ours.
absl::Status CheckReplaceable(const std::string& path) {
  struct stat state = {};
  if (lstat(path.c_str(), &state) != 0) {
    if (errno == ENOENT) return absl::OkStatus();
    return absl::FailedPreconditionError(
        absl::StrCat("cannot listen on unix:", path, ": ", std::strerror(errno)));
  }
  if (S_ISSOCK(state.st_mode)) return absl::OkStatus();
  const char* const kind = S_ISREG(state.st_mode)    ? "a file"
                           : S_ISDIR(state.st_mode)  ? "a folder"
                           : S_ISLNK(state.st_mode)  ? "a symbolic link"
                           : S_ISFIFO(state.st_mode) ? "a FIFO"
                                                     : "a device";
  return absl::FailedPreconditionError(
      absl::StrCat("cannot listen on unix:", path, ": there is ", kind,
                   " of that name, which is left as it is; move it away, or name another path with "
                   "--listen unix:<path>"));
}

}  // namespace

absl::Status CheckTcp(const std::string& address, const TlsOptions& tls) {
  RETURN_IF_ERROR(HostPortOf(address).status());
  if (!tls.certificate_file.empty() && !tls.key_file.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("'", address,
                   "' is not a unix socket (unix:<path>), so it needs TLS: give "
                   "--tls-cert and --tls-key"));
}

absl::StatusOr<sockaddr_un> SocketName(const std::string& path) {
  sockaddr_un name{.sun_family = AF_UNIX};
  if (path.empty() || path.size() >= sizeof(name.sun_path)) {
    return absl::InvalidArgumentError(absl::StrCat("socket path '", path, "' has ", path.size(),
                                                   " characters; 1 to ", sizeof(name.sun_path) - 1,
                                                   " will do"));
  }
  std::memcpy(name.sun_path, path.data(), path.size());
  return name;
}

absl::Status PrepareSocket(const std::string& path) {
  ASSIGN_OR_RETURN(const sockaddr_un name, SocketName(path));
  const std::string folder = std::filesystem::path(path).parent_path().string();
  if (!folder.empty()) RETURN_IF_ERROR(MakeDir(folder));
  // Whoever owns the folder can put another socket in the place of ours.
  struct stat state;
  if (stat(folder.empty() ? "." : folder.c_str(), &state) != 0) {
    return absl::FailedPreconditionError(absl::StrCat(folder, ": ", std::strerror(errno)));
  }
  if (state.st_uid != geteuid() && state.st_uid != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("folder ", folder,
                     " belongs to another user; listen elsewhere, with --listen unix:<path>"));
  }
  if (access(folder.empty() ? "." : folder.c_str(), W_OK | X_OK) != 0) {
    return absl::FailedPreconditionError(absl::StrCat("cannot listen on unix:", path, ": folder ",
                                                      folder, ": ", std::strerror(errno)));
  }
  RETURN_IF_ERROR(CheckReplaceable(path));
  if (SomebodyAnswers(name)) {
    return absl::FailedPreconditionError(
        absl::StrCat("a daemon listens on ", path, " already; see `tunectl server status`"));
  }
  return absl::OkStatus();
}

}  // namespace tune::server
