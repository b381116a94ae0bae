// SPDX-License-Identifier: Apache-2.0
#include "db/statement.h"

#include <limits>

#include "base/status_macros.h"

namespace tune::db {

absl::StatusOr<bool> Statement::Step() {
  RETURN_IF_ERROR(error_);
  next_column_ = 0;
  absl::StatusOr<bool> row = prepared_->Step();
  if (!row.ok()) error_ = row.status();
  return row;
}

absl::Status Statement::Run() {
  while (true) {
    ASSIGN_OR_RETURN(bool row, Step());
    if (!row) return absl::OkStatus();
  }
}

double Statement::ReadReal(int column) {
  return prepared_->IsNull(column) ? std::numeric_limits<double>::quiet_NaN()
                                   : prepared_->Real(column);
}

Statement Connection::Prepare(absl::string_view sql) {
  if (auto found = prepared_.find(sql); found != prepared_.end()) {
    return Statement(found->second.get());
  }
  absl::StatusOr<std::unique_ptr<Prepared>> made = MakePrepared(sql);
  if (!made.ok()) return Statement(made.status());
  return Statement(prepared_.emplace(sql, *std::move(made)).first->second.get());
}

absl::StatusOr<int64_t> Connection::QueryInteger(const char* sql) {
  Statement query = Prepare(sql);
  RETURN_IF_ERROR(query.Step().status());
  int64_t value = 0;
  query.Read(value);
  return value;
}

absl::StatusOr<std::string> Connection::QueryText(const char* sql) {
  Statement query = Prepare(sql);
  RETURN_IF_ERROR(query.Step().status());
  std::string value;
  query.Read(value);
  return value;
}

}  // namespace tune::db
