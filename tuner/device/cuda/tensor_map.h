// SPDX-License-Identifier: Apache-2.0
// Builds the descriptors that the bulk copy engine (TMA) takes.
#pragma once

#include <cuda.h>

#include "absl/status/statusor.h"
#include "tuner/device/cuda/driver_api.h"
#include "tuner/plan.h"
#include "tuner/problem.h"

namespace tune::cuda {

// A map over the array at `address`. INVALID_ARGUMENT says which rule of cuTensorMapEncodeTiled
// the plan breaks.
absl::StatusOr<CUtensorMap> EncodeTensorMap(const DriverApi& driver, const TensorMapPlan& plan,
                                            DType dtype, CUdeviceptr address, int64_t count);

}  // namespace tune::cuda
