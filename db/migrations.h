// SPDX-License-Identifier: Apache-2.0
// Brings a database file to the schema this program knows. The version is SQLite's user_version.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "db/sqlite_connection.h"

namespace tune::db {

// "tune" in ASCII, SQLite's application_id: distinguishes our files from other programs' databases.
inline constexpr int64_t kApplicationId = 0x74756e65;

// The version that schema.sql makes of an empty file, and the oldest that Migrate takes.
inline constexpr int64_t kOldestVersion = 14;

// The steps of the schema: schema.sql leads to kOldestVersion, each of migrations/ to the next
// version.
absl::Span<const absl::string_view> SchemaSteps();

// The version that the last of `steps` leads to.
int64_t NewestVersion(absl::Span<const absl::string_view> steps = SchemaSteps());

// Runs the steps that are missing, each in its own transaction. A file that has data is copied to
// `<path>.v<version>.bak` first. FAILED_PRECONDITION: the file is newer than the steps, older than
// kOldestVersion, or belongs to another program.
absl::Status Migrate(SqliteConnection& connection, const std::string& path,
                     absl::Span<const absl::string_view> steps);

}  // namespace tune::db
