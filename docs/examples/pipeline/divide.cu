// SPDX-License-Identifier: Apache-2.0
// The second launch, in a file of its own: it may start while the first one ends, so it waits for
// what the first one wrote.
#include <cuda_device_runtime_api.h>

__device__ float Absolute(float x) { return fabsf(x); }  // another than the first file's

extern "C" __global__ void divide(const float* x, const float* largest, float* y, int n,
                                  int blocks) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const float value = i < n ? x[i] : 0.0f;
#if OVERLAP
  cudaGridDependencySynchronize();
#endif
  float best = 0;
  for (int block = 0; block < blocks; ++block) best = fmaxf(best, Absolute(largest[block]));
  if (i < n) y[i] = value / best;
}
