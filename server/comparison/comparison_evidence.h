// SPDX-License-Identifier: Apache-2.0
// A comparison as the store has it, and what follows from its turns.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/cancelled.h"
#include "db/comparison_store.h"
#include "server/wire/nouns.h"
#include "tuner/statistics/paired_ratio.h"
#include "tuner/trial.h"

namespace tune::server {

// What the rounds of one kernel on one problem come to.
struct ComparedFindings {
  db::ComparedRow row;
  std::vector<db::LegRow> legs;  // in the order in which they ran
  Outcome outcome = Outcome::kOk;
  std::string message;      // why it is not ok
  uint32_t rounds = 0;      // that count
  Measurement measurement;  // of the rounds' medians; without any, there is no median
  // Time over the first kernel's; all 0 where they have no round in common.
  RatioInterval ratio = {.ratio = 0};
};

struct ComparisonEvidence {
  db::ComparisonRow run;
  // For each problem its kernels, the first of the request first. The last may lack some where the
  // run was ended.
  std::vector<std::vector<ComparedFindings>> problems;
};

// With the samples of its turns only if asked for, since they may be gigabytes. RESOURCE_EXHAUSTED:
// they are more than one answer may have. CANCELLED: `cancelled` said so; it is asked between
// kernels.
absl::StatusOr<ComparisonEvidence> LoadComparison(db::ComparisonStore& store, int64_t id,
                                                  Samples samples, const Cancelled& cancelled);

}  // namespace tune::server
