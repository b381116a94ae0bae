// SPDX-License-Identifier: Apache-2.0
// out = x + y by accesses of 64 bytes, the widest that kernels of the CPU device have.
#if TUNE_REFERENCE
extern "C" __global__ void wide_reference(const float* x, const float* y, float* out) {
  out[blockIdx.x] = x[blockIdx.x] + y[blockIdx.x];
}
#else
struct alignas(64) Wide {
  float at[16];
};
extern "C" __global__ void wide(const Wide* x, const Wide* y, Wide* out) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  Wide sum = x[i];
  for (int e = 0; e < 16; ++e) sum.at[e] += y[i].at[e];
  out[i] = sum;
}
#endif
