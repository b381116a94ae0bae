// SPDX-License-Identifier: Apache-2.0
// Measures the limits of a GPU that utilisation is held against.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tuner/device/compiler.h"
#include "tuner/device/cuda/device_context.h"
#include "tuner/device/runner.h"
#include "tuner/plan.h"

namespace tune::cuda {

// How ceilings.cu is compiled, so that a test without a GPU can.
CompilePlan CeilingsCompilePlan(const std::string& target);

// dram_copy (bytes read and written), dram_read in bytes/s; f64, f32, f16, tensor_bf16, tensor_f16
// in FLOP/s: the best of several launch shapes, each run a few times for milliseconds. What cannot
// be measured has no entry: the tensor cores of sm_10x, which only tcgen05 drives at full rate.
// Compute figures are those of a short burst: power limits lower them when the load lasts.
// Takes under two seconds and up to 4 GiB of free memory.
absl::StatusOr<std::vector<Ceiling>> MeasureCeilings(const DeviceContext& context,
                                                     Compiler& compiler);

}  // namespace tune::cuda
