// SPDX-License-Identifier: Apache-2.0
// y = the sum of kTaps neighbours of x, each by its weight. Templates in a namespace, with the
// weights in constant memory, which the spec fills.
#include <cstdint>

namespace filters {

constexpr int kTaps = 9;
__constant__ float taps[kTaps];

template <typename T>
__device__ float ValueAt(const T* x, int64_t at, int64_t n) {
  return at >= 0 && at < n ? static_cast<float>(x[at]) : 0.0f;
}

// Each thread reads all its neighbours from memory.
template <int kThreads, int kEach, typename T>
__global__ void direct(const T* x, T* y, int n) {
  for (int i = 0; i < kEach; ++i) {
    const int64_t at = (int64_t{blockIdx.x} * kEach + i) * kThreads + threadIdx.x;
    if (at >= n) return;
    float sum = 0;
    for (int tap = 0; tap < kTaps; ++tap) sum += taps[tap] * ValueAt(x, at + tap - kTaps / 2, n);
    y[at] = sum;
  }
}

// A block reads them once, into shared memory.
template <int kThreads, int kEach, typename T>
__global__ void tiled(const T* x, T* y, int n) {
  constexpr int kTile = kThreads * kEach;
  __shared__ float tile[kTile + kTaps - 1];
  const int64_t first = int64_t{blockIdx.x} * kTile;
  for (int i = threadIdx.x; i < kTile + kTaps - 1; i += kThreads) {
    tile[i] = ValueAt(x, first + i - kTaps / 2, n);
  }
  __syncthreads();
  for (int i = threadIdx.x; i < kTile && first + i < n; i += kThreads) {
    float sum = 0;
    for (int tap = 0; tap < kTaps; ++tap) sum += taps[tap] * tile[i + tap];
    y[first + i] = sum;
  }
}

}  // namespace filters

#if TUNE_REFERENCE
extern "C" __global__ void convolve_reference(const DTYPE* x, double* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  double sum = 0;
  for (int tap = 0; tap < filters::kTaps; ++tap) {
    sum += filters::taps[tap] * filters::ValueAt(x, i + tap - filters::kTaps / 2, n);
  }
  y[i] = sum;
}
#endif
