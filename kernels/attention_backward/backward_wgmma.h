// SPDX-License-Identifier: Apache-2.0
// The sm_90a path for heads of up to 128 columns. One warpgroup, the producer, copies by TMA; each
// consumer warpgroup owns 64 of the held rows, multiplies with WGMMA and keeps their scores and
// gradients in registers. Scores have held rows down and streamed rows across, so that the weights
// are at once the operand of the next product. Their gradient also goes to shared memory, for dQ,
// which needs all held rows.
#pragma once

#include "dq_sums.h"
#include "ring.h"
#include "wgmma.cuh"

constexpr int kGroups = BLOCK_N / 64;
constexpr int kThreads = (kGroups + 1) * 128;
constexpr int kBlocksPerSm = CTAS;
constexpr int kSlabs = (HEAD_DIM + 63) / 64;  // of 64 columns, the last filled up with zeros
constexpr int kCopies = HEAD_DIM % 64 == 0 ? 1 : kSlabs;  // that it takes to bring a row
constexpr int kSlabBytes = 64 * 128;                      // 64 rows of 64 elements
constexpr int kBoxBytes = kSlabs * kSlabBytes;
constexpr int kStrips = BLOCK_M / 64;  // of streamed rows, 64 each
constexpr int kStreamBytes = kStrips * kBoxBytes;
constexpr int kFactBytes = BLOCK_M * 8;
constexpr int kSlopeBytes = DS_BUFFERS * BLOCK_M * BLOCK_N * 2;
constexpr int kBulkBytes = 4096;      // of a warp: 16 rows of 64 sums
constexpr int kScores = BLOCK_M / 2;  // registers a thread
constexpr int kSums = HEAD_DIM / 2;

// dQ of a streamed tile is made in pieces of 64 rows and 64 columns: one by each warpgroup, or the
// only one by the warpgroups in turn.
constexpr bool kTurns = kStrips * kSlabs < kGroups;
static_assert(kTurns ? kStrips * kSlabs == 1 : kStrips * kSlabs == kGroups && kStrips * kSlabs <= 2,
              "the tiles this is written for");
// Whether the slopes are made from rounded weights, for want of registers.
constexpr bool kRounds = !SOFTCAP && (kStrips > 1 || kGroups > 2);
constexpr int kSlopeStripBytes = BLOCK_N * 128;  // of 64 streamed rows

// The named barriers of the consumers, around the scores' gradient in shared memory.
constexpr int kSlopesWritten = 1;
constexpr int kSlopesRead = 2;

// Addresses in shared memory. What swizzles comes first, since it is aligned to 1024 bytes.
struct Arena {
  unsigned base;
  __device__ unsigned Held(int matrix, int group) const {
    return base + (matrix * kGroups + group) * kBoxBytes;
  }
  __device__ unsigned Streamed(int slot, int matrix) const {
    return Held(2, 0) + (slot * 2 + matrix) * kStreamBytes;
  }
  __device__ unsigned Slopes(int buffer) const {
    return Streamed(STAGES, 0) + buffer * (BLOCK_M * BLOCK_N * 2);
  }
  __device__ unsigned Bulk(int warp) const {
    return Streamed(STAGES, 0) + kSlopeBytes + warp * kBulkBytes;
  }
  __device__ unsigned Facts(int slot) const {
    return Bulk(DQ_BULK ? kGroups * 4 : 0) + slot * kFactBytes;
  }
  __device__ unsigned HeldFull() const { return Facts(STAGES); }
  __device__ unsigned Full(int slot) const { return HeldFull() + 8 + slot * 8; }
  __device__ unsigned Free(int slot) const { return Full(STAGES + slot); }
};

__device__ __forceinline__ void InitBarriers(const Arena& arena) {
  BarrierInit(arena.HeldFull(), 1);
  for (int i = 0; i < STAGES; ++i) {
    BarrierInit(arena.Full(i), 1);
    BarrierInit(arena.Free(i), 4 * kGroups);
  }
  BarrierInitFence();
}

// Copies 64 rows of a head.
__device__ __forceinline__ void LoadRows(unsigned to, const CUtensorMap* map, unsigned barrier,
                                         int row, int head, int batch) {
#pragma unroll
  for (int i = 0; i < kCopies; ++i) {
    LoadBox(to + i * kSlabBytes, map, barrier, i * 64, row, 0, head, batch);
  }
}

// The work of one thread. It runs ahead of the consumers as far as the ring allows.
template <bool kKeys>
__device__ void Produce(const Problem& problem, const Arena& arena, const Held& at,
                        const CUtensorMap* const (&held)[2],
                        const CUtensorMap* const (&streamed)[2], const float* facts) {
  const Sides<kKeys> sides(problem);
  const int batch = at.head / sides.held_heads;
  BarrierExpect(arena.HeldFull(), 2 * kGroups * kBoxBytes);
  for (int i = 0; i < 2 * kGroups; ++i) {
    const int matrix = i / kGroups, group = i % kGroups;
    LoadRows(arena.Held(matrix, group), held[matrix], arena.HeldFull(),
             problem.start + at.row + group * 64, at.head - batch * sides.held_heads, batch);
  }
  const Stream<kKeys> stream(problem, at);
  const int first_head = batch * sides.streamed_heads;  // of the batch
  Cursor stage;
  for (int i = 0; i < stream.count; ++i) {
    const int head = stream.Head(i), row = stream.Row(i);
    const unsigned full = arena.Full(stage.slot);
    BarrierWait(arena.Free(stage.slot), stage.phase ^ 1);
    BarrierExpect(full, 2 * kStreamBytes + (kKeys ? kFactBytes : 0));
    for (int matrix = 0; matrix < 2; ++matrix) {
      for (int strip = 0; strip < kStrips; ++strip) {
        LoadRows(arena.Streamed(stage.slot, matrix) + strip * kBoxBytes, streamed[matrix], full,
                 problem.start + row + strip * 64, head - first_head, batch);
      }
    }
    if (kKeys) {
      BulkLoad(arena.Facts(stage.slot), facts + FactIndex(problem, head, row), kFactBytes, full);
    }
    stage.Advance();
  }
}

// A consumer warpgroup.
struct Group {
  Arena arena;
  int index;
  Cursor stage;

  __device__ __forceinline__ void WaitFull(const Cursor& at) const {
    BarrierWait(arena.Full(at.slot), at.phase);
  }

  // Starts s = the group's held rows by the streamed rows, of one of the two pairs of matrices.
  __device__ __forceinline__ void StartScores(float (&s)[kScores], int slot, int matrix) const {
    const unsigned long long held = Descriptor(arena.Held(matrix, index), 16);
    const unsigned long long streamed = Descriptor(arena.Streamed(slot, matrix), 16);
    Pin(s);
    MmaFence();
#pragma unroll
    for (int d = 0; d < HEAD_DIM; d += 16) {
      SharedMma(s, held + (d / 64 * kSlabBytes + d % 64 * 2) / 16,
                streamed + (d / 64 * (BLOCK_M * 128) + d % 64 * 2) / 16, d != 0);
    }
    MmaCommit();
  }

  // Starts sums += p by the streamed rows.
  __device__ __forceinline__ void StartSums(float (&sums)[kSums], const unsigned (&p)[kScores / 2],
                                            int matrix) const {
    const unsigned long long streamed =
        Descriptor(arena.Streamed(stage.slot, matrix), BLOCK_M * 128);
    Pin(sums);
    MmaFence();
#pragma unroll
    for (int m = 0; m < BLOCK_M; m += 16) {
      RegisterMma(sums, p + m / 4, streamed + m * 128 / 16);
    }
    MmaCommit();
  }

  // Leaves the group's part of dS where all groups read it: of each strip of queries, a row of 128
  // bytes for each key, swizzled as TMA does.
  __device__ __forceinline__ void ShareSlopes(const unsigned (&ds)[kScores / 2], int buffer) const {
    const int lane = threadIdx.x % 32;
    const int row = index * 64 + threadIdx.x % 128 / 32 * 16 + lane % 16;
    if (DS_BUFFERS == 1) NamedSync(kSlopesRead, kGroups * 128);
#pragma unroll
    for (int i = 0; i < kScores / 8; ++i) {
      const int chunk = i % 4 * 2 + lane / 16;
      StoreMatrices(
          arena.Slopes(buffer) + i / 4 * kSlopeStripBytes + row * 128 + (chunk ^ row % 8) * 16,
          ds + i * 4);
    }
    AsyncFence();
    NamedSync(kSlopesWritten, kGroups * 128);
  }

  __device__ __forceinline__ bool MakesQueries(int i) const {
    return !kTurns || i % kGroups == index;
  }
  // Which piece is the group's.
  __device__ __forceinline__ int Strip() const { return kStrips == 1 ? 0 : index; }
  __device__ __forceinline__ int Slab() const { return kTurns || kStrips > 1 ? 0 : index; }

  // Starts the group's piece of dS K.
  __device__ __forceinline__ void StartQueries(float (&dq)[32], int buffer) const {
    const unsigned long long ds = Descriptor(arena.Slopes(buffer) + Strip() * kSlopeStripBytes, 16);
    const unsigned long long keys = Descriptor(arena.Held(0, 0) + Slab() * kSlabBytes, 16);
    Pin(dq);
    MmaFence();
#pragma unroll
    for (int n = 0; n < BLOCK_N; n += 16) {
      SharedMma<true, true>(dq, ds + n * 128 / 16, keys + (n / 64 * kBoxBytes + n % 64 * 128) / 16,
                            n != 0);
    }
    MmaCommit();
  }

  // Adds the piece of the streamed tile from `first`; each warp has 16 rows of it.
  __device__ __forceinline__ void AddQueries(const Problem& problem, int head, int first,
                                             const float (&dq)[32], float* dq_sums) const {
    const int warp = threadIdx.x % 128 / 32;
    const int row = first + Strip() * 64 + warp * 16;
    float* to = dq_sums + FragmentIndex(problem, head, row, Slab() * 64);
    // The last slab may have fewer columns.
    const bool is_whole = HEAD_DIM % 64 == 0 || Slab() + 1 < kSlabs;
    if (!DQ_BULK) {
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        if (is_whole || i < HEAD_DIM % 64 / 8) AddFragment(to + i * kFragment, dq + i * 4);
      }
      return;
    }
    const unsigned bulk = arena.Bulk(index * 4 + warp);
    if (threadIdx.x % 32 == 0) BulkWaitRead();
    __syncwarp();
#pragma unroll
    for (int i = 0; i < 8; ++i) StoreFour(bulk + (i * kFragment + SumIndex(0)) * 4, dq + i * 4);
    AsyncFence();
    __syncwarp();
    const int bytes = is_whole ? kBulkBytes : HEAD_DIM % 64 / 8 * kFragment * 4;
    if (threadIdx.x % 32 == 0) BulkAdd(to, bulk, bytes);
  }

  // Each warp arrives once it has finished its own share of the multiplication.
  __device__ __forceinline__ void Release(int slot) const {
    if (threadIdx.x % 32 == 0) BarrierArrive(arena.Free(slot));
  }
};

// The sums of a thread: by the scores' slopes dK or dQ, by the weights dV.
struct Sums {
  float slopes[kSums];
  float weights[kSums];
};

// From the scores of the streamed tile from `first` to their weights, in place and rounded.
template <bool kKeys>
__device__ __forceinline__ void WeighTile(const Problem& problem, const Group& group, int held_row,
                                          int first, const float* facts, const RowFacts& own,
                                          float (&p)[kScores], unsigned (&packed)[kScores / 2]) {
  const Scale scale = ScaleOf(problem);
  if (SOFTCAP) Cap(p, scale);
  MaskTile<kKeys, 64>(problem, held_row + group.index * 64, first, p);
  Weigh<kKeys>(p, scale.log2, facts, own, packed);
}

// Starts the products with the scores' slopes, and with OVERLAP the next scores, `p` of `next`.
// The additions to dQ are made while the later products run.
template <bool kKeys>
__device__ __forceinline__ void FinishTile(const Problem& problem, const Group& group, int i,
                                           int head, int first, const unsigned (&ds)[kScores / 2],
                                           const Cursor& next, Sums& sums, float (&p)[kScores],
                                           float (&dq)[32], float* dq_sums) {
  constexpr int kBuffers = DS_BUFFERS > 0 ? DS_BUFFERS : 1;
  const auto start = [&] {
    group.StartSums(sums.slopes, ds, 0);
    if (!OVERLAP) return;
    group.WaitFull(next);
    group.StartScores(p, next.slot, 0);
  };
  if (kKeys && !DQ_PASS) group.ShareSlopes(ds, i % kBuffers);
  if (OVERLAP && kKeys) {
    MmaWait<0>();  // The next scores take the registers of the weights.
    Pin(sums.weights);
  }
  if (kKeys && !DQ_PASS && group.MakesQueries(i)) {
    group.StartQueries(dq, i % kBuffers);
    start();
    MmaWait<OVERLAP ? 2 : 1>();
    Pin(dq);
    group.AddQueries(problem, head, first, dq, dq_sums);
  } else {
    start();
  }
}

// With OVERLAP the scores of the next tile are made at the end of each one. The last one's are made
// twice.
template <bool kKeys>
__device__ void Consume(const Problem& problem, const Arena& arena, const unsigned char* shared,
                        const Held& at, int index, const float* facts, const Gradients& gradients,
                        float* dq_sums) {
  Group group{arena, index};
  const Stream<kKeys> stream(problem, at);
  const int row = at.row + index * 64 + threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4;
  Sums sums;
#pragma unroll
  for (int i = 0; i < kSums; ++i) sums.slopes[i] = sums.weights[i] = 0.0f;
  RowFacts own;
  if (!kKeys) LoadFacts(problem, at.head, row, facts, own);
  float p[kScores];
  BarrierWait(arena.HeldFull(), 0);
  if (OVERLAP && !(stream.kMayBeEmpty && stream.count == 0)) {
    group.WaitFull(group.stage);
    group.StartScores(p, group.stage.slot, 0);
    MmaWait<0>();
    Pin(p);
  }
  for (int i = 0; i < stream.count; ++i) {
    const int first = stream.Row(i);
    const int slot = group.stage.slot;
    const float* tile_facts =
        reinterpret_cast<const float*>(shared + (arena.Facts(slot) - arena.base));
    float t[kScores];
    unsigned packed[kScores / 2], ds[kScores / 2];
    if (!OVERLAP) {
      group.WaitFull(group.stage);
      group.StartScores(p, slot, 0);
    }
    group.StartScores(t, slot, 1);
    if (!OVERLAP) {
      MmaWait<1>();
      Pin(p);
    }
    WeighTile<kKeys>(problem, group, at.row, first, tile_facts, own, p, packed);
    if (kKeys) group.StartSums(sums.weights, packed, 1);
    MmaWait<kKeys ? 1 : 0>();
    Pin(t);
    if (kKeys && kRounds) {
      Slope<kKeys>(t, packed, tile_facts, own);
    } else {
      Slope<kKeys>(t, p, tile_facts, own);
    }
    PackAll(t, ds);
    Cursor next = group.stage;
    if (i + 1 < stream.count) next.Advance();
    // dQ takes the registers of the slopes.
    FinishTile<kKeys>(problem, group, i, stream.Head(i), first, ds, next, sums, p,
                      reinterpret_cast<float(&)[32]>(t), dq_sums);
    MmaWait<0>();
    if (OVERLAP) Pin(p);
    Pin(sums.slopes);
    if (kKeys) Pin(sums.weights);
    group.Release(slot);
    group.stage = next;
  }
  if (kKeys && DQ_BULK && threadIdx.x % 32 == 0) BulkWait();
  StoreHeld<kKeys>(problem, at, row, sums.slopes, sums.weights, gradients);
}

template <bool kKeys>
__device__ __forceinline__ void Walk(Problem problem, const CUtensorMap* const (&held)[2],
                                     const CUtensorMap* const (&streamed)[2], const float* facts,
                                     const Gradients& gradients, float* dq_sums) {
  extern __shared__ __align__(1024) unsigned char shared[];
  const Arena arena = {SharedAddress(shared)};
  const Held at = HeldBy<kKeys>(problem, blockIdx.x);
  if (PACKED && at.row >= problem.keys) return;
  if (threadIdx.x == 0) InitBarriers(arena);
  __syncthreads();
  const int index = __shfl_sync(0xffffffffu, threadIdx.x / 128, 0);
  if (index == kGroups) {
    RegistersLower<kGroups == 3 ? 32 : 24>();
    if (threadIdx.x % 128 == 0) Produce<kKeys>(problem, arena, at, held, streamed, facts);
  } else {
    RegistersRaise<kGroups == 3 ? 160 : kGroups == 2 ? 240 : 232>();
    Consume<kKeys>(problem, arena, shared, at, index, facts, gradients, dq_sums);
  }
}
