// SPDX-License-Identifier: Apache-2.0
// Compares a sweep with the ceilings of its device, as a message.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "absl/status/statusor.h"
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

// The size of a roofline's points, beyond which the slowest are left out.
struct RooflineLimit {
  size_t points = 10'000;
  size_t bytes = 16 << 20;
};

// The limit of the next of `left` rooflines: an even share of what `made` leaves of a report.
RooflineLimit NextLimit(const v1::RooflineReport& made, size_t left);

// INVALID_ARGUMENT: the kernel's declared work cannot be evaluated for the sweep's problem.
absl::StatusOr<v1::Roofline> MakeRoofline(const SweepEvidence& evidence,
                                          const RooflineSources& sources,
                                          const RooflineLimit& limit);

}  // namespace tune::server
