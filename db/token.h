// SPDX-License-Identifier: Apache-2.0
// A token that names a principal and its role. Only a hash of the secret is stored.
#pragma once

#include <cstdint>
#include <string>

#include "base/fields.h"

namespace tune::db {

// Values are stored and sent: do not renumber. Each may do what the ones before may.
enum class Role { kNone = 0, kReader = 1, kSubmitter = 2, kOperator = 3 };

struct TokenRow {
  int64_t id = 0;
  std::string name;
  Role role = Role::kNone;
  std::string hash;     // SHA-256 of the secret, hex; unique
  std::string creator;  // the principal that made it
  int64_t created_unix_ms = 0;
  int64_t expires_unix_ms = 0;    // 0: never
  int64_t last_used_unix_ms = 0;  // 0: not yet
  int64_t revoked_unix_ms = 0;    // 0: it is not
};
TUNE_FIELDS(TokenRow, id, name, role, hash, creator, created_unix_ms, expires_unix_ms,
            last_used_unix_ms, revoked_unix_ms);

}  // namespace tune::db
