// SPDX-License-Identifier: Apache-2.0
// One element of c a thread, in f32.
#if DTYPE_BF16
#include <cuda_bf16.h>
#else
#include <cuda_fp16.h>
#endif

extern "C" __global__ void matmul_reference(const DTYPE* a, const DTYPE* b, float* c, int m, int n,
                                            int k) {
  const int column = blockIdx.x * blockDim.x + threadIdx.x;
  const int row = blockIdx.y * blockDim.y + threadIdx.y;
  if (row >= m || column >= n) return;
  float sum = 0;
  for (int i = 0; i < k; ++i) {
    sum += static_cast<float>(a[static_cast<long long>(row) * k + i]) *
           static_cast<float>(b[static_cast<long long>(i) * n + column]);
  }
  c[static_cast<long long>(row) * n + column] = sum;
}
