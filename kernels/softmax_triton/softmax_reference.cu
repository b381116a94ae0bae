// SPDX-License-Identifier: Apache-2.0
#if DTYPE_BF16
#include <cuda_bf16.h>
#elif DTYPE_F16
#include <cuda_fp16.h>
#endif

// A block of 256 threads takes a row; three plain passes in double precision.
extern "C" __global__ void softmax_reference(const DTYPE* x, double* y, int rows) {
  __shared__ double partial[256];
  const int thread = threadIdx.x;
  for (int row = blockIdx.x; row < rows; row += gridDim.x) {
    const DTYPE* in = x + static_cast<long long>(row) * COLS;
    double* out = y + static_cast<long long>(row) * COLS;

    double largest = static_cast<double>(static_cast<float>(in[0]));
    for (int col = thread; col < COLS; col += 256) {
      largest = fmax(largest, static_cast<double>(static_cast<float>(in[col])));
    }
    partial[thread] = largest;
    __syncthreads();
    for (int i = 0; i < 256; ++i) largest = fmax(largest, partial[i]);
    __syncthreads();

    double sum = 0;
    for (int col = thread; col < COLS; col += 256) {
      out[col] = exp(static_cast<double>(static_cast<float>(in[col])) - largest);
      sum += out[col];
    }
    partial[thread] = sum;
    __syncthreads();
    sum = 0;
    for (int i = 0; i < 256; ++i) sum += partial[i];
    __syncthreads();

    for (int col = thread; col < COLS; col += 256) out[col] /= sum;
  }
}
