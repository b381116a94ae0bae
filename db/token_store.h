// SPDX-License-Identifier: Apache-2.0
// The part of a store (db/store.h) for tokens. Tokens of principals.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "db/token.h"

namespace tune::db {

// Thread-safe.
class TokenStore {
 public:
  virtual ~TokenStore() = default;

  // Adds a token and returns its id. ALREADY_EXISTS if its hash is stored.
  virtual absl::StatusOr<int64_t> AddToken(const TokenRow& token) = 0;
  // Advances the times of the last use and of the revocation; neither goes back.
  virtual absl::Status UpdateToken(const TokenRow& token) = 0;
  virtual absl::StatusOr<std::vector<TokenRow>> ListTokens() = 0;  // newest first
  // Removes tokens that were revoked or had expired before a time.
  virtual absl::Status RemoveTokens(int64_t ended_before_unix_ms) = 0;
};

}  // namespace tune::db
