// SPDX-License-Identifier: Apache-2.0
// y = 2 x, by somebody who means no harm. On the CPU device it looks for what another kernel may
// have left in the process.
#if TUNE_CPU
#include <stdlib.h>
__device__ bool IsMarked() { return getenv("HOSTILE_WAS_HERE") != nullptr; }
#else
__device__ bool IsMarked() { return false; }
#endif

#if TUNE_REFERENCE
extern "C" __global__ void innocent_reference(const float* x, double* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 2.0 * x[i];
}
#else
extern "C" __global__ void innocent(const float* x, float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = IsMarked() ? -1 : 2 * x[i];
}
#endif
