// SPDX-License-Identifier: Apache-2.0
// y = 3 x + 1, told honestly or not.

#if TUNE_REFERENCE
extern "C" __global__ void planted_reference(const float* x, double* y, long long n,
                                             long long period) {
  const long long i = blockIdx.x * static_cast<long long>(blockDim.x) + threadIdx.x;
  if (i < n) y[i] = 3.0 * x[i & (period - 1)] + 1.0;
}
#else
enum Lie {
  honest,
  skips,     // half of the elements
  once,      // does its work in the first launch only; the results are still there
  peeks,     // works only if it finds poison, that is, if somebody is going to look
  past_end,  // writes one element more
  input,     // overwrites what it was given
  narrow,    // half precision
  one_off,   // one wrong element
};
constexpr int kAtOnce = 8;  // loads of a thread, so that memory is what limits an honest one
constexpr unsigned kPoison = 0xffffffffu;

__device__ int done[1056];

extern "C" __global__ void __launch_bounds__(THREADS)
    planted(const float* x, float* y, long long n, long long period) {
  const long long first = blockIdx.x * static_cast<long long>(THREADS) + threadIdx.x;
  const long long stride = gridDim.x * static_cast<long long>(THREADS);
  if (LIE == once) {
    const bool again = done[blockIdx.x] != 0;
    __syncthreads();
    if (threadIdx.x == 0) done[blockIdx.x] = 1;
    if (again) return;
  }
  if (LIE == peeks && first < n && __float_as_uint(y[first]) != kPoison) return;
  if (LIE == past_end && first == 0) y[n] = 1.0f;
  if (LIE == input && first == 0) const_cast<float*>(x)[period - 1] = 12345.0f;
  const long long end = LIE == skips ? n / 2 : n;
  for (long long begin = first; begin < end; begin += kAtOnce * stride) {
    float value[kAtOnce];
    for (int k = 0; k < kAtOnce; ++k) value[k] = x[(begin + k * stride) & (period - 1)];
    for (int k = 0; k < kAtOnce; ++k) {
      const long long i = begin + k * stride;
      value[k] = 3.0f * value[k] + 1.0f;
      if (LIE == narrow) value[k] = __uint_as_float(__float_as_uint(value[k]) & 0xffffe000u);
      if (LIE == one_off && i == n / 3) value[k] += 0.001f;
      if (i < end) y[i] = value[k];
    }
  }
}
#endif
