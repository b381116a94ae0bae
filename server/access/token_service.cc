// SPDX-License-Identifier: Apache-2.0
#include "server/access/token_service.h"

#include <spdlog/spdlog.h>

#include "absl/strings/str_cat.h"
#include "base/plural.h"
#include "base/status_macros.h"
#include "server/rpc/page.h"
#include "server/rpc/unary.h"
#include "server/wire/nouns.h"

namespace tune::server {
namespace {

constexpr absl::Duration kCancelCap = absl::Seconds(30);

v1::Token ToProto(const db::TokenRow& row) { return Encoded<v1::Token>(row, {"hash"}); }

// The principal of the tokens that a request names, whether they are valid or not; empty: there are
// none.
std::string PrincipalOf(const v1::RevokeTokenRequest& request, const Tokens& tokens) {
  for (const db::TokenRow& row : tokens.List()) {
    if (row.id == request.token_id() || row.name == request.name()) return row.name;
  }
  return "";
}

// The error of a revocation that was not stored, with the jobs: its response is not sent.
absl::Status WithJobs(const absl::Status& status, const std::string& owner,
                      const v1::RevokeTokenResponse& response) {
  std::string jobs =
      absl::StrCat(Counted(response.cancelled_job_ids_size(), "job"), " of ", owner, " cancelled");
  for (const std::string& error : response.job_errors()) absl::StrAppend(&jobs, "; ", error);
  return absl::Status(status.code(), absl::StrCat(status.message(), "; ", jobs));
}

}  // namespace

grpc::ServerUnaryReactor* TokenService::CreateToken(grpc::CallbackServerContext* context,
                                                    const v1::CreateTokenRequest* request,
                                                    v1::CreateTokenResponse* response) {
  const std::string creator = principals_.Of(*context).name;
  return AnswerOn(executors_.reads, context, [=, this]() -> absl::Status {
    const auto role = static_cast<db::Role>(request->role());
    const absl::Status free = principals_.CheckName({.name = request->name(), .role = role});
    if (!free.ok()) return absl::InvalidArgumentError(free.message());
    ASSIGN_OR_RETURN(
        const NewToken made,
        tokens_.Create(request->name(), role, absl::Seconds(request->seconds_valid()), creator));
    spdlog::info("{} made token {} for {}, {}", creator, made.row.id, made.row.name,
                 ToText(made.row.role));
    *response->mutable_token() = ToProto(made.row);
    response->set_secret(made.secret);
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* TokenService::ListTokens(grpc::CallbackServerContext* context,
                                                   const v1::ListTokensRequest* request,
                                                   v1::ListTokensResponse* response) {
  const absl::StatusOr<Page> page = PageOf(*request, Page::kLimitMax);
  if (!page.ok()) return Answer(context, page.status());
  const std::vector<db::TokenRow> rows = tokens_.List(page->limit, page->before_id);
  const std::set<int64_t> not_stored = tokens_.NotStored();
  for (const db::TokenRow& row : rows) {
    *response->add_tokens() = ToProto(row);
    if (not_stored.contains(row.id)) response->add_not_stored(row.id);
  }
  if (rows.size() == page->limit) response->set_next_page_token(absl::StrCat(rows.back().id));
  return Answer(context, absl::OkStatus());
}

grpc::ServerUnaryReactor* TokenService::RevokeToken(grpc::CallbackServerContext* context,
                                                    const v1::RevokeTokenRequest* request,
                                                    v1::RevokeTokenResponse* response) {
  if ((request->token_id() != 0) == !request->name().empty()) {
    return Answer(context, absl::InvalidArgumentError("a token's id or name, one of them"));
  }
  const std::string by = principals_.Of(*context).name;
  const absl::Time deadline = DeadlineOf(*context, kCancelCap);
  return AnswerOn(executors_.cancels, context, [=, this]() -> absl::Status {
    const absl::StatusOr<std::vector<db::TokenRow>> revoked =
        tokens_.Revoke(request->token_id(), request->name());
    if (revoked.ok()) {
      for (const db::TokenRow& row : *revoked) {
        spdlog::info("{} revoked token {} of {}", by, row.id, row.name);
        *response->add_tokens() = ToProto(row);
      }
    }
    // All of them are one principal's: of one id, or of one name. Its jobs end also if its tokens
    // ended before, or if their revocation could not be stored.
    const std::string owner = request->with_jobs() ? PrincipalOf(*request, tokens_) : "";
    if (owner.empty()) return revoked.status();
    cancel_jobs_(owner, deadline, *response);
    spdlog::info("{} cancelled {} of {}", by, Counted(response->cancelled_job_ids_size(), "job"),
                 owner);
    if (revoked.ok() || absl::IsNotFound(revoked.status())) return absl::OkStatus();
    return WithJobs(revoked.status(), owner, *response);
  });
}

}  // namespace tune::server
