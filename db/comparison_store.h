// SPDX-License-Identifier: Apache-2.0
// The part of a store (db/store.h) for comparisons. Comparisons with their legs.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "db/comparison.h"
#include "db/leg.h"

namespace tune::db {

// Thread-safe.
class ComparisonStore {
 public:
  virtual ~ComparisonStore() = default;

  // Comparisons. One is added first, under a job that is stored, then each kernel on each problem,
  // then its legs as they are measured; all is append-only. Ids grow.
  virtual absl::StatusOr<int64_t> AddComparison(const ComparisonRow& comparison) = 0;
  virtual absl::StatusOr<ComparisonRow> GetComparison(int64_t id) = 0;
  // Newest first.
  virtual absl::StatusOr<std::vector<ComparisonRow>> ListComparisons(
      uint32_t limit, int64_t before_id = kNewest) = 0;
  // The kernel must be stored.
  virtual absl::StatusOr<int64_t> AddCompared(const ComparedRow& compared) = 0;
  virtual absl::StatusOr<std::vector<ComparedRow>> ComparedOf(int64_t comparison_id) = 0;
  virtual absl::StatusOr<std::vector<LegRow>> ComparisonLegs(int64_t compared_id) = 0;
  // Appends legs, all or none. Never changed afterwards.
  virtual absl::Status AppendComparisonLegs(const std::vector<LegRow>& legs) = 0;
};

}  // namespace tune::db
