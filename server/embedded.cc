// SPDX-License-Identifier: Apache-2.0
#include "server/embedded.h"

#include "absl/strings/str_cat.h"
#include "server/log.h"
#include "server/paths.h"
#include "tuner/status_macros.h"

namespace tune::server {

absl::StatusOr<std::unique_ptr<Server>> StartEmbedded() {
  RETURN_IF_ERROR(StartLog("error", LogFormat::kText));
  ServerOptions options{.embedded = true};
  ASSIGN_OR_RETURN(options.state_dir, DefaultStateDir());
  absl::StatusOr<std::unique_ptr<Server>> server = Server::Start(options);
  if (absl::IsFailedPrecondition(server.status())) {
    return absl::FailedPreconditionError(absl::StrCat(
        server.status().message(),
        "; if it is a daemon, reach it with --address; TUNE_STATE_DIR names another folder"));
  }
  return server;
}

}  // namespace tune::server
