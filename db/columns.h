// SPDX-License-Identifier: Apache-2.0
// Nouns as rows, by the list of a noun's fields (tuner/fields.h): each goes to the column of its
// name. A noun within is spread over the row; the names of its columns begin with ColumnPrefix.
// A problem is the columns dims and dtype. Configs, lists and maps are JSON text (db/json.h),
// samples bytes.
#pragma once

#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "db/json.h"
#include "db/statement.h"
#include "db/unreadable.h"
#include "tuner/counters/counting.h"
#include "tuner/fields.h"
#include "tuner/plan.h"
#include "tuner/status_macros.h"
#include "tuner/trial.h"

namespace tune::db {

template <typename Noun>
inline constexpr const char* kColumnPrefix = "";
template <>
inline constexpr const char* kColumnPrefix<ResultError> = "error_";
template <>
inline constexpr const char* kColumnPrefix<WorkPlan> = "work_";
template <>
inline constexpr const char* kColumnPrefix<Trial> = "trial.";  // of a record, from its own table

// Where a field is not simply the column of its name.
struct Instead {
  const char* field;                 // with its prefix
  const char* column = nullptr;      // in a query, what is selected; null: the row has none
  const char* parameter = "?";       // in an insertion
};
using Exceptions = std::initializer_list<Instead>;

// Calls visit(prefix, name, value) for each column.
template <typename Row, typename Visit>
void VisitColumns(Row& row, Visit&& visit, const char* prefix = "") {
  ForEachField(row, [&](const char* name, auto& value) {
    using T = std::remove_cvref_t<decltype(value)>;
    if constexpr (std::is_same_v<T, Problem>) {
      visit(prefix, "dims", value.dims);
      visit(prefix, "dtype", value.dtype);
    } else if constexpr (HasFields<T> && !std::is_same_v<T, Config>) {
      VisitColumns(value, visit, kColumnPrefix<T>);
    } else {
      visit(prefix, name, value);
    }
  });
}

// "id, run_id, dims, dtype": the columns of a row, as Read reads them.
template <typename Row>
std::string ColumnsOf(Exceptions exceptions = {});

// Reads the next columns. DATA_LOSS for text that the store did not write.
template <typename Row>
absl::Status ReadColumns(Statement& statement, Row& row, Exceptions exceptions = {});

}  // namespace tune::db
