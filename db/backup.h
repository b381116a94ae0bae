// SPDX-License-Identifier: Apache-2.0
// Copies of a database file, made by SQLite while others write to it.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "db/sqlite_connection.h"

namespace tune::db {

// Copies the database as it is at one moment to `path`. The file is written beside its name and
// renamed, so that it is whole or not there. RESOURCE_EXHAUSTED: the disk is full; UNAVAILABLE.
absl::Status CopyTo(SqliteConnection& from, const std::string& path);

// Puts a copy of `backup` in the place of the database `path`, which no process may have open, and
// keeps the one that was there. Returns its new name; empty: there was none. INVALID_ARGUMENT: the
// backup cannot be read or is another program's or a newer one's; DATA_LOSS: it is damaged.
// REQUIRES: the caller has the lock of `path`.
absl::StatusOr<std::string> PutInPlace(const std::string& backup, const std::string& path);

}  // namespace tune::db
