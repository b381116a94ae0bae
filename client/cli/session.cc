// SPDX-License-Identifier: Apache-2.0
#include "client/cli/session.h"

#include <unistd.h>

#include <cstdio>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "client/connect/rpc.h"

namespace tune::client {
namespace {

// A spec of that name in this folder, or in a folder of that name; empty if there is none.
std::string SpecCalled(const std::string& kernel) {
  for (const std::string& path : {kernel + ".textproto", kernel + "/" + kernel + ".textproto"}) {
    if (!kernel.empty() && access(path.c_str(), R_OK) == 0) return path;
  }
  return "";
}

}  // namespace

absl::StatusOr<Connection*> Session::Connect(Need need) {
  if (connection_ == nullptr) {
    ASSIGN_OR_RETURN(auto connection, Connection::Open(address, tls, daemon_user, [&] {
                       return embedded_.daemon(need, kernels, tools);
                     }));
    if (!connection->embedded() && !tools.include_roots.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("the daemon at ", connection->address(),
                       " decides what kernels may include: start it with --include-root ",
                       tools.include_roots[0], ", and leave the flag out here"));
    }
    connection_ = std::move(connection);
  }
  return connection_.get();
}

absl::StatusOr<Connection*> Session::Replay() {
  if (replay_ == nullptr) {
    ASSIGN_OR_RETURN(replay_, Connection::OpenEmbedded(embedded_.replay));
  }
  return replay_.get();
}

void Session::PrintPage() const {
  if (connection_ == nullptr || connection_->page().empty()) return;
  std::fprintf(stderr, "page: %s\n", connection_->page().c_str());
}

void Session::Finish(const absl::Status& status) {
  exit_code_ = ExitCodeFor(status);
  if (status.ok()) return;
  error_ = std::string(status.message());
  std::fprintf(stderr, "tunectl: %s\n", error_.c_str());
  const std::optional<v1::ErrorDetail> detail = DetailOf(status);
  if (detail && detail->reason() == v1::ERROR_REASON_NO_SUCH_KERNEL) {
    const std::string spec = SpecCalled(detail->kernel());
    if (!spec.empty()) std::fprintf(stderr, "tunectl: did you mean the spec %s?\n", spec.c_str());
  }
  if (!json || !detail) return;
  std::fprintf(stderr, "%s\n", JsonText(*detail, Layout::kOneLine).c_str());
}

void PrintJson(const google::protobuf::Message& message) {
  std::printf("%s\n", JsonText(message, Layout::kIndented).c_str());
}

}  // namespace tune::client
