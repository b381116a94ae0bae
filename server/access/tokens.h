// SPDX-License-Identifier: Apache-2.0
// The tokens of the daemon. A client's token is compared by its hash, and only hashes are stored.
//
// A revocation takes effect at once. If the store does not take it, it is noted as not stored,
// which Revoke and NotStored report, and stored later: by StoreLater, by revoking again, or when
// the tokens are destroyed. A daemon that ends before that makes the token valid again at its next
// start.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "db/token_store.h"
#include "server/access/principal.h"

namespace tune::server {

struct NewToken {
  db::TokenRow row;
  std::string secret;  // "tune_" and 64 hex digits: 256 random bits
};

// Neither revoked nor expired.
bool IsLive(const db::TokenRow& token, int64_t now_unix_ms);

// Thread-safe. Checks of secrets touch no store.
class Tokens {
 public:
  // `later` runs work that may block on the store; both must outlive the tokens.
  static absl::StatusOr<std::unique_ptr<Tokens>> Open(
      db::TokenStore& store, std::function<void(std::function<void()>)> later);
  // Calls StoreLater, then logs as errors the tokens whose revocation is not stored even now.
  ~Tokens();

  // Finds the principal of a secret. UNAUTHENTICATED: it is no token's, or the token has expired or
  // was revoked.
  absl::StatusOr<Principal> Find(absl::string_view secret);
  // Checks whether a call that was opened with a secret, given by its hash, may go on. Same errors
  // as Find. Notes no use.
  absl::Status Check(const std::string& hash) const;
  static std::string HashOf(absl::string_view secret);

  // Durable when they return. `valid`: zero for ever.
  absl::StatusOr<NewToken> Create(const std::string& name, db::Role role, absl::Duration valid,
                                  const std::string& creator);
  // The newest with smaller ids than `before_id`, newest first.
  std::vector<db::TokenRow> List(size_t limit = std::numeric_limits<size_t>::max(),
                                 int64_t before_id = std::numeric_limits<int64_t>::max()) const;
  // Revokes a token by its id, or all of a name, and returns those that this call revoked.
  // NOT_FOUND: no token whose revocation is not stored yet. Another error: all are revoked from now
  // on, and some revocations are not stored yet.
  absl::StatusOr<std::vector<db::TokenRow>> Revoke(int64_t id, const std::string& name);
  // Retries to store revocations that are not stored. Cheap if there is none.
  void StoreLater();
  // Removes the tokens that ended kEndedKept ago or earlier, from memory if they are removed from
  // the store. Looks at most once in an hour.
  void RemoveEnded();
  static constexpr absl::Duration kEndedKept = absl::Hours(24 * 30);
  // Ids of tokens whose revocation is not stored yet.
  std::set<int64_t> NotStored() const;
  // Whether an operator has a valid token of that name.
  bool HasOperator(const std::string& name) const;

 private:
  Tokens(db::TokenStore& store, std::function<void(std::function<void()>)> later)
      : store_(store), later_(std::move(later)) {}

  absl::Status CheckRow(const std::string& hash, int64_t now, const db::TokenRow** found) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Insert(const db::TokenRow& row) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void NoteUse(db::TokenRow& row, int64_t now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Stores revocations; those that fail are noted as not stored, and logged the first time. Returns
  // the first error.
  absl::Status StoreRevoked(const std::vector<db::TokenRow>& rows)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(change_mutex_);

  db::TokenStore& store_;
  const std::function<void(std::function<void()>)> later_;
  Mutex change_mutex_;  // one change at a time
  absl::Time next_removal_ ABSL_GUARDED_BY(change_mutex_) = absl::InfinitePast();  // of SteadyNow
  mutable Mutex mutex_;
  std::map<int64_t, db::TokenRow> rows_ ABSL_GUARDED_BY(mutex_);  // by id, which grows
  std::unordered_map<std::string, int64_t> by_hash_ ABSL_GUARDED_BY(mutex_);
  std::set<int64_t> not_stored_ ABSL_GUARDED_BY(mutex_);  // revoked
};

}  // namespace tune::server
