// SPDX-License-Identifier: Apache-2.0
// The gradients of y = n * weight + bias with n = (x - mean) * rstd, for row-major [rows, COLS]
// matrices:
//   dx = rstd (dy weight - mean(dy weight) - n mean(dy weight n))
//   dweight = sum over rows of dy n      dbias = sum over rows of dy
// Two steps: the first gives dx, and sums over some rows each; the second adds those.
#if TUNE_REFERENCE

#if DTYPE_BF16
#include <cuda_bf16.h>
#elif DTYPE_F16
#include <cuda_fp16.h>
#endif

__device__ double Double(DTYPE value) { return static_cast<float>(value); }

// The values of the 256 threads of a block, added up.
__device__ double BlockSum(double mine) {
  __shared__ double partial[256];
  partial[threadIdx.x] = mine;
  __syncthreads();
  double sum = 0;
  for (int i = 0; i < 256; ++i) sum += partial[i];
  __syncthreads();
  return sum;
}

// A block of 256 threads takes a row of dx, a thread a column for dweight and dbias; in double
// precision.
extern "C" __global__ void layernorm_backward_reference(const DTYPE* x, const DTYPE* weight,
                                                        const DTYPE* dy, const float* mean,
                                                        const float* rstd, double* dx,
                                                        double* dweight, double* dbias,
                                                        long long rows) {
  const int thread = threadIdx.x;
  for (long long row = blockIdx.x; row < rows; row += gridDim.x) {
    const long long first = row * COLS;
    const auto normal = [&](int col) { return (Double(x[first + col]) - mean[row]) * rstd[row]; };
    const auto weighted = [&](int col) { return Double(dy[first + col]) * Double(weight[col]); };
    double middle = 0;
    double slope = 0;
    for (int col = thread; col < COLS; col += 256) {
      middle += weighted(col);
      slope += weighted(col) * normal(col);
    }
    middle = BlockSum(middle) / COLS;
    slope = BlockSum(slope) / COLS;
    for (int col = thread; col < COLS; col += 256) {
      dx[first + col] = rstd[row] * (weighted(col) - middle - normal(col) * slope);
    }
  }
  for (int col = blockIdx.x * 256 + thread; col < COLS; col += gridDim.x * 256) {
    double weight_sum = 0;
    double bias_sum = 0;
    for (long long row = 0; row < rows; ++row) {
      const double gradient = Double(dy[row * COLS + col]);
      weight_sum += gradient * (Double(x[row * COLS + col]) - mean[row]) * rstd[row];
      bias_sum += gradient;
    }
    dweight[col] = weight_sum;
    dbias[col] = bias_sum;
  }
}

#else

#include "norm_backward.cuh"

extern "C" __global__ void __launch_bounds__(kThreads, kBlocksPerSm)
    layernorm_backward(const Bits* x, const Bits* weight, const Bits* dy, const float* mean,
                       const float* rstd, Bits* dx, float* partials, int* groups, long long rows,
                       long long x_skip, long long dy_skip) {
  NormBackward({x, weight, dy, mean, rstd, dx, partials, rows, x_skip, dy_skip}, groups);
}

extern "C" __global__ void __launch_bounds__(32 * COMBINE_LANES)
    combine(const float* partials, Bits* dweight, Bits* dbias, const int* groups) {
  CombineSums(partials, dweight, dbias, *groups);
}

#endif  // TUNE_REFERENCE
