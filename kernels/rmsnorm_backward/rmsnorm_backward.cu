// SPDX-License-Identifier: Apache-2.0
// The gradients of y = n * weight with n = x * rstd, for row-major [rows, COLS] matrices:
//   dx = rstd (dy weight - n mean(dy weight n))      dweight = sum over rows of dy n
// Two steps: the first gives dx, and sums of dy n over some rows each; the second adds those.
#if TUNE_REFERENCE

#if DTYPE_BF16
#include <cuda_bf16.h>
#elif DTYPE_F16
#include <cuda_fp16.h>
#endif

__device__ double Double(DTYPE value) { return static_cast<float>(value); }

// A block of 256 threads takes a row of dx, a thread a column of dweight; in double precision.
extern "C" __global__ void rmsnorm_backward_reference(const DTYPE* x, const DTYPE* weight,
                                                      const DTYPE* dy, const float* rstd,
                                                      double* dx, double* dweight,
                                                      long long rows) {
  __shared__ double partial[256];
  const int thread = threadIdx.x;
  for (long long row = blockIdx.x; row < rows; row += gridDim.x) {
    const long long first = row * COLS;
    double slope = 0;
    for (int col = thread; col < COLS; col += 256) {
      slope += Double(dy[first + col]) * Double(weight[col]) * Double(x[first + col]) * rstd[row];
    }
    partial[thread] = slope;
    __syncthreads();
    slope = 0;
    for (int i = 0; i < 256; ++i) slope += partial[i];
    slope /= COLS;
    __syncthreads();

    for (int col = thread; col < COLS; col += 256) {
      const double normal = Double(x[first + col]) * rstd[row];
      dx[first + col] =
          rstd[row] * (Double(dy[first + col]) * Double(weight[col]) - normal * slope);
    }
  }
  for (int col = blockIdx.x * 256 + thread; col < COLS; col += gridDim.x * 256) {
    double sum = 0;
    for (long long row = 0; row < rows; ++row) {
      sum += Double(dy[row * COLS + col]) * Double(x[row * COLS + col]) * rstd[row];
    }
    dweight[col] = sum;
  }
}

#else

#include "norm_backward.cuh"

extern "C" __global__ void __launch_bounds__(kThreads, kBlocksPerSm)
    rmsnorm_backward(const Bits* x, const Bits* weight, const Bits* dy, const float* rstd, Bits* dx,
                     float* partials, int* groups, long long rows, long long x_skip,
                     long long dy_skip) {
  NormBackward({x, weight, dy, nullptr, rstd, dx, partials, rows, x_skip, dy_skip}, groups);
}

extern "C" __global__ void __launch_bounds__(32 * COMBINE_LANES)
    combine(const float* partials, Bits* dweight, const int* groups) {
  CombineSums(partials, dweight, nullptr, *groups);
}

#endif  // TUNE_REFERENCE
