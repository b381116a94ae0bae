// SPDX-License-Identifier: Apache-2.0
// The path of tensor cores, for sm_80 and later: the rows of a group are the rows of mma.sync. Each
// warp has pieces of KEYS keys of its own, brought by cp.async through its own ring of STAGES
// slots; no two warps wait for each other before the end.
#pragma once

#include "cache.h"
#include "mma.cuh"
#include "quad.cuh"

constexpr int kThreads = WARPS * 32;
constexpr int kBlocksPerSm = CTAS;
constexpr int kStrips = (ROWS + 15) / 16;
constexpr int kChunks = HEAD_DIM / 8;  // of 16 bytes in a row
constexpr int kScores = KEYS / 2;      // registers a thread and strip
constexpr int kOutputs = HEAD_DIM / 2;
constexpr int kPieceBytes = KEYS * HEAD_DIM * 2;  // of keys, or of values
constexpr int kSlotBytes = 2 * kPieceBytes;

// Byte offset of a 16-byte chunk in a piece; swizzled, so that 8 rows of one column of chunks lie
// in different banks.
__device__ __forceinline__ unsigned ChunkOffset(int row, int chunk) {
  return (row * kChunks + (chunk ^ (row & 7))) * 16;
}

// A lane's part of 16 rows: it sees lane / 4 and lane / 4 + 8.
struct Strip {
  unsigned q[HEAD_DIM / 16][4];
  float o[kOutputs];
  float max[2];
  float sum[2];  // this lane's share
};

__device__ __forceinline__ void Begin(const Problem& problem, const Task& task, int first_row,
                                      Strip& strip) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int i = 0; i < HEAD_DIM / 4; ++i) {
    const int row = first_row + lane / 4 + i % 2 * 8;
    const int d = i / 4 * 16 + i / 2 % 2 * 8 + lane % 4 * 2;
    const Element* from = RowOf(problem.q, task, row) + d;
    strip.q[i / 4][i % 4] = row < ROWS ? *reinterpret_cast<const unsigned*>(from) : 0;
  }
#pragma unroll
  for (int i = 0; i < kOutputs; ++i) strip.o[i] = 0.0f;
  strip.max[0] = strip.max[1] = kNone;
  strip.sum[0] = strip.sum[1] = 0.0f;
}

// Starts copying a piece to a slot; keys past the end, for which its page has room, become zero. A
// lane has every kStep-th key.
__device__ __forceinline__ void CopyPiece(const Problem& problem, const Task& task, unsigned slot,
                                          int page, int first) {
  constexpr int kStep = 32 / kChunks;
  const int chunk = threadIdx.x % kChunks;
  const int first_row = threadIdx.x % 32 / kChunks;
  const int cache_row = CacheRowOf(problem, page);
  const Element* keys = KeyOf(problem.k, task, cache_row, page, first + first_row) + chunk * 8;
  const Element* values = KeyOf(problem.v, task, cache_row, page, first + first_row) + chunk * 8;
#pragma unroll
  for (int i = 0; i < KEYS / kStep; ++i) {
    const int row = i * kStep + first_row;
    const bool inside = first + row < task.length;
    CopyChunk(slot + ChunkOffset(row, chunk), keys, inside);
    CopyChunk(slot + kPieceBytes + ChunkOffset(row, chunk), values, inside);
    keys += kStep * problem.k.key_stride;
    values += kStep * problem.v.key_stride;
  }
}

// s = Q K^T for one strip.
__device__ __forceinline__ void Scores(const Strip& strip, unsigned keys, float (&s)[kScores]) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int i = 0; i < kScores; ++i) s[i] = 0.0f;
#pragma unroll
  for (int n = 0; n < KEYS; n += 16) {
#pragma unroll
    for (int d = 0; d < HEAD_DIM; d += 16) {
      unsigned b[4];
      LoadMatrices(b, keys + ChunkOffset(n + lane % 8 + lane / 16 * 8, d / 8 + lane / 8 % 2));
      WarpMma(s + n / 2, strip.q[d / 16], b[0], b[1]);
      WarpMma(s + n / 2 + 4, strip.q[d / 16], b[2], b[3]);
    }
  }
}

// From scores to weights, relative to the largest so far; the outputs follow it. A row's `visible`
// counts keys from the piece's first.
__device__ __forceinline__ void Weigh(Strip& strip, float scale_log2, const int (&visible)[2],
                                      float (&s)[kScores]) {
  const int column = threadIdx.x % 4 * 2;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    float max = strip.max[r];
#pragma unroll
    for (int i = 0; i < kScores; ++i) {
      if (i / 2 % 2 != r) continue;
      s[i] = column + i / 4 * 8 + i % 2 < visible[r] ? s[i] * scale_log2 : kNone;
      max = fmaxf(max, s[i]);
    }
    max = QuadMax(max);
    const float alpha = Exp2(strip.max[r] - max);
    strip.max[r] = max;
    strip.sum[r] *= alpha;
#pragma unroll
    for (int i = 0; i < kOutputs; ++i) {
      if (i / 2 % 2 == r) strip.o[i] *= alpha;
    }
#pragma unroll
    for (int i = 0; i < kScores; ++i) {
      if (i / 2 % 2 != r) continue;
      s[i] = s[i] == kNone ? 0.0f : Exp2(s[i] - max);
      strip.sum[r] += s[i];
    }
  }
}

// o += P V for one strip.
__device__ __forceinline__ void AddValues(Strip& strip, unsigned values,
                                          const float (&s)[kScores]) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int n = 0; n < KEYS; n += 16) {
    unsigned p[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) p[i] = Pack(s[n / 2 + 2 * i], s[n / 2 + 2 * i + 1]);
#pragma unroll
    for (int d = 0; d < HEAD_DIM; d += 16) {
      unsigned b[4];
      LoadTransposed(b, values + ChunkOffset(n + lane % 16, d / 8 + lane / 16));
      WarpMma(strip.o + d / 2, p, b[0], b[1]);
      WarpMma(strip.o + d / 2 + 4, p, b[2], b[3]);
    }
  }
}

// A lane's rows of a strip, for the merge of the block.
__device__ __forceinline__ void WritePart(Part& part, int first_row, Strip& strip) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int row = first_row + lane / 4 + r * 8;
    const float sum = QuadSum(strip.sum[r]);
    if (row >= ROWS) continue;
    if (lane % 4 == 0) part.max[row] = strip.max[r];
    if (lane % 4 == 0) part.sum[row] = sum;
#pragma unroll
    for (int i = 0; i < kOutputs; ++i) {
      if (i / 2 % 2 == r) part.o[row][i / 4 * 8 + lane % 4 * 2 + i % 2] = strip.o[i];
    }
  }
}

__device__ __forceinline__ void Decode(const Problem& problem, const Output& output) {
  extern __shared__ __align__(128) unsigned char shared[];
  const int warp = threadIdx.x / 32;
  const unsigned ring =
      SharedAddress(shared) + warp * STAGES * kSlotBytes;
  // A full sequence's page is on its way while the length is: most are nearly full.
  const Task full = FullTaskOfBlock(problem);
  const int likely = FirstPiece(full, KEYS, full.split) + warp;
  const bool exists = likely < Pieces(full, KEYS);
  const int likely_page = exists ? PageOfAtOnce(problem, full, likely * KEYS) : 0;
  const Task task = TaskOfBlock(problem);
  const int begin = FirstPiece(task, KEYS, task.split) + warp;
  const int end = FirstPiece(task, KEYS, task.split + 1);
  Strip strips[kStrips];
#pragma unroll
  for (int i = 0; i < kStrips; ++i) Begin(problem, task, i * 16, strips[i]);

  // The page of the piece that is copied next is known before it is needed.
  const auto page_of = [&](int piece) {
    return piece < end ? PageOf(problem, task, piece * KEYS) : 0;
  };
  int next = begin;
  const bool guessed = exists && next * KEYS / PAGE_SIZE == likely * KEYS / PAGE_SIZE;
  int page = guessed ? likely_page : page_of(next);
  int to = 0;
  const auto start_copy = [&] {
    if (next < end) CopyPiece(problem, task, ring + to * kSlotBytes, page, next * KEYS);
    CopyCommit();
    next += WARPS;
    page = page_of(next);
    to = to + 1 == STAGES ? 0 : to + 1;
  };
#pragma unroll
  for (int i = 0; i < STAGES - 1; ++i) start_copy();
  int from = 0;
  for (int piece = begin; piece < end; piece += WARPS) {
    CopyWait<STAGES - 2>();
    __syncwarp();
    start_copy();
    const unsigned slot = ring + from * kSlotBytes;
#pragma unroll
    for (int i = 0; i < kStrips; ++i) {
      const int row = i * 16 + threadIdx.x % 32 / 4;
      const int visible[2] = {KeysOf(task, row < ROWS ? row : 0) - piece * KEYS,
                              KeysOf(task, row + 8 < ROWS ? row + 8 : 0) - piece * KEYS};
      float s[kScores];
      Scores(strips[i], slot, s);
      Weigh(strips[i], problem.scale * kLog2E, visible, s);
      AddValues(strips[i], slot + kPieceBytes, s);
    }
    from = from + 1 == STAGES ? 0 : from + 1;
  }
  CopyWait<0>();
  __syncthreads();
  Part* parts = reinterpret_cast<Part*>(shared);
#pragma unroll
  for (int i = 0; i < kStrips; ++i) WritePart(parts[warp], i * 16, strips[i]);
  __syncthreads();
  Finish<WARPS, kThreads>(problem, task, output, parts);
}
