// SPDX-License-Identifier: Apache-2.0
// dx = y * (dy - sum(y * dy)) for each row of row-major [rows, COLS] matrices: y is what softmax
// gave, dy the gradient of that. Each element is read once from device memory (unless KEEP is
// `none`: see README.md).
#if TUNE_REFERENCE

#if DTYPE_BF16
#include <cuda_bf16.h>
#elif DTYPE_F16
#include <cuda_fp16.h>
#endif

// A block of 256 threads takes a row, in double precision.
extern "C" __global__ void softmax_backward_reference(const DTYPE* y, const DTYPE* dy, double* dx,
                                                      long long rows) {
  __shared__ double partial[256];
  const int thread = threadIdx.x;
  for (long long row = blockIdx.x; row < rows; row += gridDim.x) {
    const long long first = row * COLS;
    double dot = 0;
    for (int col = thread; col < COLS; col += 256) {
      dot += static_cast<double>(static_cast<float>(y[first + col])) *
             static_cast<double>(static_cast<float>(dy[first + col]));
    }
    partial[thread] = dot;
    __syncthreads();
    dot = 0;
    for (int i = 0; i < 256; ++i) dot += partial[i];
    __syncthreads();

    for (int col = thread; col < COLS; col += 256) {
      dx[first + col] = static_cast<double>(static_cast<float>(y[first + col])) *
                        (static_cast<double>(static_cast<float>(dy[first + col])) - dot);
    }
  }
}

#else

#include "rows.cuh"

extern "C" __global__ void __launch_bounds__(kThreads, kBlocksPerSm)
    softmax_backward(const Bits* __restrict__ y, const Bits* __restrict__ dy,
                     Bits* __restrict__ dx, long long rows, long long y_skip, long long dy_skip) {
  StartMerges();
  const Row row = RowOfThread(rows);
  Share<> output;
  Share<> gradient;
  output.Fetch(y + row.index * y_skip, row, 0);
  gradient.Fetch(dy + row.index * dy_skip, row, 1);
  if constexpr (KEEP == async) CopyWait();

  Partial<1> dot = {};
#pragma unroll kUnroll
  for (int i = 0; i < kItems; ++i) {
    float probability[kVector];
    float value[kVector];
    output.Get(row, i, probability);
    gradient.Get(row, i, value);
#pragma unroll
    for (int e = 0; e < kVector; ++e) dot.value[0] += probability[e] * value[e];
  }
  WaitForClusterStart();
  MergeInRow(dot, row, 0);

#pragma unroll kUnroll
  for (int i = 0; i < kItems; ++i) {
    float probability[kVector];
    float value[kVector];
    output.Get(row, i, probability);
    gradient.Get(row, i, value);
#pragma unroll
    for (int e = 0; e < kVector; ++e) value[e] = probability[e] * (value[e] - dot.value[0]);
    Store(dx, row, i, Rounded(value));
  }
}

#endif  // TUNE_REFERENCE
