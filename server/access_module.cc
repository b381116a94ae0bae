// SPDX-License-Identifier: Apache-2.0
#include <functional>
#include <utility>

#include "base/status_macros.h"
#include "server/modules.h"

namespace tune::server {

absl::Status AccessModule::Start() {
  if (!store.options.audit_log.empty()) {
    ASSIGN_OR_RETURN(audit, AuditLog::Open(store.options.audit_log));
  }
  ASSIGN_OR_RETURN(tokens, Tokens::Open(*store.store, [this](std::function<void()> work) {
                     calls.executors.reads.Run(std::move(work)).status().IgnoreError();
                   }));
  const CertificateFiles* const certificates = listeners.certificates.get();
  const bool asks_certificates = certificates != nullptr && certificates->has_authority();
  principals = std::make_unique<Principals>(
      store.options.clients,
      Principals::Tools{.peers = listeners.peers,
                        .tokens = *tokens,
                        .certificates = asks_certificates ? &certificates->clients() : nullptr,
                        .connections = &listeners.tcp_connections,
                        .audit = audit.get()});
  if (store.store->writable()) {
    upkeep = std::make_unique<Upkeep>([this] {
      tokens->StoreLater();
      tokens->RemoveEnded();
    });
  }
  return absl::OkStatus();
}

}  // namespace tune::server
