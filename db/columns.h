// SPDX-License-Identifier: Apache-2.0
// Nouns as rows, by the list of a noun's fields (base/fields.h): each goes to the column of its
// name. A noun within is spread over the row; the names of its columns begin with its prefix. A
// problem is the columns dims and dtype. Configs, lists and maps are text and bytes (db/json.h).
#pragma once

#include <cstring>
#include <initializer_list>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/fields.h"
#include "base/status_macros.h"
#include "db/job.h"
#include "db/json.h"
#include "db/statement.h"
#include "db/unreadable.h"
#include "tuner/plan.h"
#include "tuner/problem.h"
#include "tuner/roofline/roofline.h"
#include "tuner/trial.h"

namespace tune::db {

template <typename Noun>
inline constexpr const char* kColumnPrefix = "";
template <>
inline constexpr const char* kColumnPrefix<ResultError> = "error_";
template <>
inline constexpr const char* kColumnPrefix<WorkPlan> = "work_";
template <>
inline constexpr const char* kColumnPrefix<Roof> = "roof_";
// Nouns whose columns are those of another table, which the query joins.
template <>
inline constexpr const char* kColumnPrefix<Trial> = "trial.";
template <>
inline constexpr const char* kColumnPrefix<JobRow> = "job.";

// A field that is not simply the column of its name.
struct Instead {
  const char* field;             // "error_worst"; "trial.": every field with that prefix
  const char* column = nullptr;  // what to insert into or to select; null: the field has no column
  const char* parameter = "?";   // what to insert
};
using Exceptions = std::initializer_list<Instead>;

// The exception that names this field, or all fields with its prefix; null if there is none.
inline const Instead* Find(Exceptions exceptions, const char* prefix, const char* name) {
  for (const Instead& exception : exceptions) {
    const absl::string_view field = exception.field;
    const absl::string_view begin = prefix;
    if (field == begin && absl::EndsWith(field, ".")) return &exception;
    if (field.substr(0, begin.size()) == begin && field.substr(begin.size()) == name) {
      return &exception;
    }
  }
  return nullptr;
}

// Nouns that are no text within a row are rows of another table.
template <typename T>
concept OtherTable = HasFields<typename T::value_type> && !requires(T nouns) {
  Decode(absl::string_view(), nouns);
};

// Calls visit(prefix, name, value) for each column.
template <typename Row, typename Visit>
void VisitColumns(Row& row, const Visit& visit, const char* prefix = "") {
  ForEachField(row, [&](const char* name, auto& value) {
    using T = std::remove_cvref_t<decltype(value)>;
    if constexpr (std::is_same_v<T, Problem>) {
      visit(prefix, "dims", value.dims);
      visit(prefix, "dtype", value.dtype);
    } else if constexpr (HasFields<T> && !std::is_same_v<T, Config>) {
      VisitColumns(value, visit, kColumnPrefix<T>);
    } else if constexpr (!OtherTable<T>) {
      visit(prefix, name, value);
    }
  });
}

template <typename T>
absl::Status BindColumn(Statement& statement, const T& value) {
  if constexpr (std::is_same_v<T, DType>) {
    statement.Bind(ToText(value));
  } else if constexpr (std::is_same_v<T, std::vector<double>>) {
    statement.Bind(Blob{Encode(value)});
  } else if constexpr (requires { Encode(value); }) {
    ASSIGN_OR_RETURN(const std::string text, Encode(value));
    statement.Bind(text);
  } else {
    statement.Bind(value);
  }
  return absl::OkStatus();
}

template <typename T>
absl::Status ReadColumn(Statement& statement, T& value) {
  if constexpr (std::is_same_v<T, DType>) {
    absl::StatusOr<DType> dtype = ParseDType(std::string(statement.ReadView()));
    if (!dtype.ok()) return absl::DataLossError(dtype.status().message());
    value = *dtype;
  } else if constexpr (requires { Decode(absl::string_view(), value); }) {
    value = {};
    return Decode(statement.ReadView(), value);
  } else {
    statement.Read(value);
  }
  return absl::OkStatus();
}

// "id, run_id, dims, dtype": what a query selects for Read.
template <typename Row>
std::string ColumnsOf(Exceptions exceptions = {}) {
  std::string columns;
  Row row;
  VisitColumns(row, [&](const char* prefix, const char* name, const auto&) {
    const Instead* const instead = Find(exceptions, prefix, name);
    if (instead != nullptr && instead->column == nullptr) return;
    absl::StrAppend(&columns, columns.empty() ? "" : ", ");
    instead != nullptr ? absl::StrAppend(&columns, instead->column)
                       : absl::StrAppend(&columns, prefix, name);
  });
  return columns;
}

// The next columns, which ColumnsOf listed. DATA_LOSS for what the store cannot have written.
template <typename Row>
absl::StatusOr<Row> ReadRow(Statement& statement, Exceptions exceptions = {}) {
  Row row;
  absl::Status status;
  VisitColumns(row, [&](const char* prefix, const char* name, auto& value) {
    const Instead* const instead = Find(exceptions, prefix, name);
    if (instead != nullptr && instead->column == nullptr) return;
    if (status.ok()) status = ReadColumn(statement, value);
  });
  if (!status.ok()) return status;
  return row;
}

// Binds the next parameters.
template <typename Row>
absl::Status BindRow(Statement& statement, const Row& row, Exceptions exceptions = {}) {
  absl::Status status;
  VisitColumns(row, [&](const char* prefix, const char* name, const auto& value) {
    const Instead* const instead = Find(exceptions, prefix, name);
    if (instead != nullptr && instead->column == nullptr) return;
    if (status.ok()) status = BindColumn(statement, value);
  });
  return status;
}

// "?, nullif(?, 0), ?": for BindRow.
template <typename Row>
std::string ParametersOf(Exceptions exceptions = {}) {
  std::string parameters;
  Row row;
  VisitColumns(row, [&](const char* prefix, const char* name, const auto&) {
    const Instead* const instead = Find(exceptions, prefix, name);
    if (instead != nullptr && instead->column == nullptr) return;
    absl::StrAppend(&parameters, parameters.empty() ? "" : ", ",
                    instead != nullptr ? instead->parameter : "?");
  });
  return parameters;
}

// The INSERT of a row, with its parameters to be bound. `owner`: a further column, of an id that
// the row itself does not have.
template <typename Row>
std::string InsertText(absl::string_view table, Exceptions exceptions, absl::string_view owner) {
  const absl::string_view comma = owner.empty() ? "" : ", ";
  return absl::StrCat("INSERT INTO ", table, " (", owner, comma, ColumnsOf<Row>(exceptions),
                      ") VALUES (", owner.empty() ? "" : "?, ", ParametersOf<Row>(exceptions), ")");
}

// INVALID_ARGUMENT for what would not read back the same.
template <typename Row>
absl::Status Insert(Connection& connection, absl::string_view table, const Row& row,
                    Exceptions exceptions = {}, absl::string_view owner = "",
                    int64_t owner_id = 0) {
  Statement insert = connection.Prepare(InsertText<Row>(table, exceptions, owner));
  if (!owner.empty()) insert.Bind(owner_id);
  RETURN_IF_ERROR(BindRow(insert, row, exceptions));
  return insert.Run();
}

// The id that an INSERT ... RETURNING id gave.
inline absl::StatusOr<int64_t> ReturnedId(Statement& insert) {
  ASSIGN_OR_RETURN(const bool inserted, insert.Step());
  const int64_t id = inserted ? insert.FirstInteger() : 0;
  RETURN_IF_ERROR(insert.Run());
  return id;
}

// Inserts a row and returns the id that the table gave it.
template <typename Row>
absl::StatusOr<int64_t> InsertNew(Connection& connection, absl::string_view table, const Row& row,
                                  Exceptions exceptions = {}, absl::string_view owner = "",
                                  int64_t owner_id = 0) {
  Statement insert =
      connection.Prepare(InsertText<Row>(table, exceptions, owner) + " RETURNING id");
  if (!owner.empty()) insert.Bind(owner_id);
  RETURN_IF_ERROR(BindRow(insert, row, exceptions));
  return ReturnedId(insert);
}

// Reads every row of a query.
template <typename Read>
auto ReadAll(Statement& query, const Read& read)
    -> absl::StatusOr<std::vector<typename decltype(read(query))::value_type>> {
  std::vector<typename decltype(read(query))::value_type> rows;
  while (true) {
    ASSIGN_OR_RETURN(const bool has_row, query.Step());
    if (!has_row) return rows;
    ASSIGN_OR_RETURN(auto row, read(query));
    rows.push_back(std::move(row));
  }
}

// Reads every row of a query, but notes and leaves out a row that cannot be read. REQUIRES: the
// first column is the row's id in `table`.
template <typename Read>
auto ReadReadable(Statement& query, const Read& read, Unreadable& unreadable, const char* table)
    -> absl::StatusOr<std::vector<typename decltype(read(query))::value_type>> {
  std::vector<typename decltype(read(query))::value_type> rows;
  while (true) {
    ASSIGN_OR_RETURN(const bool has_row, query.Step());
    if (!has_row) return rows;
    const int64_t id = query.FirstInteger();
    auto row = read(query);
    if (row.ok()) {
      rows.push_back(*std::move(row));
    } else if (absl::IsDataLoss(row.status())) {
      unreadable.Note(table, id, std::string(row.status().message()));
    } else {
      return row.status();
    }
  }
}

// Reads every row of "SELECT columns FROM " + `from`, with its parameters.
template <typename Row, typename... T>
absl::StatusOr<std::vector<Row>> Select(Connection& connection, Exceptions exceptions,
                                        absl::string_view from, const T&... values) {
  Statement query =
      connection.Prepare(absl::StrCat("SELECT ", ColumnsOf<Row>(exceptions), " FROM ", from));
  return ReadAll(query.Bind(values...),
                 [&](Statement& row) { return ReadRow<Row>(row, exceptions); });
}

}  // namespace tune::db
