// SPDX-License-Identifier: Apache-2.0
// Facts that the host reports about itself.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "tuner/device/runner.h"

namespace tune::cpu {

inline constexpr int64_t kSharedBytesMax = 1 << 20;

struct HostInfo {
  DeviceInfo device;
  std::vector<int> cpus;        // the hardware threads that this process may use
  int64_t cache_bytes_all = 0;  // last-level caches of all of them together
};

// FAILED_PRECONDITION if the host does not report its processors or its memory.
absl::StatusOr<HostInfo> ReadHostInfo();

}  // namespace tune::cpu
