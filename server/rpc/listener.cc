// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/listener.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/rpc/access.h"
#include "server/state/paths.h"
#include "tuner/status_macros.h"

namespace tune::server {
namespace {

absl::StatusOr<std::string> ReadTlsFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (!file || !(text << file.rdbuf())) {
    return absl::InvalidArgumentError(absl::StrCat("cannot read ", path));
  }
  return std::move(text).str();
}

absl::StatusOr<sockaddr_un> ToSockaddr(const std::string& path) {
  sockaddr_un name{.sun_family = AF_UNIX};
  if (path.empty() || path.size() >= sizeof(name.sun_path)) {
    return absl::InvalidArgumentError(absl::StrCat("socket path '", path, "' has ", path.size(),
                                                   " characters; 1 to ", sizeof(name.sun_path) - 1,
                                                   " will do"));
  }
  std::memcpy(name.sun_path, path.data(), path.size());
  return name;
}

bool SomebodyAnswers(const sockaddr_un& name) {
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  const bool connected = connect(fd, reinterpret_cast<const sockaddr*>(&name), sizeof(name)) == 0;
  close(fd);
  return connected;
}

}  // namespace

absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> CredentialsFor(const std::string& address,
                                                                        const TlsOptions& tls) {
  if (absl::StartsWith(address, "unix:")) return grpc::InsecureServerCredentials();
  if (tls.certificate_file.empty() || tls.key_file.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", address,
                     "' is not a unix socket (unix:<path>), so it needs TLS: give "
                     "--tls-cert and --tls-key"));
  }
  grpc::SslServerCredentialsOptions options;
  grpc::SslServerCredentialsOptions::PemKeyCertPair pair;
  ASSIGN_OR_RETURN(pair.cert_chain, ReadTlsFile(tls.certificate_file));
  ASSIGN_OR_RETURN(pair.private_key, ReadTlsFile(tls.key_file));
  options.pem_key_cert_pairs.push_back(std::move(pair));
  if (!tls.client_authority_file.empty()) {
    ASSIGN_OR_RETURN(options.pem_root_certs, ReadTlsFile(tls.client_authority_file));
    options.client_certificate_request = GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY;
  }
  std::shared_ptr<grpc::ServerCredentials> credentials = grpc::SslServerCredentials(options);
  if (tls.client_authority_file.empty()) credentials->SetAuthMetadataProcessor(ReadersOnly());
  return credentials;
}

absl::Status PrepareSocket(const std::string& path) {
  ASSIGN_OR_RETURN(const sockaddr_un name, ToSockaddr(path));
  const std::string folder = std::filesystem::path(path).parent_path().string();
  if (!folder.empty()) RETURN_IF_ERROR(MakePrivateDir(folder));
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
  if (SomebodyAnswers(name)) {
    return absl::FailedPreconditionError(
        absl::StrCat("a daemon listens on ", path, " already; see `tunectl server status`"));
  }
  return absl::OkStatus();
}

absl::Status RestrictSocket(const std::string& path) {
  if (chmod(path.c_str(), 0660) == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("chmod ", path, ": ", std::strerror(errno)));
}

}  // namespace tune::server
