// SPDX-License-Identifier: Apache-2.0
#include "server/embedded.h"

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "server/log.h"
#include "server/state/paths.h"

namespace tune::server {

namespace {

std::string HowToShare(const std::string& owner, const std::string& state_dir) {
  if (absl::StartsWith(owner, "tunerd ")) {
    return absl::StrCat("the daemon ", owner, " has the state folder ", state_dir,
                        " but does not listen where tunectl looks: name its address with "
                        "--address, or set TUNE_STATE_DIR to another folder");
  }
  return absl::StrCat(owner, " is at work in the state folder ", state_dir,
                      ". Wait for it, or stop it with Ctrl-C, which keeps what it has measured. To "
                      "let commands take turns, start tunerd to share the host between them:\n"
                      "  TUNE_STATE_DIR=",
                      state_dir, " tunerd &");
}

}  // namespace

absl::StatusOr<std::unique_ptr<Server>> StartEmbedded(ServerOptions options) {
  RETURN_IF_ERROR(StartLog("error", LogFormat::kText));
  options.embedded = true;
  ASSIGN_OR_RETURN(options.state_dir, DefaultStateDir());
  absl::StatusOr<std::unique_ptr<Server>> server = Server::Start(options);
  if (!absl::IsFailedPrecondition(server.status())) return server;
  const std::string owner = Server::OwnerOf(options.state_dir);
  if (owner.empty()) return server;
  return absl::FailedPreconditionError(HowToShare(owner, options.state_dir));
}

}  // namespace tune::server
