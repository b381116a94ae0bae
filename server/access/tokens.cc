// SPDX-License-Identifier: Apache-2.0
#include "server/access/tokens.h"

#include <openssl/rand.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/plural.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "base/steady_time.h"
#include "server/rpc/error_detail.h"

namespace tune::server {
namespace {

constexpr char kPrefix[] = "tune_";  // so that scanners find secrets that were left somewhere
constexpr size_t kSecretBytes = 32;
constexpr size_t kTokensMax = 10000;
constexpr absl::Duration kValidMax = absl::Hours(24 * 3660);
constexpr int64_t kUseNotedMs = 60'000;
constexpr absl::Duration kRemovalPeriod = absl::Hours(1);

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

}  // namespace

bool IsLive(const db::TokenRow& token, int64_t now_unix_ms) {
  return token.revoked_unix_ms == 0 &&
         (token.expires_unix_ms == 0 || token.expires_unix_ms > now_unix_ms);
}

absl::StatusOr<std::unique_ptr<Tokens>> Tokens::Open(
    db::TokenStore& store, std::function<void(std::function<void()>)> later) {
  std::unique_ptr<Tokens> tokens(new Tokens(store, std::move(later)));
  ASSIGN_OR_RETURN(const std::vector<db::TokenRow> rows, store.ListTokens());
  MutexLock lock(tokens->mutex_);
  for (const db::TokenRow& row : rows) tokens->Insert(row);
  return tokens;
}

Tokens::~Tokens() {
  StoreLater();
  MutexLock lock(mutex_);
  for (const int64_t id : not_stored_) {
    spdlog::error(
        "token {} of {} will be valid again: its revocation is not stored; revoke it again", id,
        rows_.at(id).name);
  }
}

std::string Tokens::HashOf(absl::string_view secret) { return Sha256Hex(secret); }

void Tokens::Insert(const db::TokenRow& row) {
  by_hash_.emplace(row.hash, row.id);
  rows_.emplace(row.id, row);
}

// Which hashes there are cannot be guessed byte by byte from how long it takes: who sends a secret
// does not choose its hash.
absl::Status Tokens::CheckRow(const std::string& hash, int64_t now,
                              const db::TokenRow** found) const {
  const auto id = by_hash_.find(hash);
  if (id == by_hash_.end()) return NotTaken("this daemon has no such token");
  const db::TokenRow& row = rows_.at(id->second);
  if (row.revoked_unix_ms != 0) {
    return NotTaken(absl::StrCat("the token of ", row.name, " was revoked"));
  }
  if (!IsLive(row, now)) {
    return NotTaken(absl::StrCat("the token of ", row.name,
                                 " has expired; an operator makes "
                                 "another with `tunectl token create`"));
  }
  *found = &row;
  return absl::OkStatus();
}

absl::StatusOr<Principal> Tokens::Find(absl::string_view secret) {
  const std::string hash = HashOf(secret);
  const int64_t now = absl::ToUnixMillis(absl::Now());
  MutexLock lock(mutex_);
  const db::TokenRow* found = nullptr;
  RETURN_IF_ERROR(CheckRow(hash, now, &found));
  NoteUse(rows_.at(found->id), now);
  return Principal{.name = found->name, .role = found->role};
}

absl::Status Tokens::Check(const std::string& hash) const {
  const int64_t now = absl::ToUnixMillis(absl::Now());
  MutexLock lock(mutex_);
  const db::TokenRow* found = nullptr;
  return CheckRow(hash, now, &found);
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
  MutexLock change(change_mutex_);
  for (const db::TokenRow& row : List()) {
    if (row.name == name && row.role != role && IsLive(row, absl::ToUnixMillis(absl::Now()))) {
      return absl::AlreadyExistsError(absl::StrCat(name, " has a token as ", ToText(row.role),
                                                   " already; `tunectl token ", "revoke ", name,
                                                   "` first, or take another name"));
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
              .hash = HashOf(made.secret),
              .creator = creator,
              .created_unix_ms = absl::ToUnixMillis(now)};
  if (valid > absl::ZeroDuration()) made.row.expires_unix_ms = absl::ToUnixMillis(now + valid);
  ASSIGN_OR_RETURN(made.row.id, store_.AddToken(made.row));
  MutexLock lock(mutex_);
  Insert(made.row);
  return made;
}

std::vector<db::TokenRow> Tokens::List(size_t limit, int64_t before_id) const {
  std::vector<db::TokenRow> rows;
  MutexLock lock(mutex_);
  for (auto row = rows_.lower_bound(before_id); row != rows_.begin() && rows.size() < limit;) {
    rows.push_back((--row)->second);
  }
  return rows;
}

absl::StatusOr<std::vector<db::TokenRow>> Tokens::Revoke(int64_t id, const std::string& name) {
  MutexLock change(change_mutex_);
  const int64_t now = absl::ToUnixMillis(absl::Now());
  std::vector<db::TokenRow> revoked;
  {
    MutexLock lock(mutex_);
    for (auto& [number, row] : rows_) {
      const bool meant = id != 0 ? number == id : row.name == name;
      if (!meant || (row.revoked_unix_ms != 0 && !not_stored_.contains(number))) continue;
      if (row.revoked_unix_ms == 0) row.revoked_unix_ms = now;
      revoked.push_back(row);
    }
  }
  if (revoked.empty()) {
    return absl::NotFoundError(absl::StrCat("no token ", id != 0 ? absl::StrCat(id) : name,
                                            " that is not revoked; see `tunectl token list`"));
  }
  const absl::Status stored = StoreRevoked(revoked);
  if (stored.ok()) return revoked;
  return absl::Status(
      stored.code(),
      absl::StrCat("revoked from now on, but it could not be stored: ", stored.message(),
                   ". The daemon tries again each second and when it stops; if it ends before that "
                   "succeeds, the token is valid again. `tunectl token list` shows it; `tunectl "
                   "token revoke` can be repeated"));
}

absl::Status Tokens::StoreRevoked(const std::vector<db::TokenRow>& rows) {
  absl::Status first;
  for (const db::TokenRow& row : rows) {
    const absl::Status stored = store_.UpdateToken(row);
    if (!absl::IsNotFound(stored)) first.Update(stored);
    MutexLock lock(mutex_);
    if (stored.ok() || absl::IsNotFound(stored)) {
      not_stored_.erase(row.id);
    } else if (not_stored_.insert(row.id).second) {
      spdlog::warn("the revocation of token {} of {} is not stored: {}", row.id, row.name,
                   stored.ToString());
    }
  }
  return first;
}

void Tokens::StoreLater() {
  if (NotStored().empty()) return;
  MutexLock change(change_mutex_);
  std::vector<db::TokenRow> rows;
  for (const int64_t id : NotStored()) {
    MutexLock lock(mutex_);
    rows.push_back(rows_.at(id));
  }
  if (StoreRevoked(rows).ok() && !rows.empty()) {
    spdlog::info("stored {} that could not be stored at first", Counted(rows.size(), "revocation"));
  }
}

void Tokens::RemoveEnded() {
  MutexLock change(change_mutex_);
  if (SteadyNow() < next_removal_) return;
  next_removal_ = SteadyNow() + kRemovalPeriod;
  const int64_t before = absl::ToUnixMillis(absl::Now() - kEndedKept);
  std::vector<db::TokenRow> rows = List();
  std::erase_if(rows, [&](const db::TokenRow& row) {
    return (row.revoked_unix_ms == 0 || row.revoked_unix_ms >= before) &&
           (row.expires_unix_ms == 0 || row.expires_unix_ms >= before);
  });
  if (rows.empty()) return;
  if (const absl::Status removed = store_.RemoveTokens(before); !removed.ok()) {
    spdlog::warn("cannot remove {} that ended long ago: {}", Counted(rows.size(), "token"),
                 removed.ToString());
    return;
  }
  MutexLock lock(mutex_);
  for (const db::TokenRow& row : rows) {
    by_hash_.erase(row.hash);
    rows_.erase(row.id);
    not_stored_.erase(row.id);
  }
}

std::set<int64_t> Tokens::NotStored() const {
  MutexLock lock(mutex_);
  return not_stored_;
}

bool Tokens::HasOperator(const std::string& name) const {
  const int64_t now = absl::ToUnixMillis(absl::Now());
  MutexLock lock(mutex_);
  return std::any_of(rows_.begin(), rows_.end(), [&](const auto& numbered) {
    const db::TokenRow& row = numbered.second;
    return row.name == name && row.role == db::Role::kOperator && IsLive(row, now);
  });
}

}  // namespace tune::server
