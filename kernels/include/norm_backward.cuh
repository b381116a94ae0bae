// SPDX-License-Identifier: Apache-2.0
// The gradients of a norm: of RMS norm or, if CENTRED, of layer norm. Resident blocks walk over the
// rows; a thread has the same columns of every row, and keeps their sums over rows, which are the
// gradients of the weight and the bias.
#pragma once

#include "rows.cuh"

// Values of WEIGHT and SUMS.
enum Weight { early, late, shared };
enum SumsPlace { registers, memory };

constexpr int kSums = CENTRED ? 2 : 1;  // of a column: for the weight, and for the bias

struct NormTensors {
  const Bits* __restrict__ x;
  const Bits* __restrict__ weight;
  const Bits* __restrict__ dy;
  const float* __restrict__ mean;  // if CENTRED
  const float* __restrict__ rstd;
  Bits* __restrict__ dx;
  float* __restrict__ partials;  // [groups, kSums, COLS]
  long long rows;
  long long x_skip;  // elements between rows
  long long dy_skip;
};

// ---- Rows ---------------------------------------------------------------------------------------

// The blocks of a cluster are a group: they share its rows, ROWS at a time.
__device__ __forceinline__ long long Group() { return blockIdx.x / CLUSTER; }
__device__ __forceinline__ long long Groups() { return gridDim.x / CLUSTER; }

__device__ __forceinline__ Row RowIn(long long tile, long long rows) {
  Row row = RowAt(tile * ROWS + threadIdx.x / ROW_THREADS, rows);
  row.exists = row.index < rows;
  return row;
}

// A thread's elements of one row. Elements of two bytes are normalised in one step, which errs by
// 2^-24 of mean * rstd: less than their rounding has lost, unless a row is all but constant. Of
// those of four the mean is taken first.
class Inputs {
 public:
  __device__ __forceinline__ void Fetch(const NormTensors& t, const Row& row, int stage) {
    x_.Fetch(t.x + row.index * t.x_skip, row, 2 * stage);
    dy_.Fetch(t.dy + row.index * t.dy_skip, row, 2 * stage + 1);
    scale_ = row.exists ? t.rstd[row.index] : 0.0f;
    if constexpr (CENTRED) {
      shift_ = row.exists ? (sizeof(Bits) == 2 ? -scale_ : -1.0f) * t.mean[row.index] : 0.0f;
    }
  }

  // Item i: x normalised, and the gradient of what came of it.
  __device__ __forceinline__ void Get(const Row& row, int i, float (&normal)[kVector],
                                      float (&dy)[kVector]) const {
    x_.Get(row, i, normal);
    dy_.Get(row, i, dy);
#pragma unroll
    for (int e = 0; e < kVector; ++e) {
      if constexpr (CENTRED && sizeof(Bits) == 2) {
        normal[e] = normal[e] * scale_ + shift_;
      } else {
        normal[e] = (CENTRED ? normal[e] + shift_ : normal[e]) * scale_;
      }
    }
  }

  __device__ __forceinline__ float Scale() const { return scale_; }

 private:
  Share<> x_;
  Share<> dy_;
  float scale_;
  float shift_;  // minus the mean, scaled where elements have two bytes
};

class Weights {
 public:
  __device__ __forceinline__ Weights(const Bits* weight, const Row& row) : weight_(weight) {
    if constexpr (WEIGHT == early) {
#pragma unroll
      for (int i = 0; i < kItems; ++i) kept_[i] = LoadColumns(weight, row, i);
    } else if constexpr (WEIGHT == shared) {
      stage_ = Stage(row, 2 * (1 + AHEAD));
      for (int i = 0; i < kItems; ++i) stage_[i * ROW_THREADS] = LoadColumns(weight, row, i);
    }
  }
  __device__ __forceinline__ Vector Get(const Row& row, int i) const {
    if constexpr (WEIGHT == shared) return stage_[i * ROW_THREADS];
    return WEIGHT == early ? Forgotten(kept_[i]) : LoadColumns(weight_, row, i);
  }

 private:
  const Bits* weight_;
  Vector* stage_;
  Vector kept_[WEIGHT == early ? kItems : 1];
};

// ---- Sums over rows -----------------------------------------------------------------------------

// kVector floats, as wide as they are aligned.
constexpr int kFloats = Min(kVector, 4);
struct alignas(4 * kFloats) Floats {
  float of[kFloats];
};

__device__ __forceinline__ void LoadFloats(const float* from, float (&value)[kVector]) {
#pragma unroll
  for (int i = 0; i < kVector; i += kFloats) {
    const Floats floats = *reinterpret_cast<const Floats*>(from + i);
#pragma unroll
    for (int e = 0; e < kFloats; ++e) value[i + e] = floats.of[e];
  }
}

__device__ __forceinline__ void StoreFloats(float* to, const float (&value)[kVector]) {
#pragma unroll
  for (int i = 0; i < kVector; i += kFloats) {
    Floats floats;
#pragma unroll
    for (int e = 0; e < kFloats; ++e) floats.of[e] = value[i + e];
    *reinterpret_cast<Floats*>(to + i) = floats;
  }
}

// Sums of a thread's columns, over the rows of its group: in registers until the last row, or in
// the group's own row of `partials`, where L2 has it.
class ColumnSums {
 public:
  __device__ __forceinline__ explicit ColumnSums(float* partials)
      : own_(partials + Group() * kSums * COLS) {
#pragma unroll
    for (auto& column : sum_) {
#pragma unroll
      for (float& value : column) value = 0;
    }
  }

  // Adds to sum `which` of item i. `first`: of the first row of the group.
  __device__ __forceinline__ void Add(const Row& row, int i, int which, bool first,
                                      const float (&value)[kVector]) {
    if constexpr (SUMS == registers) {
#pragma unroll
      for (int e = 0; e < kVector; ++e) sum_[i * kSums + which][e] += value[e];
    } else {
      const int v = VectorOf(row, i);
      if (!IsInside(row, v)) return;
      float* at = own_ + which * COLS + v * kVector;
      float sum[kVector] = {};
      if (!first) LoadFloats(at, sum);
#pragma unroll
      for (int e = 0; e < kVector; ++e) sum[e] += value[e];
      StoreFloats(at, sum);
    }
  }

  // After the last row.
  __device__ __forceinline__ void Store(const Row& row) {
    if constexpr (SUMS == memory) return;
    if constexpr (ROWS > 1) AddUpRows(row);
    if (threadIdx.x >= ROW_THREADS) return;
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      const int v = VectorOf(row, i);
      if (!kExact && v >= kRowVectors) continue;
#pragma unroll
      for (int which = 0; which < kSums; ++which) {
        StoreFloats(own_ + which * COLS + v * kVector, sum_[i * kSums + which]);
      }
    }
  }

 private:
  // The threads of the block's first row take over what those of the others have.
  __device__ __forceinline__ void AddUpRows(const Row& row) {
    __shared__ float others[kItems * kSums * kVector * ROW_THREADS];
    for (int r = 1; r < ROWS; ++r) {
      __syncthreads();
      if (threadIdx.x / ROW_THREADS == r) {
#pragma unroll
        for (int k = 0; k < kItems * kSums * kVector; ++k) {
          others[k * ROW_THREADS + row.lane] = sum_[k / kVector][k % kVector];
        }
      }
      __syncthreads();
      if (threadIdx.x >= ROW_THREADS) continue;
#pragma unroll
      for (int k = 0; k < kItems * kSums * kVector; ++k) {
        sum_[k / kVector][k % kVector] += others[k * ROW_THREADS + row.lane];
      }
    }
  }

  float* own_;
  float sum_[SUMS == registers ? kItems * kSums : 1][kVector];
};

// ---- The two steps ------------------------------------------------------------------------------

// Loops over what registers hold are unrolled, so that it has names.
constexpr int kUnrollSlopes = WEIGHT == early ? kItems : kUnroll;
constexpr int kUnrollFinish = SUMS == registers ? kItems : kUnrollSlopes;

// Sums of a thread's part of a row: of weighted gradients times what was normalised and, if
// CENTRED, of weighted gradients.
using Slopes = Partial<kSums>;
__device__ __forceinline__ Slopes SlopesIn(const Row& row, const Inputs& inputs,
                                           const Weights& weights) {
  Slopes slopes = {};
#pragma unroll kUnrollSlopes
  for (int i = 0; i < kItems; ++i) {
    float normal[kVector];
    float dy[kVector];
    inputs.Get(row, i, normal, dy);
    const Vector weight = weights.Get(row, i);
#pragma unroll
    for (int e = 0; e < kVector; ++e) {
      const float weighted = dy[e] * At(weight, e);
      slopes.value[0] += weighted * normal[e];
      if constexpr (CENTRED) slopes.value[kSums - 1] += weighted;
    }
  }
  return slopes;
}

// Writes the gradient of a row, and adds what the row brings to the columns' sums.
__device__ __forceinline__ void Finish(Bits* dx, const Row& row, const Inputs& inputs,
                                       const Weights& weights, const Slopes& slopes,
                                       ColumnSums& sums, bool first) {
  const float scale = inputs.Scale();
  const float slope = slopes.value[0] * (1.0f / COLS) * scale;
  const float middle = CENTRED ? slopes.value[kSums - 1] * (1.0f / COLS) * scale : 0.0f;
#pragma unroll kUnrollFinish
  for (int i = 0; i < kItems; ++i) {
    float normal[kVector];
    float dy[kVector];
    float gradient[kVector];
    inputs.Get(row, i, normal, dy);
    const Vector weight = weights.Get(row, i);
#pragma unroll
    for (int e = 0; e < kVector; ++e) {
      const float weighted = dy[e] * At(weight, e);
      gradient[e] = scale * weighted - (CENTRED ? normal[e] * slope + middle : normal[e] * slope);
      normal[e] *= dy[e];
    }
    Store(dx, row, i, Rounded(gradient));
    sums.Add(row, i, 0, first, normal);
    if constexpr (CENTRED) sums.Add(row, i, kSums - 1, first, dy);
  }
}

// First step: the gradient of x, and each group's sums of columns.
__device__ __forceinline__ void NormBackward(const NormTensors& t, int* groups) {
  StartMerges();
  Row row = RowIn(Group(), t.rows);
  Inputs inputs;
  inputs.Fetch(t, row, 0);
  const Weights weights(t.weight, row);
  ColumnSums sums(t.partials);
  WaitForClusterStart();

  const long long tiles = (t.rows + ROWS - 1) / ROWS;
  int turn = 0;
  for (long long tile = Group(); tile < tiles; ++turn) {
    if constexpr (ROWS == 1) row.exists = true;  // The compiler cannot know it.
    tile += Groups();
    const Row next_row = RowIn(tile, t.rows);
    Inputs next;
    if constexpr (AHEAD) next.Fetch(t, next_row, (turn + 1) % 2);
    if constexpr (KEEP == async) CopyWait<AHEAD ? 2 : 0>();
    Slopes slopes = SlopesIn(row, inputs, weights);
    MergeInRow(slopes, row, turn);
    Finish(t.dx, row, inputs, weights, slopes, sums, turn == 0);
    if constexpr (!AHEAD) next.Fetch(t, next_row, 0);
    inputs = next;
    row = next_row;
  }
  if constexpr (KEEP == async) CopyWait();
  sums.Store(row);
  if (blockIdx.x == 0 && threadIdx.x == 0) *groups = static_cast<int>(Groups());
}

// Second step: adds the groups' sums. A block has 32 columns and COMBINE_LANES threads for each.
__device__ __forceinline__ void CombineSums(const float* __restrict__ partials, Bits* dweight,
                                            Bits* dbias, int groups) {
  constexpr int kColumns = kSums * COLS;
  __shared__ float sums[COMBINE_LANES][33];
  const int column = blockIdx.x * 32 + threadIdx.x % 32;
  const int lane = threadIdx.x / 32;
  float sum = 0;
  if (column < kColumns) {
#pragma unroll 8
    for (int group = lane; group < groups; group += COMBINE_LANES) {
      sum += partials[static_cast<long long>(group) * kColumns + column];
    }
  }
  sums[lane][threadIdx.x % 32] = sum;
  __syncthreads();
  if (lane != 0 || column >= kColumns) return;
#pragma unroll
  for (int other = 1; other < COMBINE_LANES; ++other) sum += sums[other][threadIdx.x % 32];
  Bits* gradient = column < COLS ? dweight : dbias;
  gradient[column % COLS] = BitsOf(sum);
}
