// SPDX-License-Identifier: Apache-2.0
// Measures the host's limits, with which utilisation is compared.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "tuner/device/cpu/launcher.h"
#include "tuner/device/runner.h"

namespace tune::cpu {

// "f32" and "f64" in FLOP/s, "dram_copy" and "dram_read" in bytes/s, all threads together. Takes a
// second or so, and up to 1 GiB. RESOURCE_EXHAUSTED: no memory.
absl::StatusOr<std::vector<Ceiling>> MeasureHostCeilings(Launcher& launcher,
                                                         int64_t cache_bytes_all);

// Many short runs, of which the best counts: some of them run undisturbed.
inline constexpr int kRuns = 16;
inline constexpr int64_t kGrainWords = 4096;

// Processor time of the calling thread, which excludes whatever else ran on its processor.
double ThreadNs();

// Reads `count` words of 8 bytes and returns something that depends on each of them.
// REQUIRES: count is a multiple of 8.
uint64_t ReadWords(const uint64_t* data, int64_t count);

}  // namespace tune::cpu
