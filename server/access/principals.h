// SPDX-License-Identifier: Apache-2.0
// Identifies the caller of a call: the user at the other end of a unix socket, the name in a
// certificate, the name of a token.
#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "db/kernel_store.h"
#include "db/retention.h"
#include "db/token.h"
#include "grpcpp/server_context.h"
#include "server/access/audit_log.h"
#include "server/access/client_rules.h"
#include "server/access/principal.h"
#include "server/access/refused_calls.h"
#include "server/access/tokens.h"
#include "server/rpc/call_standing.h"
#include "server/rpc/client_certificates.h"
#include "server/rpc/connections.h"
#include "server/rpc/unix_peers.h"

namespace google::protobuf {
class Message;
}

namespace tune::server {

// Thread-safe.
class Principals {
 public:
  struct Tools {
    const UnixPeers& peers;
    Tokens& tokens;
    const ClientCertificates* certificates = nullptr;  // null: none is asked for
    // The connections of TCP listeners, which learn who their clients are; null: there are none.
    Connections* connections = nullptr;
    AuditLog* audit = nullptr;  // null: none is kept
  };
  // The tools must outlive it. REQUIRES: the group of the rules exists.
  Principals(ClientRules rules, const Tools& tools);

  // UNAUTHENTICATED: no certificate or token, or an invalid one.
  absl::StatusOr<Principal> Find(const grpc::CallbackServerContext& context) const;
  // Find for a call that was checked. If its credentials have just changed, it belongs to
  // "(nobody)", which has a name space of its own.
  Principal Of(const grpc::CallbackServerContext& context) const {
    return Find(context).value_or(Principal{.name = "(nobody)"});
  }
  // UNAUTHENTICATED: the name has all rights at this host's socket, as root's or the daemon's user,
  // so a caller with a lesser role must not have it.
  absl::Status CheckName(const Principal& principal) const;
  // Returns the caller if it has the role `needed`. PERMISSION_DENIED: it has less, or `needed` is
  // nullopt, which denies the call to everybody. `path` names the call.
  absl::StatusOr<Principal> Admit(const grpc::CallbackServerContext& context,
                                  absl::string_view path, std::optional<db::Role> needed) const;
  // Counts, logs and throttles a call that Admit refused. Returns the delay of its answer.
  absl::Duration NoteRefused(const grpc::CallbackServerContext& context, absl::string_view path,
                             const absl::Status& why) const;
  // A call that only submitters or only operators may make.
  struct Act {
    const Principal& caller;
    absl::string_view path;
    db::Role needed;
    const google::protobuf::Message* request = nullptr;  // null: it comes in pieces
  };
  // Writes it to the audit log; the daemon's own log has those of operators.
  void NoteAct(const grpc::CallbackServerContext& context, const Act& act) const;
  // Whether the caller of a call that stays open is still known.
  Standing StandingOf(const grpc::CallbackServerContext& context) const;
  RefusedCalls::Counts refused() const { return refused_.counts(); }

  std::shared_ptr<const ClientRules> rules() const {
    MutexLock lock(mutex_);
    return rules_;
  }
  // Roles and quotas from now on. The group of submitters stays as it is.
  void SetRules(ClientRules rules);
  // The number of jobs of a principal that may wait or run.
  size_t JobsMaxOf(const std::string& name) const;
  // The time that all its jobs may have a device within a day.
  absl::Duration DeviceTimeMaxOf(const std::string& name) const;
  // The time that one of its jobs may have a device, which is also the largest budget of its
  // sweeps.
  absl::Duration JobTimeMaxOf(const std::string& name) const;
  // RESOURCE_EXHAUSTED once the principal's jobs have stored as much as they may.
  absl::Status CheckStored(const std::string& name, db::Retention& store) const;
  // The bytes that artifacts of a principal's records may have: for a submitter a quarter of all.
  int64_t ArtifactBytesMaxOf(const std::string& name, int64_t of_all) const {
    return IsOperator(name) ? of_all : of_all / 4;
  }
  // Whether a principal of this name is an operator in any way of connecting.
  bool IsOperator(const std::string& name) const;
  // Stores a submitter's kernel. RESOURCE_EXHAUSTED: the submitter would keep more sources than its
  // quota permits.
  absl::Status KeepKernel(const Principal& principal, const db::KernelRow& kernel,
                          db::Retention& store) const;

 private:
  Principal OfUser(const UnixPeer& peer) const;
  // The daemon itself, or the reader for whom its page calls.
  absl::StatusOr<Principal> OfThisProcess(const grpc::CallbackServerContext& context) const;
  absl::StatusOr<Principal> OfTls(const grpc::CallbackServerContext& context,
                                  const grpc::AuthContext& auth) const;

  mutable Mutex mutex_;
  std::shared_ptr<const ClientRules> rules_ ABSL_GUARDED_BY(mutex_);
  const Tools tools_;
  mutable RefusedCalls refused_;
  const std::optional<gid_t> submit_group_;
  const Principal self_;  // of calls from this process
};

}  // namespace tune::server
