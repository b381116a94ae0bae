// SPDX-License-Identifier: Apache-2.0
// The reference: tiles of 64 x 64 through shared memory, sums and epilogue in f64. It shares
// nothing with the tuned paths.
#pragma once

#ifdef DTYPE_F16
#include <cuda_fp16.h>
#else
#include <cuda_bf16.h>
#endif
#ifdef DTYPE_E4M3
#include <cuda_fp8.h>
using ReferenceElement = __nv_bfloat16;  // of all but A and B
#else
using ReferenceElement = DTYPE;
#endif

constexpr int kReferenceTile = 64;
constexpr int kReferenceSteps = 16;
#ifdef TUNE_CPU
constexpr int kReferenceSide = 2;  // threads along a side of the tile
#else
constexpr int kReferenceSide = 16;
#endif
constexpr int kReferenceThreads = kReferenceSide * kReferenceSide;
constexpr int kReferenceEach = kReferenceTile / kReferenceSide;

struct ReferenceTiles {
  float a[kReferenceSteps][kReferenceTile];
  float b[kReferenceSteps][kReferenceTile];
};

__device__ inline double ReferenceResult(double x, double bias, double residual) {
  if (EPILOGUE == 4) return x + residual;
  if (EPILOGUE >= 1) x += bias;
  if (EPILOGUE == 2) {
    return 0.5 * x * (1.0 + tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x)));
  }
  if (EPILOGUE == 3) return x / (1.0 + exp(-x));
  return x;
}

extern "C" __global__ void gemm_reference(const DTYPE* a, const DTYPE* b,
                                          const ReferenceElement* bias,
                                          const ReferenceElement* residual, const float* a_scale,
                                          const float* b_scale, float* out, int m, int n, int k,
                                          float alpha) {
  __shared__ ReferenceTiles tiles;
  const int first_row = blockIdx.x * kReferenceTile;
  const int first_column = blockIdx.y * kReferenceTile;
  const int y = threadIdx.x / kReferenceSide;
  const int x = threadIdx.x % kReferenceSide;
  double sums[kReferenceEach][kReferenceEach] = {};
  for (int first = 0; first < k; first += kReferenceSteps) {
    __syncthreads();
    for (int i = threadIdx.x; i < kReferenceSteps * kReferenceTile; i += kReferenceThreads) {
      const int step = first + i / kReferenceTile;
      const long long row = first_row + i % kReferenceTile;
      const long long column = first_column + i % kReferenceTile;
      const long long in_a = TRANSPOSE_A ? step * static_cast<long long>(m) + row : row * k + step;
      const long long in_b =
          TRANSPOSE_B ? column * k + step : step * static_cast<long long>(n) + column;
      tiles.a[i / kReferenceTile][i % kReferenceTile] =
          step < k && row < m ? static_cast<float>(a[in_a]) : 0.0f;
      tiles.b[i / kReferenceTile][i % kReferenceTile] =
          step < k && column < n ? static_cast<float>(b[in_b]) : 0.0f;
    }
    __syncthreads();
    for (int step = 0; step < kReferenceSteps; ++step) {
      for (int i = 0; i < kReferenceEach; ++i) {
        for (int j = 0; j < kReferenceEach; ++j) {
          // The product of two floats of 8 or 16 bits is exact in f32.
          sums[i][j] +=
              tiles.a[step][i * kReferenceSide + y] * tiles.b[step][j * kReferenceSide + x];
        }
      }
    }
  }
  for (int i = 0; i < kReferenceEach; ++i) {
    for (int j = 0; j < kReferenceEach; ++j) {
      const int row = first_row + i * kReferenceSide + y;
      const int column = first_column + j * kReferenceSide + x;
      if (row >= m || column >= n) continue;
      const long long at = static_cast<long long>(row) * n + column;
      const double of_bias = EPILOGUE >= 1 && EPILOGUE <= 3 ? static_cast<float>(bias[column]) : 0;
      const double of_residual = EPILOGUE == 4 ? static_cast<float>(residual[at]) : 0;
#ifdef DTYPE_E4M3
      const double factor = static_cast<double>(alpha) * a_scale[row] * b_scale[column];
#else
      const double factor = alpha;
#endif
      out[at] = static_cast<float>(ReferenceResult(factor * sums[i][j], of_bias, of_residual));
    }
  }
}
