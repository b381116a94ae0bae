// SPDX-License-Identifier: Apache-2.0
#include "client/cli/connection.h"

#include <sys/stat.h>

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/address.h"
#include "base/status_macros.h"
#include "client/connect/daemon_socket.h"

namespace tune::client {
namespace {

constexpr auto kConnectTimeout = std::chrono::milliseconds(1500);
constexpr int kMaxMessageBytes = 64 << 20;

absl::StatusOr<std::shared_ptr<grpc::Channel>> Dial(const std::string& address, const TlsFiles& tls,
                                                    const std::string& daemon_user) {
  if (const std::string path = SocketPath(address); !path.empty()) {
    return ConnectToDaemon(path, {.daemon_user = daemon_user,
                                  .timeout = kConnectTimeout,
                                  .message_bytes_max = kMaxMessageBytes});
  }
  RETURN_IF_ERROR(HostPortOf(address).status());
  ASSIGN_OR_RETURN(const Credentials credentials, CredentialsOf(tls));
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMaxMessageBytes);
  auto channel = grpc::CreateCustomChannel(address, credentials.channel, arguments);
  if (channel->WaitForConnected(std::chrono::system_clock::now() + kConnectTimeout)) return channel;
  const absl::Status probed = ProbeTls(address, credentials.texts, kConnectTimeout);
  const std::string why =
      absl::StrCat("'", address, "'", probed.ok() ? "" : ": ", probed.message());
  if (absl::IsUnauthenticated(probed)) return absl::UnauthenticatedError(why);
  return absl::UnavailableError(absl::StrCat("no daemon answers at ", why));
}

bool SocketExists(const std::string& address) {
  const std::string path = SocketPath(address);
  struct stat info;
  return stat(path.c_str(), &info) == 0 && S_ISSOCK(info.st_mode);
}

}  // namespace

Connection::Connection(std::shared_ptr<grpc::Channel> channel, std::string address,
                       std::unique_ptr<EmbeddedServer> embedded)
    : embedded_(std::move(embedded)), address_(std::move(address)), channel_(std::move(channel)) {}

void Connection::ShowPage(const std::string& url) {
  if (url == page_) return;
  page_ = url;
  if (!url.empty()) std::fprintf(stderr, "page: %s\n", url.c_str());
}

absl::StatusOr<std::unique_ptr<Connection>> Connection::Open(const std::string& address,
                                                             const TlsFiles& tls,
                                                             const std::string& daemon_user,
                                                             const StartEmbedded& start_embedded) {
  const char* variable = std::getenv("TUNE_ADDRESS");
  const bool asked_for = !address.empty() || (variable != nullptr && *variable != 0);
  const std::string target = address.empty() ? DefaultAddress() : address;
  if (asked_for || SocketExists(target)) {
    auto channel = Dial(target, tls, daemon_user);
    if (channel.ok()) {
      return std::unique_ptr<Connection>(new Connection(*std::move(channel), target, nullptr));
    }
    // A socket left behind by a daemon that was killed is no reason to stop; somebody else's is.
    if (!absl::IsUnavailable(channel.status())) return channel.status();
    if (asked_for) {
      return absl::UnavailableError(
          absl::StrCat(channel.status().message(),
                       "; start one with 'tunerd', or leave out --address and "
                       "TUNE_ADDRESS to run without a daemon"));
    }
  }
  return OpenEmbedded(start_embedded);
}

absl::StatusOr<std::unique_ptr<Connection>> Connection::OpenEmbedded(
    const StartEmbedded& start_embedded) {
  ASSIGN_OR_RETURN(std::unique_ptr<EmbeddedServer> embedded, start_embedded());
  auto channel = embedded->channel();
  return std::unique_ptr<Connection>(
      new Connection(std::move(channel), "embedded", std::move(embedded)));
}

}  // namespace tune::client
