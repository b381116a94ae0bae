// SPDX-License-Identifier: Apache-2.0
// saxpy with planted flaws: FLAW 1 reads an illegal address, 2 spins for 20 s and ends by itself,
// 3 writes a wrong element.

#if TUNE_REFERENCE
extern "C" __global__ void hostile_reference(const float* x, const float* y, double* out, float a,
                                             long long n) {
  long long i = blockIdx.x * static_cast<long long>(blockDim.x) + threadIdx.x;
  if (i < n) out[i] = static_cast<double>(a) * x[i] + y[i];
}
#else
__device__ unsigned long long NowNs() {
  unsigned long long now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    hostile(const float* x, const float* y, float* out, float a, long long n) {
  const long long first = blockIdx.x * static_cast<long long>(THREADS) + threadIdx.x;
  const long long stride = gridDim.x * static_cast<long long>(THREADS);
  if (FLAW == 1 && first == 0) out[1LL << 45] = 1;
  if (FLAW == 2 && first == 0) {
    const unsigned long long start = NowNs();
    while (NowNs() - start < 20'000'000'000ULL) {
    }
  }
  for (long long i = first; i < n; i += stride * ITEMS) {
    for (int item = 0; item < ITEMS; ++item) {
      const long long at = i + item * stride;
      if (at >= n) break;
      float read = x[at];
      for (int needless = 0; needless < KIND; ++needless) {
        read = *static_cast<const volatile float*>(x + at);
      }
      out[at] = FLAW == 3 && at == n / 2 ? -1e30f : a * read + y[at];
    }
  }
}
#endif
