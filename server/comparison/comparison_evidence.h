// SPDX-License-Identifier: Apache-2.0
// A comparison as the store has it, and what follows from its turns.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "db/store.h"
#include "tuner/statistics/paired_ratio.h"
#include "tuner/trial.h"

namespace tune::server {

// What the rounds of one kernel on one problem come to.
struct ComparedFindings {
  db::ComparedRow row;
  std::vector<db::ComparisonLegRow> legs;  // in the order in which they ran
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

absl::StatusOr<ComparisonEvidence> LoadComparison(db::Store& store, int64_t id);

}  // namespace tune::server
