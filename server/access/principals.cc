// SPDX-License-Identifier: Apache-2.0
#include "server/access/principals.h"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/page_caller.h"
#include "base/status_macros.h"
#include "google/protobuf/message.h"
#include "grpcpp/security/auth_context.h"
#include "server/rpc/error_detail.h"
#include "server/rpc/unix_listener.h"

namespace tune::server {
namespace {

constexpr char kAnyCertificate[] = "*";
constexpr size_t kRequestLogged = 300;  // characters

absl::string_view View(const grpc::string_ref& text) { return {text.data(), text.size()}; }

std::optional<std::string> BearerOf(const grpc::CallbackServerContext& context) {
  const auto& metadata = context.client_metadata();
  const auto found = metadata.find("authorization");
  if (found == metadata.end()) return std::nullopt;
  absl::string_view value = View(found->second);
  constexpr size_t kScheme = 7;
  if (!absl::StartsWithIgnoreCase(value, "Bearer ")) return "";
  return std::string(absl::StripAsciiWhitespace(value.substr(kScheme)));
}

// The token with which the daemon's page calls for a reader, empty without one; nullopt: the page
// does not call.
std::optional<std::string> PageTokenOf(const grpc::CallbackServerContext& context) {
  const auto found = context.client_metadata().find(kPageCaller);
  if (found == context.client_metadata().end()) return std::nullopt;
  return std::string(View(found->second));
}

std::string PropertyOf(const grpc::AuthContext& auth, const char* name) {
  const std::vector<grpc::string_ref> values = auth.FindPropertyValues(name);
  return values.empty() ? "" : std::string(View(values.front()));
}

// The client's certificate is still valid, if it has one.
absl::Status CheckCertificate(const ClientCertificates* certificates,
                              const grpc::AuthContext& auth) {
  const std::string leaf = PropertyOf(auth, "x509_pem_cert");
  if (certificates == nullptr || leaf.empty()) return absl::OkStatus();
  return certificates->Check(leaf, PropertyOf(auth, "x509_pem_cert_chain"));
}

std::string TextOf(const Principal& principal) {
  return absl::StrCat(principal.name, ", ", principal.role == db::Role::kOperator ? "an " : "a ",
                      ToText(principal.role));
}

std::optional<gid_t> NumberOf(const std::string& group) {
  if (group.empty()) return std::nullopt;
  return GroupNumber(group).value();
}

bool IsTls(const grpc::AuthContext& auth) {
  const std::vector<grpc::string_ref> types = auth.FindPropertyValues("transport_security_type");
  return std::any_of(types.begin(), types.end(), [](const grpc::string_ref& type) {
    return View(type) == "ssl" || View(type) == "tls";
  });
}

// The common name first.
std::vector<std::string> NamesOf(const grpc::AuthContext& auth) {
  std::vector<std::string> names;
  for (const char* property : {"x509_common_name", "x509_subject_alternative_name"}) {
    for (const grpc::string_ref& value : auth.FindPropertyValues(property)) {
      if (!value.empty()) names.emplace_back(value.data(), value.size());
    }
  }
  return names;
}

}  // namespace

absl::StatusOr<std::map<std::string, db::Role>> ParseCertificateRoles(
    const std::vector<std::string>& lines) {
  std::map<std::string, db::Role> roles;
  for (const std::string& line : lines) {
    const size_t equals = line.rfind('=');
    if (equals == std::string::npos || equals == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("--tls-principal ", line, ": it is NAME=ROLE, or *=ROLE"));
    }
    ASSIGN_OR_RETURN(roles[line.substr(0, equals)], ParseRole(line.substr(equals + 1)));
  }
  return roles;
}

Principals::Principals(ClientRules rules, const Tools& tools)
    : rules_(std::make_shared<const ClientRules>(rules)),
      tools_(tools),
      submit_group_(NumberOf(rules.submit_group)),
      self_{.name = UserName(geteuid()), .role = db::Role::kOperator} {}

void Principals::SetRules(ClientRules rules) {
  const auto shared = std::make_shared<const ClientRules>(std::move(rules));
  MutexLock lock(mutex_);
  rules_ = shared;
}

absl::Status Principals::CheckName(const Principal& principal) const {
  const bool is_host = principal.name == self_.name || principal.name == UserName(0);
  if (principal.role == db::Role::kOperator || !is_host) return absl::OkStatus();
  return WithReason(absl::UnauthenticatedError(absl::StrCat(
                        "'", principal.name, "' is the host's own: a certificate or token of that ",
                        "name is an operator's; take another name")),
                    v1::ERROR_REASON_NOT_KNOWN);
}

absl::StatusOr<Principal> Principals::Find(const grpc::CallbackServerContext& context) const {
  const std::shared_ptr<const grpc::AuthContext> auth = context.auth_context();
  if (auth != nullptr && IsTls(*auth)) {
    ASSIGN_OR_RETURN(Principal principal, OfTls(context, *auth));
    RETURN_IF_ERROR(CheckName(principal));
    return principal;
  }
  const std::string peer = context.peer();
  if (const std::optional<UnixPeer> user = tools_.peers.Find(peer)) return OfUser(*user);
  // In process gRPC names no peer.
  if (peer.empty() || peer == "unknown" || absl::StartsWith(peer, "inproc")) {
    return OfThisProcess(context);
  }
  return absl::UnauthenticatedError(absl::StrCat("it cannot be told who calls from ", peer));
}

absl::StatusOr<Principal> Principals::OfThisProcess(
    const grpc::CallbackServerContext& context) const {
  const std::optional<std::string> token = PageTokenOf(context);
  if (!token) return self_;
  if (!token->empty()) return tools_.tokens.Find(*token);
  return Principal{.name = "(page)", .role = db::Role::kReader};
}

Principal Principals::OfUser(const UnixPeer& peer) const {
  Principal user{.name = peer.name, .role = db::Role::kReader};
  if (peer.uid == geteuid() || peer.uid == 0) {
    user.role = db::Role::kOperator;
  } else if (submit_group_ && std::find(peer.groups.begin(), peer.groups.end(), *submit_group_) !=
                                  peer.groups.end()) {
    user.role = db::Role::kSubmitter;
  }
  return user;
}

absl::StatusOr<Principal> Principals::OfTls(const grpc::CallbackServerContext& context,
                                            const grpc::AuthContext& auth) const {
  if (const std::optional<std::string> secret = BearerOf(context)) {
    return tools_.tokens.Find(*secret);
  }
  RETURN_IF_ERROR(CheckCertificate(tools_.certificates, auth));
  const std::vector<std::string> names = NamesOf(auth);
  const std::shared_ptr<const ClientRules> rules = this->rules();
  for (const std::string& name : names) {
    const auto found = rules->certificates.find(name);
    if (name != kAnyCertificate && found != rules->certificates.end()) {
      return Principal{.name = name, .role = found->second};
    }
  }
  if (!names.empty()) {
    const auto any = rules->certificates.find(kAnyCertificate);
    return Principal{.name = names.front(),
                     .role = any == rules->certificates.end() ? db::Role::kSubmitter : any->second};
  }
  if (rules->anonymous_readers) return Principal{.name = "anonymous", .role = db::Role::kReader};
  return WithReason(
      absl::UnauthenticatedError(
          "this daemon wants to know who asks: give tunectl a token with --token-file or "
          "TUNE_TOKEN_FILE (an operator makes one with `tunectl token create`), or a certificate "
          "with --tls-cert and --tls-key"),
      v1::ERROR_REASON_NOT_KNOWN);
}

absl::StatusOr<Principal> Principals::Admit(const grpc::CallbackServerContext& context,
                                            absl::string_view path,
                                            std::optional<db::Role> needed) const {
  ASSIGN_OR_RETURN(Principal principal, Find(context));
  if (tools_.connections != nullptr) {
    tools_.connections->Identify(context.peer(), principal.name);
  }
  if (needed && principal.role >= *needed) return principal;
  return WithReason(
      absl::PermissionDeniedError(absl::StrCat(
          path.substr(path.rfind('/') + 1), " is for ", needed ? ToText(*needed) : "nobody",
          needed == db::Role::kSubmitter ? "s and operators" : "s", ", and you are ",
          TextOf(principal), "; docs/access.md says how a daemon is told who may do what")),
      v1::ERROR_REASON_NOT_ALLOWED);
}

absl::Duration Principals::NoteRefused(const grpc::CallbackServerContext& context,
                                       absl::string_view path, const absl::Status& why) const {
  const std::string peer = context.peer();
  const absl::StatusOr<Principal> principal = Find(context);
  const bool wrong_token = absl::IsUnauthenticated(why) && BearerOf(context).has_value();
  const absl::Duration delay = refused_.Note({.host = HostOfPeer(peer),
                                              .path = path,
                                              .caller = principal.ok() ? TextOf(*principal) : "",
                                              .wrong_token = wrong_token},
                                             why);
  if (!wrong_token || tools_.connections == nullptr) return delay;
  if (delay <= RefusedCalls::kDelayMost) {
    tools_.connections->NoteWrongToken(peer);
    return delay;
  }
  tools_.connections->Shut(peer);
  return absl::ZeroDuration();
}

void Principals::NoteAct(const grpc::CallbackServerContext& context, const Act& act) const {
  const std::string host = HostOfPeer(context.peer());
  if (tools_.audit != nullptr) tools_.audit->Note({act.caller, host, act.path, act.request});
  if (act.needed != db::Role::kOperator) return;
  const std::string text = act.request == nullptr ? "" : act.request->ShortDebugString();
  spdlog::info("{} calls {} from {}: {}", TextOf(act.caller), std::string(act.path), host,
               text.substr(0, kRequestLogged));
}

Standing Principals::StandingOf(const grpc::CallbackServerContext& context) const {
  const std::shared_ptr<const grpc::AuthContext> auth = context.auth_context();
  if (auth == nullptr || !IsTls(*auth)) {
    const std::optional<std::string> token = PageTokenOf(context);
    if (!token || token->empty()) return {};
    return [this, hash = Tokens::HashOf(*token)] { return tools_.tokens.Check(hash); };
  }
  if (const std::optional<std::string> secret = BearerOf(context)) {
    return [this, hash = Tokens::HashOf(*secret)] { return tools_.tokens.Check(hash); };
  }
  return [this, auth] { return CheckCertificate(tools_.certificates, *auth); };
}

bool Principals::IsOperator(const std::string& name) const {
  const std::shared_ptr<const ClientRules> rules = this->rules();
  const auto rule = [&](const std::string& certificate) {
    const auto found = rules->certificates.find(certificate);
    return found != rules->certificates.end() && found->second == db::Role::kOperator;
  };
  if (name == self_.name || name == UserName(0) || rule(name) || rule(kAnyCertificate)) return true;
  return tools_.tokens.HasOperator(name);
}

size_t Principals::JobsMaxOf(const std::string& name) const {
  return IsOperator(name) ? std::numeric_limits<size_t>::max() : rules()->jobs_per_principal;
}

absl::Duration Principals::DeviceTimeMaxOf(const std::string& name) const {
  const uint32_t seconds = rules()->device_seconds_per_principal;
  return seconds == 0 || IsOperator(name) ? absl::InfiniteDuration() : absl::Seconds(seconds);
}

absl::Duration Principals::JobTimeMaxOf(const std::string& name) const {
  const uint32_t seconds = rules()->job_seconds_per_principal;
  return seconds == 0 || IsOperator(name) ? absl::InfiniteDuration() : absl::Seconds(seconds);
}

absl::Status Principals::CheckStored(const std::string& name, db::Retention& store) const {
  if (IsOperator(name)) return absl::OkStatus();
  ASSIGN_OR_RETURN(const db::StoredBytes stored, store.StoredBy(name));
  const auto most = static_cast<uint64_t>(rules()->stored_bytes_per_principal);
  if (stored.all() < most) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "jobs of ", name, " have stored ", stored.all(), " bytes (sources ", stored.kernel_bytes,
      ", results ", stored.result_bytes, ", artifacts ", stored.artifact_bytes, "), and may store ",
      most, ". An operator can remove old ones with `tunectl job prune --owner ", name,
      "`, or start tunerd with a larger --stored-bytes-per-principal"));
}

absl::Status Principals::KeepKernel(const Principal& principal, const db::KernelRow& kernel,
                                    db::Retention& store) const {
  if (principal.role == db::Role::kOperator) return absl::OkStatus();
  const absl::Status kept = store.KeepKernel(
      principal.name, kernel, static_cast<uint64_t>(rules()->kernel_bytes_per_principal));
  if (!absl::IsResourceExhausted(kept)) return kept;
  return absl::ResourceExhaustedError(
      absl::StrCat("the sources of ", principal.name, "'s kernels would have ", kept.message(),
                   ": an operator may start tunerd with a larger --kernel-bytes-per-principal"));
}

}  // namespace tune::server
