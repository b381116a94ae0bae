// SPDX-License-Identifier: Apache-2.0
// tunectl token create|list|revoke
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <set>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/descriptor.h"
#include "base/plural.h"
#include "base/status_macros.h"
#include "client/cli/call.h"
#include "client/cli/command.h"
#include "client/cli/role_text.h"
#include "client/report/format.h"
#include "tune/v1/access.grpc.pb.h"

namespace tune::client {
namespace {

constexpr int64_t kSecondsOfDay = 24 * 3600;

struct TokenFlags {
  std::string name;
  std::string role;
  int64_t days = 90;
  std::string out;
  bool with_jobs = false;
};

std::string StateOf(const v1::Token& token, bool not_stored) {
  if (not_stored) return "revoked, not stored yet";
  if (token.revoked_unix_ms() != 0) return "revoked";
  const bool ended =
      token.expires_unix_ms() != 0 && token.expires_unix_ms() <= absl::ToUnixMillis(absl::Now());
  return ended ? "expired" : "valid";
}

std::string TimeOr(int64_t unix_ms, const char* none) {
  return unix_ms == 0 ? none : TimeText(unix_ms);
}

// A new file that nobody else may read.
absl::StatusOr<Descriptor> MakeSecretFile(const std::string& path) {
  Descriptor file(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (file.ok()) return file;
  return absl::InvalidArgumentError(absl::StrCat("--out ", path, ": ", std::strerror(errno)));
}

absl::Status WriteSecret(const Descriptor& file, const std::string& path,
                         const std::string& secret) {
  const std::string line = secret + "\n";
  if (write(file.get(), line.data(), line.size()) == static_cast<ssize_t>(line.size())) {
    return absl::OkStatus();
  }
  return absl::InternalError(absl::StrCat("--out ", path, ": ", std::strerror(errno),
                                          "; revoke the token and make another"));
}

void PrintCreated(const v1::CreateTokenResponse& response, const std::string& out) {
  const v1::Token& token = response.token();
  if (out.empty()) std::printf("%s\n", response.secret().c_str());
  std::fprintf(stderr, "token %ld of %s, %s, valid %s%s\n%s\n", static_cast<long>(token.id()),
               token.name().c_str(), RoleText(token.role()).c_str(),
               token.expires_unix_ms() == 0 ? "until it is revoked" : "until ",
               token.expires_unix_ms() == 0 ? "" : TimeText(token.expires_unix_ms()).c_str(),
               out.empty() ? "It is not shown again. Store it in a file of mode 0600, for "
                             "tunectl --token-file or TUNE_TOKEN_FILE."
                           : "Its user gives the file to tunectl --token-file or TUNE_TOKEN_FILE.");
}

absl::Status Create(Session& session, const TokenFlags& flags) {
  const std::optional<v1::PrincipalRole> role = RoleOf(flags.role);
  if (!role) {
    return absl::InvalidArgumentError(
        absl::StrCat("--role ", flags.role, ": reader, submitter or operator"));
  }
  ASSIGN_OR_RETURN(Connection* const connection, session.Connect());
  // First the file: a token that cannot be kept is not made.
  Descriptor file;
  if (!flags.out.empty()) {
    ASSIGN_OR_RETURN(file, MakeSecretFile(flags.out));
  }
  v1::CreateTokenRequest request;
  request.set_name(flags.name);
  request.set_role(*role);
  request.set_seconds_valid(flags.days * kSecondsOfDay);
  auto created = Call(connection, &v1::TokenService::Stub::CreateToken, request);
  if (!created.ok() && !flags.out.empty()) unlink(flags.out.c_str());
  ASSIGN_OR_RETURN(v1::CreateTokenResponse response, std::move(created));
  if (!flags.out.empty()) {
    RETURN_IF_ERROR(WriteSecret(file, flags.out, response.secret()));
    response.clear_secret();
  }
  return Print(session, response,
               [&](const v1::CreateTokenResponse& made) { PrintCreated(made, flags.out); });
}

absl::Status ListTokens(Session& session) {
  ASSIGN_OR_RETURN(const v1::ListTokensResponse response,
                   CallPages(session.Connect(), &v1::TokenService::Stub::ListTokens, {}, kListMax,
                             &v1::ListTokensResponse::mutable_tokens));
  const std::set<int64_t> not_stored(response.not_stored().begin(), response.not_stored().end());
  const auto row = [&](const v1::Token& token) -> Cells {
    return {absl::StrCat(token.id()),
            token.name(),
            RoleText(token.role()),
            StateOf(token, not_stored.contains(token.id())),
            TimeText(token.created_unix_ms()),
            token.creator(),
            TimeOr(token.expires_unix_ms(), "never"),
            TimeOr(token.last_used_unix_ms(), "never")};
  };
  return PrintList(session, "tokens", response.tokens(),
                   {"token", "name", "role", "state", "created", "by", "expires", "last used"},
                   row);
}

absl::Status Revoke(Session& session, const TokenFlags& flags) {
  v1::RevokeTokenRequest request;
  int64_t id = 0;
  // A name begins with a letter.
  if (absl::SimpleAtoi(flags.name, &id)) {
    request.set_token_id(id);
  } else {
    request.set_name(flags.name);
  }
  request.set_with_jobs(flags.with_jobs);
  ASSIGN_OR_RETURN(const v1::RevokeTokenResponse response,
                   Call(session.Connect(), &v1::TokenService::Stub::RevokeToken, request));
  if (session.json && !flags.with_jobs) {
    RETURN_IF_ERROR(PrintJsonList("tokens", response.tokens()));
  } else {
    RETURN_IF_ERROR(Print(session, response, [&](const v1::RevokeTokenResponse& revoked) {
      for (const v1::Token& token : revoked.tokens()) {
        std::printf("token %ld of %s is revoked\n", static_cast<long>(token.id()),
                    token.name().c_str());
      }
      if (!flags.with_jobs) return;
      if (revoked.tokens().empty()) {
        std::printf("no token %s is valid any more\n", flags.name.c_str());
      }
      const int jobs = revoked.cancelled_job_ids_size();
      std::printf("%s %s cancelled\n", Counted(jobs, "job").c_str(), jobs == 1 ? "is" : "are");
    }));
  }
  if (response.job_errors().empty()) return absl::OkStatus();
  return absl::DeadlineExceededError(
      absl::StrCat("jobs that are not cancelled:\n", absl::StrJoin(response.job_errors(), "\n")));
}

}  // namespace

Command TokenCommand(Session& session) {
  const auto flags = std::make_shared<TokenFlags>();
  return {
      .name = "token",
      .help = "Tokens that identify clients over TCP",
      .verbs = {
          {.name = "create",
           .help = "Create a token; it is shown once",
           .json = kJsonHelp,
           .flags = {Flag("NAME", &flags->name,
                          "Principal of the token: a letter, then letters, digits, ._@-")
                         .Required(),
                     Flag("--role", &flags->role, "reader, submitter or operator").Required(),
                     Flag("--days", &flags->days, "Days until it expires; 0: never").Range(0, 3650),
                     Flag("--out", &flags->out,
                          "New file of mode 0600 to write it to, instead of stdout")},
           .run = [&session, flags] { return Create(session, *flags); }},
          {.name = "list",
           .help = "List tokens, also revoked and expired ones",
           .json = kJsonHelp,
           .run = [&session] { return ListTokens(session); }},
          {.name = "revoke",
           .help = "Revoke a token at once",
           .json = kJsonHelp,
           .flags = {Flag("TOKEN", &flags->name, "Number of a token, or a name: all its tokens")
                         .Required(),
                     Flag("--with-jobs", &flags->with_jobs,
                          "Cancel the waiting and running jobs of its principal, too")},
           .run = [&session, flags] { return Revoke(session, *flags); }}}};
}

}  // namespace tune::client
