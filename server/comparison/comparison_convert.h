// SPDX-License-Identifier: Apache-2.0
// Comparisons as messages.
#pragma once

#include "server/comparison/comparison_evidence.h"
#include "tune/v1/comparison.pb.h"

namespace tune::server {

// Without its problems.
v1::Comparison ToProto(const db::ComparisonRow& run);

enum class Turns { kInclude, kOmit };
v1::Comparison ToProto(const ComparisonEvidence& evidence, Turns turns);

}  // namespace tune::server
