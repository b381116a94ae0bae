// SPDX-License-Identifier: Apache-2.0
#include "server/access/tokens.h"

#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "server/rpc/error_detail.h"
#include "tuner/sha256.h"
#include "tuner/status_macros.h"

namespace tune::server {
namespace {

constexpr char kPrefix[] = "tune_";  // so that scanners find secrets that were left somewhere
constexpr size_t kSecretBytes = 32;
constexpr size_t kTokensMax = 10000;
constexpr absl::Duration kValidMax = absl::Hours(24 * 3660);
constexpr int64_t kUseNotedMs = 60'000;

absl::Status NotTaken(const std::string& why) {
  return WithReason(absl::UnauthenticatedError(why), v1::ERROR_REASON_NOT_KNOWN);
}

absl::StatusOr<std::string> MakeSecret() {
  std::string bytes(kSecretBytes, '\0');
  if (RAND_bytes(reinterpret_cast<unsigned char*>(bytes.data()), kSecretBytes) != 1) {
    return absl::InternalError("no random numbers for a token");
  }
  return absl::StrCat(kPrefix, absl::BytesToHexString(bytes));
}

size_t LiveCount(const std::vector<db::TokenRow>& rows) {
  const int64_t now = absl::ToUnixMillis(absl::Now());
  return static_cast<size_t>(std::count_if(
      rows.begin(), rows.end(), [&](const db::TokenRow& row) { return IsLive(row, now); }));
}

bool Same(absl::string_view a, absl::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace

bool IsLive(const db::TokenRow& token, int64_t now_unix_ms) {
  return token.revoked_unix_ms == 0 &&
         (token.expires_unix_ms == 0 || token.expires_unix_ms > now_unix_ms);
}

absl::StatusOr<std::unique_ptr<Tokens>> Tokens::Open(
    db::Store& store, std::function<void(std::function<void()>)> later) {
  std::unique_ptr<Tokens> tokens(new Tokens(store, std::move(later)));
  ASSIGN_OR_RETURN(tokens->rows_, store.ListTokens());
  return tokens;
}

absl::StatusOr<Principal> Tokens::Find(absl::string_view secret) {
  const std::string hash = Sha256Hex(secret);
  const int64_t now = absl::ToUnixMillis(absl::Now());
  std::lock_guard lock(mutex_);
  db::TokenRow* found = nullptr;
  for (db::TokenRow& row : rows_) {
    if (Same(row.hash, hash)) found = &row;
  }
  if (found == nullptr) return NotTaken("this daemon has no such token");
  if (found->revoked_unix_ms != 0) {
    return NotTaken(absl::StrCat("the token of ", found->name, " was revoked"));
  }
  if (found->expires_unix_ms != 0 && found->expires_unix_ms <= now) {
    return NotTaken(absl::StrCat("the token of ", found->name, " has expired; an operator makes "
                                 "another with `tunectl token create`"));
  }
  NoteUse(*found, now);
  return Principal{.name = found->name, .role = found->role};
}

void Tokens::NoteUse(db::TokenRow& row, int64_t now) {
  if (now - row.last_used_unix_ms < kUseNotedMs) return;
  row.last_used_unix_ms = now;
  later_([this, noted = row] {
    if (absl::Status stored = store_.UpdateToken(noted); !stored.ok()) {
      spdlog::warn("the last use of token {} is not stored: {}", noted.id, stored.ToString());
    }
  });
}

absl::StatusOr<NewToken> Tokens::Create(const std::string& name, db::Role role,
                                        absl::Duration valid, const std::string& creator) {
  RETURN_IF_ERROR(CheckPrincipalName(name));
  RETURN_IF_ERROR(ParseRole(ToText(role)).status());
  if (valid < absl::ZeroDuration() || valid > kValidMax) {
    return absl::InvalidArgumentError("a token is valid for 1 second to 10 years, or for ever");
  }
  std::lock_guard change(change_mutex_);
  for (const db::TokenRow& row : List()) {
    if (row.name == name && row.role != role && IsLive(row, absl::ToUnixMillis(absl::Now()))) {
      return absl::AlreadyExistsError(
          absl::StrCat(name, " has a token as ", ToText(row.role), " already; `tunectl token ",
                       "revoke ", name, "` first, or take another name"));
    }
  }
  if (LiveCount(List()) >= kTokensMax) {
    return absl::ResourceExhaustedError(
        absl::StrCat("there are ", kTokensMax, " tokens already; revoke some"));
  }
  NewToken made;
  ASSIGN_OR_RETURN(made.secret, MakeSecret());
  const absl::Time now = absl::Now();
  made.row = {.name = name,
              .role = role,
              .hash = Sha256Hex(made.secret),
              .creator = creator,
              .created_unix_ms = absl::ToUnixMillis(now)};
  if (valid > absl::ZeroDuration()) made.row.expires_unix_ms = absl::ToUnixMillis(now + valid);
  ASSIGN_OR_RETURN(made.row.id, store_.AddToken(made.row));
  std::lock_guard lock(mutex_);
  rows_.insert(rows_.begin(), made.row);
  return made;
}

std::vector<db::TokenRow> Tokens::List() const {
  std::lock_guard lock(mutex_);
  return rows_;
}

absl::StatusOr<std::vector<db::TokenRow>> Tokens::Revoke(int64_t id, const std::string& name) {
  std::lock_guard change(change_mutex_);
  const int64_t now = absl::ToUnixMillis(absl::Now());
  std::vector<db::TokenRow> revoked;
  {
    std::lock_guard lock(mutex_);
    for (db::TokenRow& row : rows_) {
      const bool meant = id != 0 ? row.id == id : row.name == name;
      if (!meant || row.revoked_unix_ms != 0) continue;
      row.revoked_unix_ms = now;  // from now on, even if it cannot be stored
      revoked.push_back(row);
    }
  }
  if (revoked.empty()) {
    return absl::NotFoundError(absl::StrCat("no token ", id != 0 ? absl::StrCat(id) : name,
                                            " that is not revoked; see `tunectl token list`"));
  }
  for (const db::TokenRow& row : revoked) RETURN_IF_ERROR(store_.UpdateToken(row));
  return revoked;
}

}  // namespace tune::server
