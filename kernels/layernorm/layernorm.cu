// SPDX-License-Identifier: Apache-2.0
// y = (s - mean(s)) / sqrt(variance(s) + epsilon) * weight + bias for each row s of a [rows, COLS]
// matrix: s is x, or x + residual, which is then an output as well. Each element is read once from
// device memory (unless KEEP is `none`: see README.md).
#if TUNE_REFERENCE

#if DTYPE_BF16
#include <cuda_bf16.h>
#elif DTYPE_F16
#include <cuda_fp16.h>
#endif

__device__ double Element(const DTYPE* x, const DTYPE* residual, long long at) {
  const double value = static_cast<float>(x[at]);
  return RESIDUAL ? value + static_cast<double>(static_cast<float>(residual[at])) : value;
}

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

// A block takes a row, in double precision.
extern "C" __global__ void layernorm_reference(const DTYPE* x, const DTYPE* residual,
                                               const DTYPE* weight, const DTYPE* bias, double* y,
                                               double* sum, double* mean, double* rstd,
                                               long long rows, float epsilon) {
  const int thread = threadIdx.x;
  for (long long row = blockIdx.x; row < rows; row += gridDim.x) {
    const long long first = row * COLS;
    double mine = 0;
    for (int col = thread; col < COLS; col += 256) mine += Element(x, residual, first + col);
    const double middle = BlockSum(mine) / COLS;

    mine = 0;
    for (int col = thread; col < COLS; col += 256) {
      const double difference = Element(x, residual, first + col) - middle;
      mine += difference * difference;
    }
    const double scale = 1 / sqrt(BlockSum(mine) / COLS + epsilon);

    for (int col = thread; col < COLS; col += 256) {
      const double value = Element(x, residual, first + col);
      const double factor = static_cast<float>(weight[col]);
      y[first + col] = (value - middle) * scale * factor + static_cast<float>(bias[col]);
      if (RESIDUAL) sum[first + col] = value;
    }
    if (thread == 0) {
      mean[row] = middle;
      rstd[row] = scale;
    }
    if (!RESIDUAL && row == 0 && thread == 0) sum[0] = 0;
  }
}

#else

#include "summed.cuh"

enum Weight { early, late };

// How many elements, their mean, and the sum of their squared distances from it.
using Moments = Partial<3>;

struct MergeMoments {
  __device__ __forceinline__ void operator()(Moments& to, const Moments& other) const {
    const float count = to.value[0] + other.value[0];
    const float share = count > 0 ? __fdividef(other.value[0], count) : 0;
    const float difference = other.value[1] - to.value[1];
    to.value[2] += other.value[2] + difference * difference * to.value[0] * share;
    to.value[1] += difference * share;
    to.value[0] = count;
  }
};

// Moments of a thread's elements, in one pass: sums are of differences from its first element, so
// that a mean far from zero costs no digits. Sums with the residual are stored on the way.
__device__ __forceinline__ Moments MomentsOf(const Summed& share, const Row& row, Bits* sum) {
  float shift = 0;
  float differences = 0;
  float squares = 0;
  int count = 0;
#pragma unroll kUnroll
  for (int i = 0; i < kItems; ++i) {
    if (!IsInside(row, VectorOf(row, i))) continue;
    float value[kVector];
    share.GetAndStore(row, i, value, sum);
    if (i == 0) shift = value[0];
    count += kVector;
#pragma unroll
    for (int e = 0; e < kVector; ++e) {
      const float difference = value[e] - shift;
      differences += difference;
      squares += difference * difference;
    }
  }
  if (count == 0) return {};
  const float n = static_cast<float>(count);
  const float from_shift = differences / n;
  const float around_mean = squares - differences * from_shift;
  // Rounding may leave less than 0. NaN stays NaN, which fmaxf would make 0.
  return {{n, shift + from_shift, around_mean < 0 ? 0 : around_mean}};
}

// The weights and biases beside a thread's part of a row.
class Affine {
 public:
  __device__ __forceinline__ Affine(const Bits* weight, const Bits* bias, const Row& row)
      : weight_(weight), bias_(bias) {
    if constexpr (WEIGHT == early) {
#pragma unroll
      for (int i = 0; i < kItems; ++i) {
        kept_weight_[i] = LoadColumns(weight, row, i);
        kept_bias_[i] = LoadColumns(bias, row, i);
      }
    }
  }

  __device__ __forceinline__ void Apply(const Row& row, int i, float (&value)[kVector]) const {
    const Vector weight = WEIGHT == early ? kept_weight_[i] : LoadColumns(weight_, row, i);
    const Vector bias = WEIGHT == early ? kept_bias_[i] : LoadColumns(bias_, row, i);
#pragma unroll
    for (int e = 0; e < kVector; ++e) value[e] = value[e] * At(weight, e) + At(bias, e);
  }

 private:
  const Bits* weight_;
  const Bits* bias_;
  Vector kept_weight_[WEIGHT == early ? kItems : 1];
  Vector kept_bias_[WEIGHT == early ? kItems : 1];
};

extern "C" __global__ void __launch_bounds__(kThreads, kBlocksPerSm)
    layernorm(const Bits* __restrict__ x, const Bits* __restrict__ residual,
              const Bits* __restrict__ weight, const Bits* __restrict__ bias,
              Bits* __restrict__ y, Bits* __restrict__ sum, float* __restrict__ mean,
              float* __restrict__ rstd, long long rows, long long x_skip, float epsilon) {
  StartMerges();
  Row row = RowOfTurn(0, rows);
  Summed share;
  share.Fetch(x + row.index * x_skip, residual, row);
  const Affine affine(weight, bias, row);
  for (int turn = 0;;) {
    if constexpr (KEEP == async) CopyWait();
    Moments moments = MomentsOf(share, row, sum);
    if (turn == 0) WaitForClusterStart();
    MergeInRow(moments, row, turn, MergeMoments());
    const float middle = moments.value[1];
    const float scale = rsqrtf(moments.value[2] * (1.0f / COLS) + epsilon);

#pragma unroll kUnroll
    for (int i = 0; i < kItems; ++i) {
      float value[kVector];
      share.Get(row, i, value);
#pragma unroll
      for (int e = 0; e < kVector; ++e) value[e] = (value[e] - middle) * scale;
      affine.Apply(row, i, value);
      Store(y, row, i, Rounded(value));
    }
    if (Leads(row)) {
      mean[row.index] = middle;
      rstd[row.index] = scale;
    }
    if (!RESIDUAL && Leads(row) && row.index == 0) sum[0] = 0;
    if (++turn == TURNS) return;
    row = RowOfTurn(turn, rows);
    if (row.index >= rows) return;
    share.Fetch(x + row.index * x_skip, residual, row);
  }
}

#endif  // TUNE_REFERENCE
