// SPDX-License-Identifier: Apache-2.0
// y = x by the sum of all x, in one launch: all blocks run at the same time and wait for each
// other.
#include <cooperative_groups.h>

namespace cg = cooperative_groups;

__device__ double total;  // zero before every launch, as the spec fills it

extern "C" __global__ void __launch_bounds__(THREADS) normalize(const float* x, float* y, int n) {
  cg::grid_group grid = cg::this_grid();
  double sum = 0;
  for (long long i = grid.thread_rank(); i < n; i += grid.size()) sum += x[i];
  for (int lanes = 16; lanes > 0; lanes /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, lanes);
  if (threadIdx.x % 32 == 0) atomicAdd(&total, sum);
  grid.sync();
  const float factor = static_cast<float>(1.0 / total);
  for (long long i = grid.thread_rank(); i < n; i += grid.size()) y[i] = x[i] * factor;
}

#if TUNE_REFERENCE
extern "C" __global__ void normalize_reference(const float* x, double* y, int n) {
  double sum = 0;
  for (int i = 0; i < n; ++i) sum += x[i];
  for (int i = 0; i < n; ++i) y[i] = x[i] / sum;
}
#endif
