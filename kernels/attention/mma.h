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
// different banks.
__device__ __forceinline__ unsigned ChunkOffset(int row, int chunk) {
  return (row * kChunks + (chunk ^ (row & 7))) * 16;
}

// Starts copying kCount rows of a head to shared memory; rows at `seq` and beyond become zero.
template <int kCount>
__device__ __forceinline__ void CopyRows(unsigned to, const Element* head, int first, int seq) {
  constexpr int kStep = kThreads / kChunks;  // rows that the block copies at a time
  static_assert(kThreads % kChunks == 0 && kCount % kStep == 0, "whole rows, evenly");
  const int row = threadIdx.x / kChunks;
  const int chunk = threadIdx.x % kChunks;
  const Element* from = head + static_cast<long long>(first + row) * HEAD_DIM + chunk * 8;
#pragma unroll
  for (int i = 0; i < kCount; i += kStep) {
    const bool inside = first + row + i < seq;
    CopyChunk(to + ChunkOffset(row + i, chunk), inside ? from + i * HEAD_DIM : head, inside);
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
__device__ __forceinline__ void WeighBlock(const Problem& problem, int j, float scale_log2,
                                           float (&s)[kStrips][kScores], WarpTile& tile) {
#pragma unroll
  for (int strip = 0; strip < kStrips; ++strip) {
    const int row = tile.row + strip * 16;
    const int visible[2] = {KeyEnd(problem, row) - j * BLOCK_N,
                            KeyEnd(problem, row + 8) - j * BLOCK_N};
    const int first_end = KeyEnd(problem, tile.row - threadIdx.x % 32 / 4);
    if ((j + 1) * BLOCK_N > first_end) Mask(s[strip], visible);
    float alpha[2];
    Weigh(s[strip], tile.state[strip], scale_log2, alpha);
    Rescale(tile.o[strip], alpha);
    PackAll(s[strip], tile.p[strip]);
  }
}

__device__ __forceinline__ void Attend(const Problem& problem, const Element* q, const Element* k,
                                       const Element* v, Element* out, float* lse) {
  extern __shared__ __align__(128) unsigned char shared[];
  const unsigned queries = SharedAddress(shared);
  const unsigned keys = queries + kQueryBytes;
  const unsigned values = keys + STAGES * kBlockBytes;
  const Tile at = TileAt(problem, blockIdx.x);
  const long long head_size = static_cast<long long>(problem.seq) * HEAD_DIM;
  k += at.kv_head * head_size;
  v += at.kv_head * head_size;
  const int seq = problem.seq;
  const int blocks = KvBlocks(problem, at.row, BLOCK_M);
  const float scale_log2 = problem.scale * kLog2E;

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
  CopyRows<BLOCK_M>(queries, q + at.head * head_size, at.row, seq);
  // STAGES blocks of K and V are in flight at most; the copy of V may lag behind its K, so that
  // with one stage V arrives during the scores and the next K during the outputs.
  for (int j = 0; j < STAGES - 1; ++j) {
    CopyRows<BLOCK_N>(keys + j * kBlockBytes, k, j * BLOCK_N, seq);
    CopyRows<BLOCK_N>(values + j * kBlockBytes, v, j * BLOCK_N, seq);
    CopyCommit();
  }
  if (STAGES == 1) {
    CopyRows<BLOCK_N>(keys, k, 0, seq);
    CopyCommit();
  }
  for (int j = 0; j < blocks; ++j) {
    const int slot = j % STAGES * kBlockBytes;
    CopyWait<STAGES == 1 ? 0 : STAGES - 2>();
    __syncthreads();
    if (j == 0) query.Hold();
    const int next = (j + STAGES - 1) % STAGES * kBlockBytes;
    const int next_row = (j + STAGES - 1) * BLOCK_N;
    if (STAGES > 1 && next_row < seq) CopyRows<BLOCK_N>(keys + next, k, next_row, seq);
    if (next_row < seq) CopyRows<BLOCK_N>(values + next, v, next_row, seq);
    CopyCommit();
    float s[kStrips][kScores];
    Scores(s, query, keys + slot);
    WeighBlock(problem, j, scale_log2, s, tile);
    if (STAGES == 1) {
      CopyWait<0>();
      __syncthreads();
      CopyRows<BLOCK_N>(keys, k, (j + 1) * BLOCK_N, seq);
      CopyCommit();
    }
    AddOutputs(tile.o, tile.p, values + slot);
  }
  CopyWait<0>();
#pragma unroll
  for (int strip = 0; strip < kStrips; ++strip) {
    Store(problem, at.head, tile.row + strip * 16, scale_log2, tile.state[strip], tile.o[strip],
          out, lse);
  }
}
