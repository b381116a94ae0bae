// SPDX-License-Identifier: Apache-2.0
// y = s / sqrt(mean(s * s) + epsilon) * weight for each row s of a [rows, COLS] matrix: s is x, or
// x + residual, which is then an output as well. Each element is read once from device memory
// (unless KEEP is `none`: see README.md).
#if TUNE_REFERENCE

#if DTYPE_BF16
#include <cuda_bf16.h>
#elif DTYPE_F16
#include <cuda_fp16.h>
#endif

__device__ double ReferenceElement(const DTYPE* x, const DTYPE* residual, long long at) {
  const double value = static_cast<float>(x[at]);
  return RESIDUAL ? value + static_cast<double>(static_cast<float>(residual[at])) : value;
}

// A block of 256 threads takes a row, in double precision.
extern "C" __global__ void rmsnorm_reference(const DTYPE* x, const DTYPE* residual,
                                             const DTYPE* weight, double* y, double* sum,
                                             double* rstd, long long rows, float epsilon) {
  __shared__ double partial[256];
  const int thread = threadIdx.x;
  for (long long row = blockIdx.x; row < rows; row += gridDim.x) {
    double squares = 0;
    for (int col = thread; col < COLS; col += 256) {
      const double value = ReferenceElement(x, residual, row * COLS + col);
      squares += value * value;
    }
    partial[thread] = squares;
    __syncthreads();
    squares = 0;
    for (int i = 0; i < 256; ++i) squares += partial[i];
    __syncthreads();

    const double scale = 1 / sqrt(squares / COLS + epsilon);
    for (int col = thread; col < COLS; col += 256) {
      const double value = ReferenceElement(x, residual, row * COLS + col);
      y[row * COLS + col] = value * scale * static_cast<double>(static_cast<float>(weight[col]));
      if (RESIDUAL) sum[row * COLS + col] = value;
    }
    if (thread == 0) rstd[row] = scale;
    if (!RESIDUAL && row == 0 && thread == 0) sum[0] = 0;
  }
}

#else

#include "summed.cuh"

enum Weight { early, late };

extern "C" __global__ void __launch_bounds__(kThreads, kBlocksPerSm)
    rmsnorm(const Bits* __restrict__ x, const Bits* __restrict__ residual,
            const Bits* __restrict__ weight, Bits* __restrict__ y, Bits* __restrict__ sum,
            float* __restrict__ rstd, long long rows, long long x_skip,
            float epsilon) {
  StartMerges();
  Row row = RowOfTurn(0, rows);
  Summed share;
  share.Fetch(x + row.index * x_skip, residual, row);
  Vector early_weight[WEIGHT == early ? kItems : 1];
  if constexpr (WEIGHT == early) {
#pragma unroll
    for (int i = 0; i < kItems; ++i) early_weight[i] = LoadColumns(weight, row, i);
  }
  for (int turn = 0;;) {
    if constexpr (KEEP == async) CopyWait();
    Partial<1> squares = {};
#pragma unroll kUnroll
    for (int i = 0; i < kItems; ++i) {
      float value[kVector];
      share.GetAndStore(row, i, value, sum);
#pragma unroll
      for (int e = 0; e < kVector; ++e) squares.value[0] += value[e] * value[e];
    }
    if (turn == 0) WaitForClusterStart();
    MergeInRow(squares, row, turn);
    const float scale = rsqrtf(squares.value[0] * (1.0f / COLS) + epsilon);

#pragma unroll kUnroll
    for (int i = 0; i < kItems; ++i) {
      float value[kVector];
      float factor[kVector];
      share.Get(row, i, value);
      Unpack(WEIGHT == early ? early_weight[i] : LoadColumns(weight, row, i), factor);
#pragma unroll
      for (int e = 0; e < kVector; ++e) value[e] *= scale * factor[e];
      Store(y, row, i, Rounded(value));
    }
    if (Leads(row)) rstd[row.index] = scale;
    if (!RESIDUAL && Leads(row) && row.index == 0) sum[0] = 0;
    if (++turn == TURNS) return;
    row = RowOfTurn(turn, rows);
    if (row.index >= rows) return;
    share.Fetch(x + row.index * x_skip, residual, row);
  }
}

#endif  // TUNE_REFERENCE
