// SPDX-License-Identifier: Apache-2.0
// One element of c a thread, in f32. A descriptor's buffer is a pointer here.
#if DTYPE_BF16
#include <cuda_bf16.h>
#else
#include <cuda_fp16.h>
#endif

extern "C" __global__ void matmul_reference(const DTYPE* a, const DTYPE* b, float* c, int n,
                                            int k) {
  const long long column = blockIdx.x * blockDim.x + threadIdx.x;
  const long long row = blockIdx.y;
  if (column >= n) return;
  float sum = 0;
  for (int i = 0; i < k; ++i) {
    sum += static_cast<float>(a[row * k + i]) * static_cast<float>(b[column * k + i]);
  }
  c[row * n + column] = sum;
}
