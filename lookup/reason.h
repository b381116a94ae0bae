// SPDX-License-Identifier: Apache-2.0
// The sentence that comes with an answer.
#pragma once

#include <map>
#include <string>

#include "lookup/index.h"
#include "lookup/record.h"
#include "tuner/transfer/shape_grid.h"

namespace tune::lookup {

// The values that count as the same as `value` when bucketed: up to its next power of two.
struct Bucket {
  int64_t low = 0;
  int64_t high = 0;  // inclusive
};
Bucket BucketOf(int64_t value);

// "exact", "bucketed", "nearest", "ignored".
const char* ToText(DimMatch match);

// Why this record: which fields differ, both values, and how far apart they are.
std::string ExplainMatch(Match match, const Query& query, const Record& record,
                         const KernelPolicy& policy, const std::string& wanted_hash);

}  // namespace tune::lookup
