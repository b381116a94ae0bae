// SPDX-License-Identifier: Apache-2.0
// Compares a sweep with the ceilings of its device, as a message.
#pragma once

#include <map>
#include <vector>

#include "absl/status/statusor.h"
#include "db/store.h"
#include "server/devices/devices.h"
#include "server/devices/stale_ceilings.h"
#include "server/report/sweep_evidence.h"
#include "tune/v1/report.pb.h"
#include "tuner/roofline/diagnosis.h"

namespace tune::server {

struct RooflineSources {
  const Kernel& kernel;
  std::vector<SeenCeiling> ceilings;  // of the device, as they are known now
  uint64_t cache_bytes = 0;           // its last-level cache; 0: unknown
  std::map<int64_t, CountedTrial> counted;
};

inline constexpr size_t kRooflinePointsMax = 10'000;

// INVALID_ARGUMENT: the kernel's declared work cannot be evaluated for the sweep's problem.
absl::StatusOr<v1::Roofline> MakeRoofline(const SweepEvidence& evidence,
                                          const RooflineSources& sources);

}  // namespace tune::server
