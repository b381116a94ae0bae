// SPDX-License-Identifier: Apache-2.0
// The tokens there are. What a client sends is compared by its hash; only that is stored.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "db/store.h"
#include "server/access/principal.h"

namespace tune::server {

struct NewToken {
  db::TokenRow row;
  std::string secret;  // "tune_" and 64 hex digits: 256 random bits
};

// Neither revoked nor expired.
bool IsLive(const db::TokenRow& token, int64_t now_unix_ms);

// Thread-safe. Calls that ask who somebody is touch no store.
class Tokens {
 public:
  // `later` runs what may wait for the store; both must outlive the tokens.
  static absl::StatusOr<std::unique_ptr<Tokens>> Open(
      db::Store& store, std::function<void(std::function<void()>)> later);

  // Whose secret it is. UNAUTHENTICATED: nobody's, or that of a token which has expired or was
  // revoked.
  absl::StatusOr<Principal> Find(absl::string_view secret);

  // Durable when they return. `valid`: zero for ever.
  absl::StatusOr<NewToken> Create(const std::string& name, db::Role role, absl::Duration valid,
                                  const std::string& creator);
  std::vector<db::TokenRow> List() const;  // newest first
  // By id, or every one of a name. NOT_FOUND: none that is not revoked.
  absl::StatusOr<std::vector<db::TokenRow>> Revoke(int64_t id, const std::string& name);

 private:
  Tokens(db::Store& store, std::function<void(std::function<void()>)> later)
      : store_(store), later_(std::move(later)) {}

  void NoteUse(db::TokenRow& row, int64_t now);

  db::Store& store_;
  const std::function<void(std::function<void()>)> later_;
  std::mutex change_mutex_;  // one change at a time
  mutable std::mutex mutex_;
  std::vector<db::TokenRow> rows_;  // guarded by mutex_; newest first
};

}  // namespace tune::server
