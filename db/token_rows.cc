// SPDX-License-Identifier: Apache-2.0
// SqlStore's calls about tokens.
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "db/columns.h"
#include "db/sql_store.h"
#include "db/token.h"

namespace tune::db {

absl::StatusOr<int64_t> SqlStore::AddToken(const TokenRow& token) {
  return writer_.Compute<int64_t>(
      [token](Connection& connection) { return InsertNew(connection, "token", token, {{"id"}}); });
}

absl::Status SqlStore::UpdateToken(const TokenRow& token) {
  return writer_.Run([token](Connection& connection) -> absl::Status {
    RETURN_IF_ERROR(connection
                        .Prepare("UPDATE token SET last_used_unix_ms = max(last_used_unix_ms, ?), "
                                 "revoked_unix_ms = max(revoked_unix_ms, ?) WHERE id = ?")
                        .Bind(token.last_used_unix_ms, token.revoked_unix_ms, token.id)
                        .Run());
    if (connection.changed_rows() == 1) return absl::OkStatus();
    return absl::NotFoundError(absl::StrCat("no token ", token.id));
  });
}

absl::StatusOr<std::vector<TokenRow>> SqlStore::ListTokens() {
  ASSIGN_OR_RETURN(Readers::Borrowed reader, readers_.Borrow());
  return Select<TokenRow>(*reader, {}, "token ORDER BY id DESC");
}

absl::Status SqlStore::RemoveTokens(int64_t ended_before_unix_ms) {
  return writer_.Run([ended_before_unix_ms](Connection& connection) {
    return connection
        .Prepare(
            "DELETE FROM token WHERE (revoked_unix_ms > 0 AND revoked_unix_ms < ?1) "
            "OR (expires_unix_ms > 0 AND expires_unix_ms < ?1)")
        .Bind(ended_before_unix_ms)
        .Run();
  });
}

}  // namespace tune::db
