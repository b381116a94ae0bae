// SPDX-License-Identifier: Apache-2.0
// What a machine's own noise makes of the gate: whole runs drawn from rounds in which nothing had
// changed, judged by the gate itself.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/cancelled.h"
#include "server/gate/gate_evidence.h"

namespace tune::server {

struct Resampled {
  uint32_t runs = 0;
  uint32_t failed_runs = 0;
  double flagged_per_run = 0;
  uint32_t kernels = 0;
  uint32_t rounds = 0;                       // recorded
  std::map<std::string, uint32_t> failures;  // by kernel
  double autocorrelation_max = 0;
};

// Draws the rounds of each kernel with replacement, for the screening and again for the
// confirmation. FAILED_PRECONDITION if a study has no kernel with eight valid rounds; CANCELLED if
// `cancelled` says so.
absl::StatusOr<Resampled> Resample(const std::vector<GateEvidence>& studies, uint32_t runs,
                                   uint64_t seed, const Cancelled& cancelled);

}  // namespace tune::server
