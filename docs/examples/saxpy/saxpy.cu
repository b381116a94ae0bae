// SPDX-License-Identifier: Apache-2.0
// out = a * x + y. THREADS and ITEMS are the spec's params; they arrive as macros.

#if TUNE_REFERENCE
extern "C" __global__ void saxpy_reference(const float* x, const float* y, double* out, float a,
                                           long long n) {
  long long i = blockIdx.x * static_cast<long long>(blockDim.x) + threadIdx.x;
  if (i < n) out[i] = static_cast<double>(a) * x[i] + y[i];
}
#else
extern "C" __global__ void __launch_bounds__(THREADS)
    saxpy(const float* x, const float* y, float* out, float a, long long n) {
  const long long first = blockIdx.x * static_cast<long long>(THREADS * ITEMS) + threadIdx.x;
#pragma unroll
  for (int item = 0; item < ITEMS; ++item) {
    const long long i = first + item * THREADS;
    if (i < n) out[i] = a * x[i] + y[i];
  }
}
#endif
