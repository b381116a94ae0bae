// SPDX-License-Identifier: Apache-2.0
// A small real kernel whose param FAULT makes variants go wrong in every way a kernel can.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "server/wire/spec.h"
#include "tuner/kernel/kernel.h"

namespace tune::server {

inline absl::StatusOr<std::shared_ptr<const Kernel>> SmallKernel(const std::string& faults) {
  const std::string spec = R"spec(
name: "scale"
source: "scale.cu"
entry: "scale"
dims { name: "n" default_value: 65536 min: 1 }
dtypes: ["bf16", "f32"]
params { name: "THREADS" values: "[32, 64, 128]" default_value: "64" }
params { name: "STEP" values: "[1, 4]" default_value: "1" }
params { name: "FAULT" values: ")spec" +
                           faults + R"spec(" default_value: "0" }
constraints { expression: "FAULT == 0 or (THREADS == 64 and STEP == 1)" }
args { name: "x" buffer { dtype: "dtype" shape: "n" role: ROLE_INPUT } }
args { name: "y" buffer { dtype: "dtype" shape: "n" role: ROLE_OUTPUT } }
args { name: "n" scalar { dtype: "i32" value: "n" } }
launch { grid: "ceil_div(n, THREADS * STEP)" block: "THREADS" }
work { flops: "n" bytes: "2 * n * dtype_bytes" peak: "'f32'" }
reference { entry: "scale_reference" dtype: "f32" launch { grid: "ceil_div(n, 64)" block: "64" } }
)spec";
  // FAULT: 1 does not compile, 2 computes nonsense, 3 writes where it may not, 4 spins for longer
  // than any test waits, though not for ever.
  const std::string source = R"cuda(
#include <cuda_bf16.h>
extern "C" __global__ void scale(const DTYPE* x, DTYPE* y, int n) {
#if FAULT == 1
  this does not compile;
#endif
#if FAULT == 3
  *(volatile int*)(16 + threadIdx.x) = 1;
#endif
#if FAULT == 4
  for (volatile long long i = 0; i < 50000000000ll; ++i) {}
#endif
  for (int s = 0; s < STEP; ++s) {
    const int i = (blockIdx.x * STEP + s) * THREADS + threadIdx.x;
    if (i < n) y[i] = (DTYPE)((float)x[i] * (FAULT == 2 ? 3.0f : 2.0f));
  }
}
#if TUNE_REFERENCE
extern "C" __global__ void scale_reference(const DTYPE* x, float* y, int n) {
  const int i = blockIdx.x * 64 + threadIdx.x;
  if (i < n) y[i] = (float)x[i] * 2.0f;
}
#endif
)cuda";
  return ReadKernel("scale.textproto", spec, {{"scale.cu", source}});
}

}  // namespace tune::server
