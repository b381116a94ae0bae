// SPDX-License-Identifier: Apache-2.0
// A kernel as a project may have it: a template, in a header, launched from C++. It adds the sum of
// each row of `in` to `sums`.
#pragma once

template <typename T, int kThreads, int kUnroll>
__global__ void __launch_bounds__(kThreads) RowSum(T* sums, const T* in, int columns) {
  __shared__ float partial[kThreads];
  const T* row = in + static_cast<long long>(blockIdx.x) * columns;
  float sum = 0;
  for (int first = threadIdx.x; first < columns; first += kThreads * kUnroll) {
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) {
      const int column = first + i * kThreads;
      if (column < columns) sum += static_cast<float>(row[column]);
    }
  }
  partial[threadIdx.x] = sum;
  __syncthreads();
  for (unsigned half = kThreads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) partial[threadIdx.x] += partial[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) sums[blockIdx.x] += static_cast<T>(partial[0]);
}
