// SPDX-License-Identifier: Apache-2.0
// The host's ceilings that sweeps do not need: every direction of main memory, and the caches.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "tuner/device/cpu/launcher.h"
#include "tuner/device/runner.h"

namespace tune::cpu {

// The ceilings of MeasureHostCeilings, and "dram_write", "dram_triad", "l1", "l2", "l3" in bytes/s
// of all threads together. A cache of unknown size has no entry, nor has the last cache if a
// thread's share of it is smaller than the cache before it. RESOURCE_EXHAUSTED: no memory.
absl::StatusOr<std::vector<Ceiling>> MeasureHostCeilingSuite(Launcher& launcher,
                                                             int64_t cache_bytes_all);

}  // namespace tune::cpu
