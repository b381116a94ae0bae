// SPDX-License-Identifier: Apache-2.0
// Fused kernels beside the sequences that they replace, from the sweeps and profiles that the store
// has, and what they are worth in a training step. Measures nothing.
#pragma once

#include "absl/status/statusor.h"
#include "base/cancelled.h"
#include "db/store.h"
#include "server/kernels/catalogue.h"
#include "server/sweep/sweeps.h"
#include "server/workload/workload.h"
#include "tune/v1/fusion.pb.h"

namespace tune::server {

struct FusionSources {
  db::Store& store;
  Sweeps& sweeps;
  const Catalogue& catalogue;
  const DeviceChoice& device;
};

// INVALID_ARGUMENT, NOT_FOUND: as ReportService.GetFusionReport. CANCELLED: `cancelled` said so; it
// is asked between the kernels of the table.
absl::StatusOr<v1::FusionReport> MakeFusionReport(const v1::GetFusionReportRequest& request,
                                                  const FusionSources& sources,
                                                  const Cancelled& cancelled);

}  // namespace tune::server
