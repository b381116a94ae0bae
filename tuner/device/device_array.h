// SPDX-License-Identifier: Apache-2.0
// An array in the memory of a device, and how a program gets those that its arguments name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "absl/status/statusor.h"
#include "tuner/plan.h"
#include "tuner/problem.h"

namespace tune {

struct DeviceArray {
  DType dtype = DType::kF32;
  uint64_t address = 0;  // 0: there is none
  int64_t count = 0;     // elements

  size_t bytes() const { return static_cast<size_t>(count * SizeInBytes(dtype)); }
  // REQUIRES: the host can address the device's memory.
  void* data() const { return reinterpret_cast<void*>(address); }
};

// Returns the array of a buffer argument. INVALID_ARGUMENT if no buffer fits.
using BufferResolver = std::function<absl::StatusOr<DeviceArray>(const BufferPlan&)>;

}  // namespace tune
