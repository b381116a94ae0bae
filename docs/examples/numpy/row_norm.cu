// SPDX-License-Identifier: Apache-2.0
// y = x over the L2 norm of its row: a block for each row.
#include <cuda_bf16.h>

extern "C" __global__ void row_norm(const DTYPE* x, DTYPE* y, float* norms, int cols) {
  __shared__ float parts[THREADS];
  const DTYPE* row = x + static_cast<size_t>(blockIdx.x) * cols;
  float sum = 0.0f;
  for (int i = threadIdx.x; i < cols; i += THREADS) {
    const float value = static_cast<float>(row[i]);
    sum += value * value;
  }
  parts[threadIdx.x] = sum;
  __syncthreads();
  for (int half = THREADS / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) parts[threadIdx.x] += parts[threadIdx.x + half];
    __syncthreads();
  }
  const float norm = sqrtf(parts[0]);
  if (threadIdx.x == 0) norms[blockIdx.x] = norm;
  for (int i = threadIdx.x; i < cols; i += THREADS) {
    y[static_cast<size_t>(blockIdx.x) * cols + i] =
        static_cast<DTYPE>(static_cast<float>(row[i]) / norm);
  }
}
