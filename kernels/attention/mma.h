// SPDX-License-Identifier: Apache-2.0
// The path for sm_80 and later: mma.sync, ldmatrix and cp.async. Each warp owns WARP_ROWS rows of
// Q and keeps scores, weights and O in registers; K and V go forwards.
#pragma once

#include "mma.cuh"
#include "softmax.h"

constexpr int kThreads = BLOCK_M / WARP_ROWS * 32;
constexpr int kBlocksPerSm = CTAS;
constexpr int kStrips = WARP_ROWS / 16;  // of 16 rows each
constexpr int kChunks = HEAD_DIM / 8;    // of 16 bytes in a row
constexpr int kScores = BLOCK_N / 2;     // registers a thread and strip
constexpr int kOutputs = HEAD_DIM / 2;
constexpr int kQueryBytes = BLOCK_M * HEAD_DIM * 2;
constexpr int kBlockBytes = BLOCK_N * HEAD_DIM * 2;

// Byte offset of a 16-byte chunk in a tile; swizzled, so that 8 rows of one column of chunks lie in
// different banks. Rows of a multiple of 128 bytes begin in the same bank, others in one of two.
__device__ __forceinline__ unsigned ChunkOffset(int row, int chunk) {
  const int swizzle = kChunks % 8 == 0 ? row & 7 : row >> 1 & 3;
  return (row * kChunks + (chunk ^ swizzle)) * 16;
}

// Rows of one head in device memory; those at `end` and beyond become zero in shared memory.
struct Source {
  const Element* head;
  long long stride;
  int end;
};

// Starts copying kCount rows to shared memory.
template <int kCount>
__device__ __forceinline__ void CopyRows(unsigned to, const Source& source, int first) {
  constexpr int kStep = kThreads / kChunks;  // rows that the block copies at a time
  constexpr bool kIsEven = kThreads % kChunks == 0 && kCount % kStep == 0;
  const int row = threadIdx.x / kChunks;
  const int chunk = threadIdx.x % kChunks;
  const Element* from = source.head + (first + row) * source.stride + chunk * 8;
#pragma unroll
  for (int i = 0; i < kCount; i += kStep) {
    if (!kIsEven && (row >= kStep || row + i >= kCount)) break;
    const bool inside = first + row + i < source.end;
    CopyChunk(to + ChunkOffset(row + i, chunk), inside ? from + i * source.stride : source.head,
              inside);
  }
}

// Q of one warp: kept in registers (QUERY_IN_REGISTERS) or read again for each block of K.
struct Query {
  unsigned base;
#if QUERY_IN_REGISTERS
  unsigned held[kStrips][HEAD_DIM / 16][4];
#endif

  __device__ __forceinline__ unsigned Address(int strip, int d) const {
    const int row = threadIdx.x / 32 * WARP_ROWS + strip * 16 + threadIdx.x % 16;
    return base + ChunkOffset(row, d / 8 + threadIdx.x % 32 / 16);
  }
  __device__ __forceinline__ void Hold() {
#if QUERY_IN_REGISTERS
#pragma unroll
    for (int i = 0; i < kStrips * HEAD_DIM / 16; ++i) {
      LoadMatrices(held[i % kStrips][i / kStrips], Address(i % kStrips, i / kStrips * 16));
    }
#endif
  }
  __device__ __forceinline__ void Get(int strip, int d, unsigned (&a)[4]) const {
#if QUERY_IN_REGISTERS
#pragma unroll
    for (int i = 0; i < 4; ++i) a[i] = held[strip][d / 16][i];
#else
    LoadMatrices(a, Address(strip, d));
#endif
  }
};

// s = Q K^T.
__device__ __forceinline__ void Scores(float (&s)[kStrips][kScores], const Query& query,
                                       unsigned keys) {
#pragma unroll
  for (int i = 0; i < kStrips * kScores; ++i) s[i % kStrips][i / kStrips] = 0.0f;
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int d = 0; d < HEAD_DIM; d += 16) {
    unsigned a[kStrips][4];
#pragma unroll
    for (int strip = 0; strip < kStrips; ++strip) query.Get(strip, d, a[strip]);
#pragma unroll
    for (int n = 0; n < BLOCK_N; n += 16) {
      unsigned b[4];
      const int row = n + lane % 8 + lane / 16 * 8;
      LoadMatrices(b, keys + ChunkOffset(row, d / 8 + lane / 8 % 2));
#pragma unroll
      for (int strip = 0; strip < kStrips; ++strip) {
        WarpMma(s[strip] + n / 2, a[strip], b[0], b[1]);
        WarpMma(s[strip] + n / 2 + 4, a[strip], b[2], b[3]);
      }
    }
  }
}

// o += P V.
__device__ __forceinline__ void AddOutputs(float (&o)[kStrips][kOutputs],
                                           const unsigned (&p)[kStrips][kScores / 2],
                                           unsigned values) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int n = 0; n < BLOCK_N; n += 16) {
#pragma unroll
    for (int d = 0; d < HEAD_DIM; d += 16) {
      unsigned b[4];
      LoadTransposed(b, values + ChunkOffset(n + lane % 16, d / 8 + lane / 16));
#pragma unroll
      for (int strip = 0; strip < kStrips; ++strip) {
        WarpMma(o[strip] + d / 2, p[strip] + n / 4, b[0], b[1]);
        WarpMma(o[strip] + d / 2 + 4, p[strip] + n / 4, b[2], b[3]);
      }
    }
  }
}

// A warp's part of a tile.
struct WarpTile {
  float o[kStrips][kOutputs];
  unsigned p[kStrips][kScores / 2];
  RowState state[kStrips];
  int row;  // this lane's first
};

// The softmax of block j: from scores to P, with O rescaled.
__device__ __forceinline__ void WeighBlock(const Problem& problem, const Tile& at, int j,
                                           const Scale& scale, float (&s)[kStrips][kScores],
                                           WarpTile& tile) {
#pragma unroll
  for (int strip = 0; strip < kStrips; ++strip) {
    const Rows rows =
        RowsAt(problem, at, tile.row + strip * 16, tile.row - threadIdx.x % 32 / 4, WARP_ROWS);
    float alpha[2];
    if (SOFTCAP) Cap(s[strip], scale);
    MaskBlock(s[strip], j, rows);
    Weigh(s[strip], tile.state[strip], scale.log2, alpha);
    Rescale(tile.o[strip], alpha);
    PackAll(s[strip], tile.p[strip]);
  }
}

__device__ __forceinline__ void Attend(const Problem& problem, const View<const Element>& q,
                                       const View<const Element>& k, const View<const Element>& v,
                                       const Results& results) {
  extern __shared__ __align__(128) unsigned char shared[];
  const unsigned queries = SharedAddress(shared);
  const unsigned keys = queries + kQueryBytes;
  const unsigned values = keys + STAGES * kBlockBytes;
  const Tile at = TileAt(problem, blockIdx.x);
  if (PACKED && at.row >= at.seq) return;
  const Source from_q = {q.Head(at.batch, at.head, at.start), q.strides.row, at.seq};
  const Source from_k = {k.Head(at.batch, at.kv_head, at.start), k.strides.row, at.keys};
  const Source from_v = {v.Head(at.batch, at.kv_head, at.start), v.strides.row, at.keys};
  const Blocks blocks = BlocksOf(problem, at, at.row, BLOCK_M);
  const int first_key = blocks.first * BLOCK_N;
  const Scale scale = ScaleOf(problem);

  WarpTile tile;
  tile.row = at.row + threadIdx.x / 32 * WARP_ROWS + threadIdx.x % 32 / 4;
#pragma unroll
  for (int strip = 0; strip < kStrips; ++strip) {
    Reset(tile.state[strip]);
#pragma unroll
    for (int i = 0; i < kOutputs; ++i) tile.o[strip][i] = 0.0f;
  }
  Query query;
  query.base = queries;
  CopyRows<BLOCK_M>(queries, from_q, at.row);
  // STAGES blocks of K and V are in flight at most; the copy of V may lag behind its K, so that
  // with one stage V arrives during the scores and the next K during the outputs.
  for (int j = 0; j < STAGES - 1; ++j) {
    CopyRows<BLOCK_N>(keys + j * kBlockBytes, from_k, first_key + j * BLOCK_N);
    CopyRows<BLOCK_N>(values + j * kBlockBytes, from_v, first_key + j * BLOCK_N);
    CopyCommit();
  }
  if (STAGES == 1) {
    CopyRows<BLOCK_N>(keys, from_k, first_key);
    CopyCommit();
  }
  for (int i = 0; i < blocks.end - blocks.first; ++i) {
    const int slot = i % STAGES * kBlockBytes;
    CopyWait<STAGES == 1 ? 0 : STAGES - 2>();
    __syncthreads();
    if (i == 0) query.Hold();
    const int next = (i + STAGES - 1) % STAGES * kBlockBytes;
    const int next_row = first_key + (i + STAGES - 1) * BLOCK_N;
    if (STAGES > 1 && next_row < at.keys) CopyRows<BLOCK_N>(keys + next, from_k, next_row);
    if (next_row < at.keys) CopyRows<BLOCK_N>(values + next, from_v, next_row);
    CopyCommit();
    float s[kStrips][kScores];
    Scores(s, query, keys + slot);
    WeighBlock(problem, at, blocks.first + i, scale, s, tile);
    if (STAGES == 1) {
      CopyWait<0>();
      __syncthreads();
      CopyRows<BLOCK_N>(keys, from_k, first_key + (i + 1) * BLOCK_N);
      CopyCommit();
    }
    AddOutputs(tile.o, tile.p, values + slot);
  }
  CopyWait<0>();
#pragma unroll
  for (int strip = 0; strip < kStrips; ++strip) {
    Store(problem, at, tile.row + strip * 16, scale.log2, tile.state[strip], tile.o[strip],
          results);
  }
}
