// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/caller.h"

#include <unistd.h>

#include <memory>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "grpcpp/security/auth_context.h"

namespace tune::server {

std::string CallerOf(const grpc::CallbackServerContext& context) {
  if (const std::shared_ptr<const grpc::AuthContext> auth = context.auth_context();
      auth != nullptr && auth->IsPeerAuthenticated()) {
    const std::vector<grpc::string_ref> names = auth->GetPeerIdentity();
    if (!names.empty()) return std::string(names.front().data(), names.front().size());
  }
  const std::string peer = context.peer();
  if (absl::StartsWith(peer, "unix:")) return "local";
  // In process gRPC names no peer.
  if (absl::StartsWith(peer, "inproc") || peer == "unknown") return absl::StrCat("uid ", getuid());
  return peer;
}

}  // namespace tune::server
