// SPDX-License-Identifier: Apache-2.0
// SqlStore's calls about comparisons.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "db/columns.h"
#include "db/comparison.h"
#include "db/sql_store.h"

namespace tune::db {
namespace {

constexpr uint32_t kComparisonsListedMax = 10000;

constexpr Exceptions kSelectedComparison = {{"id", "comparison.id"}};
constexpr Exceptions kInsertedComparison = {{"id"}, {"job."}};
constexpr char kComparisons[] = "comparison JOIN job ON job.id = comparison.job_id ";
constexpr Exceptions kInsertedCompared = {{"id"}, {"kernel_hash", "kernel_hash", "nullif(?, '')"}};

}  // namespace

absl::StatusOr<int64_t> SqlStore::AddComparison(const ComparisonRow& comparison) {
  return writer_.Compute<int64_t>([=](Connection& connection) {
    return InsertNew(connection, "comparison", comparison, kInsertedComparison, "job_id",
                     comparison.job.id);
  });
}

absl::StatusOr<ComparisonRow> SqlStore::GetComparison(int64_t id) {
  ASSIGN_OR_RETURN(Readers::Borrowed reader, readers_.Borrow());
  ASSIGN_OR_RETURN(
      auto comparisons,
      Select<ComparisonRow>(*reader, kSelectedComparison,
                            absl::StrCat(kComparisons, "WHERE comparison.id = ?"), id));
  if (comparisons.empty()) return absl::NotFoundError(absl::StrCat("no comparison ", id));
  return std::move(comparisons.front());
}

absl::StatusOr<std::vector<ComparisonRow>> SqlStore::ListComparisons(uint32_t limit,
                                                                     int64_t before_id) {
  ASSIGN_OR_RETURN(Readers::Borrowed reader, readers_.Borrow());
  Statement query = reader->Prepare(
      absl::StrCat("SELECT ", ColumnsOf<ComparisonRow>(kSelectedComparison), " FROM ", kComparisons,
                   "WHERE comparison.id < ? ORDER BY comparison.id DESC LIMIT ?"));
  return ReadReadable(
      query.Bind(before_id, std::min(limit, kComparisonsListedMax)),
      [](Statement& row) { return ReadRow<ComparisonRow>(row); }, unreadable_, "comparison");
}

absl::StatusOr<int64_t> SqlStore::AddCompared(const ComparedRow& compared) {
  return writer_.Compute<int64_t>([=](Connection& connection) {
    return InsertNew(connection, "compared", compared, kInsertedCompared);
  });
}

absl::StatusOr<std::vector<ComparedRow>> SqlStore::ComparedOf(int64_t comparison_id) {
  ASSIGN_OR_RETURN(Readers::Borrowed reader, readers_.Borrow());
  return Select<ComparedRow>(*reader, {}, "compared WHERE comparison_id = ? ORDER BY id",
                             comparison_id);
}

}  // namespace tune::db
