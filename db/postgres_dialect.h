// SPDX-License-Identifier: Apache-2.0
// How the store's SQL differs between its engines. Queries, and the steps of the schema, are
// written for SQLite; this translates their words for PostgreSQL. What PostgreSQL lacks as a
// function, postgres.sql defines.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tune::db {

// The SQLSTATE with which the triggers of postgres.sql refuse what a job's host writes after it
// lost its lease.
inline constexpr absl::string_view kLeaseLostState = "TL001";

// Is it the address of a PostgreSQL server, rather than a file's path?
bool IsPostgresUrl(absl::string_view store);
// The address for people, without its user, password and options: "postgresql://db1:5432/tune".
std::string WithoutSecrets(const std::string& url);
// With time-outs for what the address leaves open.
std::string WithDefaults(const std::string& url);

// A statement or a script. Texts in quotes stay as they are.
std::string ToPostgres(absl::string_view sql);

// A script that makes the newest schema in an empty database: the tables, indexes, triggers and
// views that the steps of the schema lead to in SQLite, and then postgres.sql.
absl::StatusOr<std::string> PostgresSchema();

}  // namespace tune::db
