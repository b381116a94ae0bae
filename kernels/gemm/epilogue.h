// SPDX-License-Identifier: Apache-2.0
// From sums to C: alpha, what is added, the activation, one rounding, and the stores.
#pragma once

#include "elements.h"
#include "tiles.h"

// The epilogues of the problem's dim of that name.
#define EPILOGUE_NONE 0
#define EPILOGUE_BIAS 1
#define EPILOGUE_BIAS_GELU 2
#define EPILOGUE_BIAS_SILU 3
#define EPILOGUE_RESIDUAL 4

constexpr bool kHasBias = EPILOGUE >= EPILOGUE_BIAS && EPILOGUE <= EPILOGUE_BIAS_SILU;
constexpr bool kHasResidual = EPILOGUE == EPILOGUE_RESIDUAL;
#ifdef DTYPE_E4M3
constexpr bool kHasScales = true;
#else
constexpr bool kHasScales = false;
#endif

// The places of the sums: C, or with SPLIT > 1 a partial sum of each split, [SPLIT, m, n]. With
// STREAM_K those of shared tiles are partial tiles, [2 gridDim.x, BLOCK_M, BLOCK_N].
struct Output {
  const Element* bias;      // [n]
  const Element* residual;  // [m, n]
  const float* a_scale;     // [m]: of rows of A
  const float* b_scale;     // [n]: of columns of op(B)
  Element* out;             // [m, n]
  float* partials;
  float alpha;
};

// x / (1 + e^-y).
__device__ __forceinline__ float TimesSigmoid(float x, float y) {
#ifdef TUNE_CPU
  return x / (1.0f + expf(-y));
#else
  return __fdividef(x, 1.0f + __expf(-y));
#endif
}

__device__ __forceinline__ float Activate(float x) {
#if EPILOGUE == EPILOGUE_BIAS_GELU
  // x (1 + tanh(u)) / 2 = x / (1 + e^-2u), with u = sqrt(2 / pi) (x + 0.044715 x^3).
  return TimesSigmoid(x, 1.59576912160573071f * (x + 0.044715f * x * x * x));
#elif EPILOGUE == EPILOGUE_BIAS_SILU
  return TimesSigmoid(x, x);
#else
  return x;
#endif
}

// The factors of the sums of a row, and of a column.
__device__ __forceinline__ float RowFactor(const Output& output, int row) {
  return kHasScales ? output.alpha * output.a_scale[row] : output.alpha;
}
__device__ __forceinline__ float ColumnFactor(const Output& output, int column) {
  return kHasScales ? output.b_scale[column] : 1.0f;
}

// From the sum of an element of C to its value. `add` is what the residual has there, else 0.
__device__ __forceinline__ float ResultOf(const Output& output, int row, int column, float sum,
                                          float add) {
  float x = RowFactor(output, row) * ColumnFactor(output, column) * sum + add;
  if (kHasBias) x += static_cast<float>(output.bias[column]);
  return Activate(x);
}

// Stores an element of C.
__device__ __forceinline__ void StoreOne(const Problem& problem, const Output& output, int part,
                                         int row, int column, float sum) {
  const long long at = static_cast<long long>(row) * problem.n + column;
#if SPLIT > 1
  output.partials[static_cast<long long>(part) * problem.m * problem.n + at] = sum;
#else
  const float add = kHasResidual ? static_cast<float>(output.residual[at]) : 0.0f;
  output.out[at] = static_cast<Element>(ResultOf(output, row, column, sum, add));
#endif
}

#if SPLIT > 1 || STREAM_K > 0 || CLUSTER_K > 1  // Blocks share tiles.
// Neighbouring elements of a row that are read and written at once, and their sums.
constexpr int kTogether = C_VECTOR ? 4 : 1;
struct alignas(2 * kTogether) Elements {
  Element at[kTogether];
};
struct alignas(4 * kTogether) Sums {
  float at[kTogether];
};

// Elements of C from their whole sums.
__device__ __forceinline__ void StoreTogether(const Problem& problem, const Output& output, int row,
                                              int column, const Sums& sums) {
  const long long at = static_cast<long long>(row) * problem.n + column;
  Elements residual = {};
  if (kHasResidual) residual = *reinterpret_cast<const Elements*>(output.residual + at);
  Elements results;
#pragma unroll
  for (int e = 0; e < kTogether; ++e) {
    const float add = kHasResidual ? static_cast<float>(residual.at[e]) : 0.0f;
    results.at[e] = static_cast<Element>(ResultOf(output, row, column + e, sums.at[e], add));
  }
  *reinterpret_cast<Elements*>(output.out + at) = results;
}
#endif
