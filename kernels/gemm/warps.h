// SPDX-License-Identifier: Apache-2.0
// The path for sm_80 and later: mma.sync, ldmatrix and cp.async. A block has one tile; each warp
// owns WARP_M x WARP_N of it and keeps the sums in registers. Rows of any length: those that are
// not aligned to 16 bytes are copied element by element.
#pragma once

#include "mma.cuh"
#include "sums.h"

constexpr int kWarpsM = BLOCK_M / WARP_M;
constexpr int kWarpsN = BLOCK_N / WARP_N;
constexpr int kThreads = kWarpsM * kWarpsN * 32;
constexpr int kBlocksPerSm = CTAS;
constexpr int kStrips = WARP_M / 16;
constexpr int kChunk = 16 / kInputBytes;  // elements of 16 bytes

// A tile of an operand as memory has it: kRows rows of the contiguous axis, in chunks of 16 bytes.
template <bool kAcross, int kSize>
struct Operand {
  static constexpr int kRows = kAcross ? BLOCK_K : kSize;
  static constexpr int kChunks = (kAcross ? kSize : BLOCK_K) / kChunk;
  static constexpr int kBytes = kRows * kChunks * 16;

  // Byte offset of a chunk; swizzled, so that 8 rows of a column of chunks lie in different banks.
  __device__ static unsigned Offset(int row, int chunk) {
    const int swizzle = kChunks >= 8 ? row & 7 : kChunks >= 4 ? row >> 1 & 3 : row >> 2 & 1;
    return (row * kChunks + (chunk ^ swizzle)) * 16;
  }
};
using OperandA = Operand<TRANSPOSE_A, BLOCK_M>;
using OperandB = Operand<!TRANSPOSE_B, BLOCK_N>;
constexpr int kStageBytes = OperandA::kBytes + OperandB::kBytes;

// A matrix in memory: rows of `length` elements each.
struct Matrix {
  const Input* data;
  int rows;
  int length;
};

#ifdef DTYPE_E4M3
using Bits = unsigned char;
#else
using Bits = unsigned short;
#endif

// A chunk whose elements need not be aligned; zero past the end of the row.
__device__ __forceinline__ uint4 Gather(const Input* from, int left) {
  unsigned words[4] = {};
#pragma unroll
  for (int i = 0; i < kChunk; ++i) {
    const unsigned bits = i < left ? reinterpret_cast<const Bits*>(from)[i] : 0;
    words[i * kInputBytes / 4] |= bits << i * kInputBytes % 4 * 8;
  }
  return make_uint4(words[0], words[1], words[2], words[3]);
}

// Starts copying a tile to shared memory, from `first` of row `row`; zero outside of the matrix.
template <typename OperandOf, bool kAligned>
__device__ __forceinline__ void CopyTile(unsigned to, const Matrix& matrix, int row, int first) {
  constexpr int kTotal = OperandOf::kRows * OperandOf::kChunks;
#pragma unroll
  for (int i = 0; i < kTotal; i += kThreads) {
    const int index = i + threadIdx.x;
    if (kTotal % kThreads != 0 && index >= kTotal) break;
    const int y = row + index / OperandOf::kChunks;
    const int x = first + index % OperandOf::kChunks * kChunk;
    const unsigned at = to + OperandOf::Offset(index / OperandOf::kChunks,
                                               index % OperandOf::kChunks);
    const bool inside = y < matrix.rows && x < matrix.length;
    const Input* from = matrix.data + static_cast<long long>(y) * matrix.length + x;
    if (kAligned) {
      CopyChunk(at, inside ? from : matrix.data, inside);
    } else {
      const uint4 chunk = Gather(from, inside ? matrix.length - x : 0);
      asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(at), "r"(chunk.x),
                   "r"(chunk.y), "r"(chunk.z), "r"(chunk.w)
                   : "memory");
    }
  }
}

// 16 rows from `row` and two chunks of k from `k`, as the first operand.
__device__ __forceinline__ void LoadA(unsigned (&r)[4], unsigned tile, int row, int k) {
  const int lane = threadIdx.x % 32;
  const unsigned offset =
      TRANSPOSE_A ? OperandA::Offset(k + lane % 8 + lane / 16 * 8, row / 8 + lane / 8 % 2)
                  : OperandA::Offset(row + lane % 16, k / kChunk + lane / 16);
  TRANSPOSE_A ? LoadTransposed(r, tile + offset) : LoadMatrices(r, tile + offset);
}

// 16 columns from `column` and two chunks of k from `k`: two second operands of 8 columns.
__device__ __forceinline__ void LoadB(unsigned (&r)[4], unsigned tile, int column, int k) {
  const int lane = threadIdx.x % 32;
  const unsigned offset =
      TRANSPOSE_B ? OperandB::Offset(column + lane % 8 + lane / 16 * 8, k / kChunk + lane / 8 % 2)
                  : OperandB::Offset(k + lane % 16, column / 8 + lane / 16);
  TRANSPOSE_B ? LoadMatrices(r, tile + offset) : LoadTransposed(r, tile + offset);
}

#ifdef DTYPE_E4M3
#if __CUDA_ARCH__ >= 890
// d[0..3] += a (16 x 32) b (32 x 8). The tensor core's own sums have fewer bits than f32: without
// FAST_ACCUM they begin at zero each time.
__device__ __forceinline__ void MultiplyWarp(float* d, const unsigned* a, unsigned b0,
                                             unsigned b1) {
  float from[4] = {};
  float sums[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) from[i] = FAST_ACCUM ? d[i] : 0.0f;
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7},"
      " {%8, %9}, {%10, %11, %12, %13};"
      : "=f"(sums[0]), "=f"(sums[1]), "=f"(sums[2]), "=f"(sums[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "f"(from[0]), "f"(from[1]),
        "f"(from[2]), "f"(from[3]));
#pragma unroll
  for (int i = 0; i < 4; ++i) d[i] = FAST_ACCUM ? sums[i] : d[i] + sums[i];
}
#else
// Two of four e4m3 as f16: bytes `first` and `first` + 1 of the word.
__device__ __forceinline__ unsigned ToHalves(unsigned four, int first) {
  const unsigned high = __byte_perm(four, 0, first == 0 ? 0x1404 : 0x3424);
  const unsigned size = (high & 0x7f007f00u) >> 1;
  unsigned finite;  // the exponent of f16 has 8 more
  asm("mul.f16x2 %0, %1, %2;" : "=r"(finite) : "r"(size), "r"(0x5c005c00u));
  const unsigned is_nan = (size + 0x00800080u) >> 14 & 0x00010001u;
  return finite | is_nan * 0x7e00u | (high & 0x80008000u);
}

// d[0..3] += a (16 x 32) b (32 x 8), by f16. A lane has the same four of k of both operands, so the
// order in which they are multiplied does not matter.
__device__ __forceinline__ void MultiplyWarp(float* d, const unsigned* a, unsigned b0,
                                             unsigned b1) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const unsigned first = a[2 * half], second = a[2 * half + 1], b = half == 0 ? b0 : b1;
    const unsigned halves[4] = {ToHalves(first, 0), ToHalves(second, 0), ToHalves(first, 2),
                                ToHalves(second, 2)};
    WarpMma(d, halves, ToHalves(b, 0), ToHalves(b, 2));
  }
}
#endif
#else
__device__ __forceinline__ void MultiplyWarp(float* d, const unsigned* a, unsigned b0,
                                             unsigned b1) {
  WarpMma(d, a, b0, b1);
}
#endif

// sums += A B for one slot, for the warp at (row, column) of the tile.
__device__ __forceinline__ void SumSlot(unsigned a_tile, unsigned b_tile, int row, int column,
                                        float (&sums)[kStrips][WARP_N / 2]) {
#pragma unroll
  for (int k = 0; k < BLOCK_K; k += 2 * kChunk) {
    unsigned a[kStrips][4];
#pragma unroll
    for (int strip = 0; strip < kStrips; ++strip) LoadA(a[strip], a_tile, row + strip * 16, k);
#pragma unroll
    for (int n = 0; n < WARP_N; n += 16) {
      unsigned b[4];
      LoadB(b, b_tile, column + n, k);
#pragma unroll
      for (int strip = 0; strip < kStrips; ++strip) {
        MultiplyWarp(sums[strip] + n / 2, a[strip], b[0], b[1]);
        MultiplyWarp(sums[strip] + n / 2 + 4, a[strip], b[2], b[3]);
      }
    }
  }
}

__device__ __forceinline__ void MultiplyTile(const Problem& problem, const Input* a,
                                             const Input* b, const Output& output,
                                             const Tile& tile) {
  extern __shared__ __align__(128) unsigned char shared[];
  const unsigned base = SharedAddress(shared);
  const Matrix of_a = {a, TRANSPOSE_A ? problem.k : problem.m, TRANSPOSE_A ? problem.m : problem.k};
  const Matrix of_b = {b, TRANSPOSE_B ? problem.n : problem.k, TRANSPOSE_B ? problem.k : problem.n};
  const auto start_copy = [&](int step) {
    if (step < tile.end) {
      const unsigned slot = base + (step - tile.first) % STAGES * kStageBytes;
      const int k = step * BLOCK_K;
      CopyTile<OperandA, A_VECTOR>(slot, of_a, TRANSPOSE_A ? k : tile.row,
                                   TRANSPOSE_A ? tile.row : k);
      CopyTile<OperandB, B_VECTOR>(slot + OperandA::kBytes, of_b, TRANSPOSE_B ? tile.column : k,
                                   TRANSPOSE_B ? k : tile.column);
    }
    CopyCommit();
  };
  const int warp = threadIdx.x / 32;
  const int row = warp / kWarpsN * WARP_M;
  const int column = warp % kWarpsN * WARP_N;
  float sums[kStrips][WARP_N / 2] = {};
#pragma unroll
  for (int i = 0; i < STAGES - 1; ++i) start_copy(tile.first + i);
  for (int step = tile.first; step < tile.end; ++step) {
    CopyWait<STAGES - 2>();
    __syncthreads();
    start_copy(step + STAGES - 1);
    const unsigned slot = base + (step - tile.first) % STAGES * kStageBytes;
    SumSlot(slot, slot + OperandA::kBytes, row, column, sums);
  }
  CopyWait<0>();
#pragma unroll
  for (int strip = 0; strip < kStrips; ++strip) {
    StoreSums(problem, output, tile, tile.row + row + strip * 16 + threadIdx.x % 32 / 4,
              tile.column + column, sums[strip]);
  }
}

__device__ __forceinline__ void Multiply(const Problem& problem, const Input* a, const Input* b,
                                         const Output& output) {
#if STREAM_K > 0
  const Walk walk(problem, blockIdx.x, gridDim.x);
  for (int i = 0; i < walk.count; ++i) {
    MultiplyTile(problem, a, b, output, walk.At(problem, i));
    __syncthreads();  // Nobody reads the slots any more.
  }
#else
  MultiplyTile(problem, a, b, output, TileAt(problem, blockIdx.x, 0));
#endif
}
