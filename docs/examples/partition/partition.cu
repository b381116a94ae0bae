// SPDX-License-Identifier: Apache-2.0
// The indices of negative elements, then those of all others. Which comes first on its side is
// left to chance, so many results are right: the checker at the end says which.

#if TUNE_CHECKER
#include "tune_check.h"

// A sum over all indices that is the same for each order of them, and hardly for anything else.
__device__ unsigned long long Fingerprint(unsigned long long index) {
  index = (index ^ (index >> 30)) * 0xbf58476d1ce4e5b9ull;
  index = (index ^ (index >> 27)) * 0x94d049bb133111ebull;
  return index ^ (index >> 31);
}

// One block.
extern "C" __global__ void check_partition(const float* x, const int* order, int n,
                                           TuneFaults* faults) {
  __shared__ unsigned long long difference;
  if (threadIdx.x == 0) difference = 0;
  __syncthreads();
  unsigned long long mine = 0;
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    const int at = order[i];
    if (at < 0 || at >= n) {
      TuneFault(faults, i, "no index", at);
      continue;
    }
    mine += Fingerprint(at) - Fingerprint(i);
    const int before = i == 0 ? at : order[i - 1];
    if (before < 0 || before >= n) continue;  // told already
    if (x[at] < 0.0f && x[before] >= 0.0f) {
      TuneFault(faults, i, "a negative behind one that is not", x[at]);
    }
  }
  atomicAdd(&difference, mine);
  __syncthreads();
  if (threadIdx.x == 0 && difference != 0) TuneFault(faults, 0, "not every index once");
}
#else
// `ends` is zero: how many are at the front, and at the back.
extern "C" __global__ void partition(const float* x, int* order, int* ends, int n) {
  const int i = blockIdx.x * THREADS + threadIdx.x;
  const bool inside = i < n;
  const bool front = inside && x[i] < 0.0f;
#if BY_BLOCK
  __shared__ int counts[2];
  __shared__ int begins[2];
  if (threadIdx.x < 2) counts[threadIdx.x] = 0;
  __syncthreads();
  int place = 0;
  if (inside) place = atomicAdd(&counts[front ? 0 : 1], 1);
  __syncthreads();
  if (threadIdx.x < 2) begins[threadIdx.x] = atomicAdd(&ends[threadIdx.x], counts[threadIdx.x]);
  __syncthreads();
  place += begins[front ? 0 : 1];
#else
  int place = 0;
  if (inside) place = atomicAdd(&ends[front ? 0 : 1], 1);
#endif
  if (inside) order[front ? place : n - 1 - place] = i;
}
#endif
