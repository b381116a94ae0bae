// SPDX-License-Identifier: Apache-2.0
// The report of a sweep as a message: the effect of each parameter, the course of the search, the
// failures.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "base/cancelled.h"
#include "server/report/sweep_evidence.h"
#include "tune/v1/report.pb.h"

namespace tune::server {

inline constexpr size_t kHeatmapCellsMax = 40'000;

// The parameters of the heat map; empty: the two that matter most together. INVALID_ARGUMENT: one
// that the sweep's space does not have, or that has one value only, or two with so many values that
// the map would have more than kHeatmapCellsMax cells.
struct HeatmapChoice {
  std::string row_param;
  std::string column_param;
};

// CANCELLED: `cancelled` said so; it is asked between parameters.
absl::StatusOr<v1::SweepReport> MakeSweepReport(const SweepEvidence& evidence,
                                                const HeatmapChoice& choice,
                                                const Cancelled& cancelled);

}  // namespace tune::server
