// SPDX-License-Identifier: Apache-2.0
// The path for sm_80 and later: mma.sync, ldmatrix and cp.async. Each warp owns WARP_ROWS of the
// held rows and keeps their scores and gradients in registers. Scores have held rows down and
// streamed rows across, so that the weights are at once the operand of the next product.
#pragma once

#include "dq_sums.h"
#include "mma.cuh"

constexpr int kWarps = BLOCK_N / WARP_ROWS;
constexpr int kThreads = kWarps * 32;
constexpr int kBlocksPerSm = CTAS;
constexpr int kStrips = WARP_ROWS / 16;  // of 16 rows each
constexpr int kScores = BLOCK_M / 2;     // registers a thread and strip
constexpr int kSums = kOwnColumns / 2;
constexpr int kHeldBytes = BLOCK_N * HEAD_DIM * 2;
constexpr int kStreamBytes = BLOCK_M * HEAD_DIM * 2;
constexpr int kFactBytes = (BLOCK_M > kFactRows ? BLOCK_M : kFactRows) * 8;
constexpr int kStageBytes = 2 * kStreamBytes + kFactBytes;

// dQ of a streamed tile in pieces of 16 rows and some columns, a warp each.
constexpr int kQueryStrips = BLOCK_M / 16;
constexpr int kWarpsEach = kWarps > kQueryStrips ? kWarps / kQueryStrips : 1;
constexpr int kColumnParts = kOwnColumns / kWarpsEach % 16 == 0 ? kWarpsEach : kWarpsEach / 2;
constexpr int kPieceColumns = kOwnColumns / kColumnParts;

// Byte offset of a 16-byte chunk in a tile of rows of kChunks; swizzled, so that 8 rows of one
// column of chunks lie in different banks.
template <int kChunks>
__device__ __forceinline__ unsigned ChunkOffset(int row, int chunk) {
  static_assert(kChunks >= 4, "two rows fill the banks, or one");
  const int swizzle = kChunks % 8 == 0 ? row % 8 : row / 2 % 4;
  return (row * kChunks + (chunk ^ swizzle)) * 16;
}
constexpr int kHeadChunks = HEAD_DIM / 8;
constexpr int kSlopeChunks = BLOCK_M / 8;

// Starts copying kCount rows of a head to shared memory; rows at `end` and beyond become zero.
template <int kCount>
__device__ __forceinline__ void CopyRows(unsigned to, const Element* head, long long stride,
                                         int first, int end) {
  constexpr int kStep = kThreads / kHeadChunks;  // rows that the block copies at a time
  constexpr bool kIsEven = kThreads % kHeadChunks == 0 && kCount % kStep == 0;
  const int row = threadIdx.x / kHeadChunks;
  const int chunk = threadIdx.x % kHeadChunks;
  const Element* from = head + (first + row) * stride + chunk * 8;
#pragma unroll
  for (int i = 0; i < kCount; i += kStep) {
    if (!kIsEven && (row >= kStep || row + i >= kCount)) break;
    const bool inside = first + row + i < end;
    CopyChunk(to + ChunkOffset<kHeadChunks>(row + i, chunk), inside ? from + i * stride : head,
              inside);
  }
}

// Starts copying the facts of a streamed tile, the first of which are at `from`.
__device__ __forceinline__ void CopyFacts(unsigned to, const float* from) {
  constexpr int kEach = (BLOCK_M < kFactRows ? BLOCK_M : kFactRows) / 4;  // vectors of a kind
  const int i = threadIdx.x;
  if (i >= BLOCK_M / 2) return;
  const int at = i / (2 * kEach) * kFactFloats + i / kEach % 2 * kFactRows + i % kEach * 4;
  CopyChunk(to + at * 4, from + at, true);
}

// s = the warp's held rows by the streamed rows, summed over the head.
__device__ __forceinline__ void Scores(float (&s)[kStrips][kScores], unsigned held,
                                       unsigned streamed) {
#pragma unroll
  for (int i = 0; i < kStrips * kScores; ++i) s[i % kStrips][i / kStrips] = 0.0f;
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int d = 0; d < HEAD_DIM; d += 16) {
    unsigned a[kStrips][4];
#pragma unroll
    for (int strip = 0; strip < kStrips; ++strip) {
      const int row = threadIdx.x / 32 * WARP_ROWS + strip * 16 + lane % 16;
      LoadMatrices(a[strip], held + ChunkOffset<kHeadChunks>(row, d / 8 + lane / 16));
    }
#pragma unroll
    for (int m = 0; m < BLOCK_M; m += 16) {
      unsigned b[4];
      const int row = m + lane % 8 + lane / 16 * 8;
      LoadMatrices(b, streamed + ChunkOffset<kHeadChunks>(row, d / 8 + lane / 8 % 2));
#pragma unroll
      for (int strip = 0; strip < kStrips; ++strip) {
        WarpMma(s[strip] + m / 2, a[strip], b[0], b[1]);
        WarpMma(s[strip] + m / 2 + 4, a[strip], b[2], b[3]);
      }
    }
  }
}

// sums += p by the streamed rows, summed over these. The sums are of the columns from `column`.
__device__ __forceinline__ void AddRows(float (&sums)[kStrips][kSums],
                                        const unsigned (&p)[kStrips][kScores / 2],
                                        unsigned streamed, int column) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int m = 0; m < BLOCK_M; m += 16) {
#pragma unroll
    for (int d = 0; d < kOwnColumns; d += 16) {
      unsigned b[4];
      LoadTransposed(
          b, streamed + ChunkOffset<kHeadChunks>(m + lane % 16, (column + d) / 8 + lane / 16));
#pragma unroll
      for (int strip = 0; strip < kStrips; ++strip) {
        WarpMma(sums[strip] + d / 2, p[strip] + m / 4, b[0], b[1]);
        WarpMma(sums[strip] + d / 2 + 4, p[strip] + m / 4, b[2], b[3]);
      }
    }
  }
}

// Leaves the warp's part of dS where all warps read it: a row for each key, a column for each
// query.
__device__ __forceinline__ void ShareSlopes(const unsigned (&ds)[kStrips][kScores / 2],
                                            unsigned slopes) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int strip = 0; strip < kStrips; ++strip) {
    const int row = threadIdx.x / 32 * WARP_ROWS + strip * 16 + lane / 4;
#pragma unroll
    for (int i = 0; i < kScores / 2; ++i) {
      StoreWord(slopes + ChunkOffset<kSlopeChunks>(row + i % 2 * 8, i / 2) + lane % 4 * 4,
                ds[strip][i]);
    }
  }
}

// Adds dS K of a streamed tile to the sums of dQ.
__device__ __forceinline__ void AddQueries(const Problem& problem, int head, int first,
                                           unsigned slopes, unsigned keys, int first_column,
                                           float* dq_sums) {
  const int lane = threadIdx.x % 32;
  for (int piece = threadIdx.x / 32; piece < kQueryStrips * kColumnParts; piece += kWarps) {
    const int row = piece % kQueryStrips * 16;
    const int column = first_column + piece / kQueryStrips * kPieceColumns;
    float dq[kPieceColumns / 2];
#pragma unroll
    for (int i = 0; i < kPieceColumns / 2; ++i) dq[i] = 0.0f;
#pragma unroll
    for (int n = 0; n < BLOCK_N; n += 16) {
      unsigned a[4];
      LoadTransposed(a, slopes + ChunkOffset<kSlopeChunks>(n + lane % 8 + lane / 16 * 8,
                                                           row / 8 + lane / 8 % 2));
#pragma unroll
      for (int d = 0; d < kPieceColumns; d += 16) {
        unsigned b[4];
        LoadTransposed(
            b, keys + ChunkOffset<kHeadChunks>(n + lane % 16, (column + d) / 8 + lane / 16));
        WarpMma(dq + d / 2, a, b[0], b[1]);
        WarpMma(dq + d / 2 + 4, a, b[2], b[3]);
      }
    }
    float* to = dq_sums + FragmentIndex(problem, head, first + row, column);
#pragma unroll
    for (int i = 0; i < kPieceColumns / 8; ++i) AddFragment(to + i * kFragment, dq + i * 4);
  }
}

// A warp's part of the rows that the block holds.
struct WarpTile {
  float slopes[kStrips][kSums];   // by the scores' slopes: dK or dQ
  float weights[kStrips][kSums];  // by the weights: dV
  RowFacts facts[kStrips];        // of held rows of Q
  int row;                        // this lane's first
  int column;                     // the first of the block's
};

// Scores, weights and slopes of a streamed tile, and what they add to the held rows' gradients.
template <bool kKeys>
__device__ __forceinline__ void AddTile(const Problem& problem, int first, unsigned held,
                                        unsigned streamed, const float* facts, WarpTile& tile,
                                        unsigned (&ds)[kStrips][kScores / 2]) {
  float p[kStrips][kScores], t[kStrips][kScores];
  const Scale scale = ScaleOf(problem);
  Scores(p, held, streamed);
#pragma unroll
  for (int strip = 0; strip < kStrips; ++strip) {
    const int row = tile.row + strip * 16;
    if (SOFTCAP) Cap(p[strip], scale);
    MaskTile<kKeys, 16>(problem, row - threadIdx.x % 32 / 4, first, p[strip]);
    Weigh<kKeys>(p[strip], scale.log2, facts, tile.facts[strip], ds[strip]);
  }
  if (kKeys) AddRows(tile.weights, ds, streamed + kStreamBytes, tile.column);
  Scores(t, held + kHeldBytes, streamed + kStreamBytes);
#pragma unroll
  for (int strip = 0; strip < kStrips; ++strip) {
    Slope<kKeys>(t[strip], p[strip], facts, tile.facts[strip]);
    PackAll(t[strip], ds[strip]);
  }
  AddRows(tile.slopes, ds, streamed, tile.column);
}

template <bool kKeys>
__device__ __forceinline__ void Walk(Problem problem, const View<const Element> (&held)[2],
                                     const View<const Element> (&streamed)[2], const float* facts,
                                     Gradients gradients, float* dq_sums) {
  extern __shared__ __align__(128) unsigned char shared[];
  const unsigned held_at = SharedAddress(shared);
  const unsigned stages = held_at + 2 * kHeldBytes;
  const unsigned slopes = stages + STAGES * kStageBytes;
  const Held at = HeldBy<kKeys>(problem, blockIdx.x);
  if (PACKED && at.row >= problem.keys) return;
  const Stream<kKeys> stream(problem, at);
  const Sides<kKeys> sides(problem);

  WarpTile tile;
  tile.column = at.column;
  tile.row = at.row + threadIdx.x / 32 * WARP_ROWS + threadIdx.x % 32 / 4;
#pragma unroll
  for (int strip = 0; strip < kStrips; ++strip) {
#pragma unroll
    for (int i = 0; i < kSums; ++i) tile.slopes[strip][i] = tile.weights[strip][i] = 0.0f;
    if (!kKeys) LoadFacts(problem, at.head, tile.row + strip * 16, facts, tile.facts[strip]);
  }

  const auto load = [&](int i) {
    if (i < stream.count) {
      const unsigned to = stages + i % STAGES * kStageBytes;
      const int head = stream.Head(i), row = stream.Row(i);
      for (int matrix = 0; matrix < 2; ++matrix) {
        const View<const Element>& from = streamed[matrix];
        CopyRows<BLOCK_M>(to + matrix * kStreamBytes,
                          from.Row(sides.streamed_heads, head, problem.start), from.strides.row,
                          row, sides.streamed_rows);
      }
      if (kKeys) CopyFacts(to + 2 * kStreamBytes, facts + FactIndex(problem, head, row));
    }
    CopyCommit();
  };
  for (int matrix = 0; matrix < 2; ++matrix) {
    const View<const Element>& from = held[matrix];
    CopyRows<BLOCK_N>(held_at + matrix * kHeldBytes,
                      from.Row(sides.held_heads, at.head, problem.start), from.strides.row, at.row,
                      sides.held_rows);
  }
  for (int i = 0; i < STAGES - 1; ++i) load(i);
  for (int i = 0; i < stream.count; ++i) {
    if (STAGES == 1) {
      __syncthreads();
      load(i);
    }
    CopyWait<STAGES == 1 ? 0 : STAGES - 2>();
    __syncthreads();
    if (STAGES > 1) load(i + STAGES - 1);
    const int stage = i % STAGES * kStageBytes;
    unsigned ds[kStrips][kScores / 2];
    AddTile<kKeys>(
        problem, stream.Row(i), held_at, stages + stage,
        reinterpret_cast<const float*>(shared + 2 * kHeldBytes + stage + 2 * kStreamBytes), tile,
        ds);
    if (kKeys && !DQ_PASS) {
      ShareSlopes(ds, slopes);
      __syncthreads();
      AddQueries(problem, stream.Head(i), stream.Row(i), slopes, held_at, at.column, dq_sums);
    }
  }
  CopyWait<0>();
  gradients.slopes.data += at.column;
  gradients.weights.data += at.column;
  gradients.parts += at.column;
#pragma unroll
  for (int strip = 0; strip < kStrips; ++strip) {
    const int row = tile.row + strip * 16;
    StoreHeld<kKeys>(problem, at, row, tile.slopes[strip], tile.weights[strip], gradients);
  }
}
