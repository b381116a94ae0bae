// SPDX-License-Identifier: Apache-2.0
// The sm_90a path for heads of 192 and 256 columns, whose gradients leave a warpgroup no registers
// for scores if it owns whole rows of them. One warpgroup, the producer, copies by TMA. Two
// consumer warpgroups share the held rows of K and V: each makes the scores of half of them and
// sums half of the gradients' columns. In between, weights and the scores' gradient (slopes) go
// through shared memory.
//
// Scores have queries down and keys across. Sums of dK and dV are transposed, with the head's
// columns down and keys across, so that the number of keys need not be a multiple of 64. Weights
// and slopes are stored by keys, 64 queries (128 bytes) each, which is the right operand of those
// sums, and across it is the left operand of dQ = slopes K.
//
// A tile's products run while the next tile's weights are made. Weights and slopes have two places
// each, so that the warpgroups meet once a tile, where its slopes are complete.
#pragma once

#include "dq_sums.h"
#include "ring.h"
#include "wgmma.cuh"

static_assert(BLOCK_M == 64 && !DQ_PASS && !DQ_BULK, "the tiles this is written for");

constexpr int kGroups = 2;
constexpr int kConsumers = kGroups * 128;
constexpr int kThreads = kConsumers + 128;
constexpr int kBlocksPerSm = 1;
constexpr int kSlabs = HEAD_DIM / 64;  // of 64 columns
constexpr int kSlabBytes = 64 * 128;   // of streamed rows
constexpr int kHeldSlabBytes = BLOCK_N * 128;
constexpr int kHeldBytes = kSlabs * kHeldSlabBytes;
constexpr int kStreamBytes = kSlabs * kSlabBytes;
constexpr int kTileBytes = BLOCK_N * 128;  // of weights or slopes
constexpr int kFactBytes = kFactFloats * 4;
constexpr int kOwnKeys = BLOCK_N / kGroups;  // whose scores a warpgroup makes
constexpr int kScores = kOwnKeys / 2;        // registers a thread

// A warpgroup sums some slabs of the gradients' columns for all keys. Of an odd number of slabs the
// warpgroups share the last one: of dK and dV each sums its keys, of dQ half of the columns.
constexpr int kOwnSlabs = kSlabs / kGroups;
constexpr bool kSharesSlab = kSlabs % kGroups != 0;
constexpr int kLastSlab = kSlabs - 1;
// dQ is made in two pieces: a slab, and a second one or half of the shared one.
constexpr int kRestColumns = kSharesSlab ? 32 : 64;

// The named barrier of the consumers.
constexpr int kMeeting = 1;

// Addresses in shared memory. What swizzles comes first, since it is aligned to 1024 bytes. The
// ring's slots hold a tile of one matrix: of Q, then of dO, then of Q again.
struct Arena {
  unsigned base;
  __device__ unsigned Held(int matrix) const { return base + matrix * kHeldBytes; }
  __device__ unsigned Streamed(int slot) const { return Held(2) + slot * kStreamBytes; }
  __device__ unsigned Weights(int buffer) const { return Streamed(STAGES) + buffer * kTileBytes; }
  __device__ unsigned Slopes(int buffer) const { return Weights(DS_BUFFERS + buffer); }
  __device__ unsigned Facts(int slot) const { return Slopes(DS_BUFFERS) + slot * kFactBytes; }
  __device__ unsigned HeldFull() const { return Facts(STAGES); }
  __device__ unsigned Full(int slot) const { return HeldFull() + 8 + slot * 8; }
  __device__ unsigned Free(int slot) const { return Full(STAGES + slot); }
};

__device__ __forceinline__ void InitBarriers(const Arena& arena) {
  BarrierInit(arena.HeldFull(), 1);
  for (int i = 0; i < STAGES; ++i) {
    BarrierInit(arena.Full(i), 1);
    BarrierInit(arena.Free(i), kConsumers / 32);
  }
  BarrierInitFence();
}

// The work of one thread. It runs ahead of the consumers as far as the ring allows.
__device__ __forceinline__ void Produce(const Problem& problem, const Arena& arena, const Held& at,
                                        const CUtensorMap* const (&held)[2],
                                        const CUtensorMap* const (&streamed)[2],
                                        const float* facts) {
  const int batch = at.head / problem.kv_heads;
  BarrierExpect(arena.HeldFull(), 2 * kHeldBytes);
  for (int matrix = 0; matrix < 2; ++matrix) {
    LoadBox(arena.Held(matrix), held[matrix], arena.HeldFull(), 0, problem.start + at.row, 0,
            at.head - batch * problem.kv_heads, batch);
  }
  const Stream<true> stream(problem, at);
  Cursor stage;
  for (int i = 0; i < stream.count; ++i) {
    const int head = stream.Head(i), row = stream.Row(i);
#pragma unroll
    for (int matrix = 0; matrix < 2; ++matrix) {
      const unsigned full = arena.Full(stage.slot);
      BarrierWait(arena.Free(stage.slot), stage.phase ^ 1);
      BarrierExpect(full, kStreamBytes + (matrix == 0 ? kFactBytes : 0));
      LoadBox(arena.Streamed(stage.slot), streamed[matrix], full, 0, problem.start + row, 0,
              head - batch * problem.heads, batch);
      if (matrix == 0) {
        BulkLoad(arena.Facts(stage.slot), facts + FactIndex(problem, head, row), kFactBytes, full);
      }
      stage.Advance();
    }
  }
}

// Leaves a warp's 16 rows of a tile of 64 transposed in shared memory: of each column, from the
// `first` on, a row of 128 bytes, swizzled as TMA does.
template <int kCount>
__device__ __forceinline__ void StoreColumns(unsigned tile, int first,
                                             const unsigned (&packed)[kCount]) {
  const int lane = threadIdx.x % 16;
  const int chunk = threadIdx.x % 128 / 32 * 2 + lane / 8;
  const unsigned to = tile + (first + lane % 8) * 128 + (chunk ^ lane % 8) * 16;
#pragma unroll
  for (int i = 0; i < kCount; i += 2) StoreTransposed(to + i / 2 * 1024, packed + i);
}

// A thread's sums of dK or dV: of its warpgroup's slabs, and of its keys of the shared one.
struct Sums {
  float own[kOwnSlabs][BLOCK_N / 2];
  float shared[kScores];
};

// Calls visit(sums, slab, first key) for each part of the sums.
template <typename AnySums, typename Visit>
__device__ __forceinline__ void ForEach(AnySums& sums, int index, const Visit& visit) {
#pragma unroll
  for (int s = 0; s < kOwnSlabs; ++s) visit(sums.own[s], index * kOwnSlabs + s, 0);
  if (kSharesSlab) visit(sums.shared, kLastSlab, index * kOwnKeys);
}

__device__ __forceinline__ void PinSums(Sums& sums) {
  ForEach(sums, 0, [](auto& part, int, int) { Pin(part); });
}

__device__ __forceinline__ void ClearSums(Sums& sums) {
  ForEach(sums, 0, [](auto& part, int, int) {
    for (float& sum : part) sum = 0.0f;
  });
}

// A tile in shared memory as an operand. Of descriptors only the lower halves differ, and the
// compiler is kept from having those of all steps in registers throughout the loop over tiles.
struct Operand {
  unsigned low;

  __device__ __forceinline__ explicit Operand(unsigned address)
      : low(static_cast<unsigned>(Descriptor(address, 16))) {
    asm volatile("" : "+r"(low));
  }
  __device__ __forceinline__ unsigned long long At(int bytes) const {
    return Descriptor(0, 16) >> 32 << 32 | (low + bytes / 16);
  }
};

// A consumer warpgroup.
struct Group {
  Arena arena;
  const unsigned char* shared;
  int index;

  __device__ __forceinline__ void WaitFull(const Cursor& at) const {
    BarrierWait(arena.Full(at.slot), at.phase);
  }
  // Each warp arrives once it has finished its own share of the multiplication.
  __device__ __forceinline__ void Release(const Cursor& at) const {
    if (threadIdx.x % 32 == 0) BarrierArrive(arena.Free(at.slot));
  }

  // Starts s = the streamed rows by the group's held rows, of one of the two pairs of matrices.
  __device__ __forceinline__ void StartScores(float (&s)[kScores], int slot, int matrix) const {
    const Operand streamed(arena.Streamed(slot));
    const Operand held(arena.Held(matrix) + index * kOwnKeys * 128);
    Forget(s);
    MmaFence();
#pragma unroll
    for (int d = 0; d < HEAD_DIM; d += 16) {
      SharedMma(s, streamed.At(d / 64 * kSlabBytes + d % 64 * 2),
                held.At(d / 64 * kHeldSlabBytes + d % 64 * 2), d != 0);
    }
    MmaCommit();
  }

  // Starts sums += the streamed rows, transposed, by a tile of weights or slopes.
  __device__ __forceinline__ void StartSums(Sums& sums, int slot, unsigned tile) const {
    const Operand streamed(arena.Streamed(slot) + index * kOwnSlabs * kSlabBytes);
    const Operand last(arena.Streamed(slot) + kLastSlab * kSlabBytes);
    const Operand factors(tile), own_factors(tile + index * kOwnKeys * 128);
    PinSums(sums);
    MmaFence();
#pragma unroll
    for (int m = 0; m < BLOCK_M; m += 16) {
#pragma unroll
      for (int s = 0; s < kOwnSlabs; ++s) {
        SharedMma<true, false>(sums.own[s], streamed.At(s * kSlabBytes + m * 128),
                               factors.At(m * 2), 1);
      }
      if (kSharesSlab) {
        SharedMma<true, false>(sums.shared, last.At(m * 128), own_factors.At(m * 2), 1);
      }
    }
    MmaCommit();
  }

  // The first columns of the pieces of dQ.
  __device__ __forceinline__ int FirstColumn() const { return index * kOwnSlabs * 64; }
  __device__ __forceinline__ int RestColumn() const {
    return kSharesSlab ? kLastSlab * 64 + index * kRestColumns : FirstColumn() + 64;
  }

  // Starts a piece of slopes K.
  template <int kCount>
  __device__ __forceinline__ void StartQueries(float (&dq)[kCount], unsigned slopes,
                                               int column) const {
    const Operand left(slopes);
    const Operand keys(arena.Held(0) + column / 64 * kHeldSlabBytes + column % 64 * 2);
    Forget(dq);
    MmaFence();
#pragma unroll
    for (int n = 0; n < BLOCK_N; n += 16) {
      SharedMma<true, true>(dq, left.At(n * 128), keys.At(n * 128), n != 0);
    }
    MmaCommit();
  }

  // The facts of a lane's rows of the tile of Q in a slot.
  __device__ __forceinline__ RowFacts Facts(int slot) const {
    const auto* facts = reinterpret_cast<const float*>(shared + (arena.Facts(slot) - arena.base)) +
                        threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4;
    return {{facts[0], facts[8]}, {facts[kFactRows], facts[kFactRows + 8]}};
  }
};

// Adds a piece of dQ of the tile from `first`; each warp has 16 rows of it.
template <int kCount>
__device__ __forceinline__ void AddQueries(const Problem& problem, int head, int first, int column,
                                           const float (&dq)[kCount], float* dq_sums) {
  const int row = first + threadIdx.x % 128 / 32 * 16;
  float* to = dq_sums + FragmentIndex(problem, head, row, column);
#pragma unroll
  for (int i = 0; i < kCount / 4; ++i) AddFragment(to + i * kFragment, dq + i * 4);
}

// From the scores of the tile from `first` to their weights, which also go to shared memory.
__device__ __forceinline__ void WeighTile(const Problem& problem, const Group& group, int held_row,
                                          int first, int slot, unsigned weights,
                                          float (&p)[kScores]) {
  const Scale scale = ScaleOf(problem);
  unsigned packed[kScores / 2];
  if (SOFTCAP) Cap(p, scale);
  MaskTile<false, 64>(problem, first, held_row + group.index * kOwnKeys, p);
  Weigh<false>(p, scale.log2, nullptr, group.Facts(slot), packed);
  if (!SOFTCAP) PackAll(p, packed);
  StoreColumns(weights, group.index * kOwnKeys, packed);
}

// Turns the weights and their gradient into slopes, which go to shared memory, and meets the other
// warpgroup.
__device__ __forceinline__ void ShareSlopes(const Group& group, int slot, unsigned slopes,
                                            float (&t)[kScores], const float (&p)[kScores]) {
  unsigned ds[kScores / 2];
  Slope<false>(t, p, nullptr, group.Facts(slot));
  PackAll(t, ds);
  StoreColumns(slopes, group.index * kOwnKeys, ds);
  AsyncFence();
  NamedSync(kMeeting, kConsumers);
}

// The sums and scores of a thread, and where in the ring its tile is.
struct Work {
  Sums slopes;   // dK
  Sums weights;  // dV
  float p[kScores];
  float t[kScores];
  Cursor q;
};

// Finishes the i-th tile, whose weights are made and whose weights' gradient is under way, and
// brings the next one to that point. With OVERLAP the second piece of dQ is made beside the next
// scores, without it beside the first piece.
template <bool kIsLast>
__device__ __forceinline__ void FinishTile(const Problem& problem, const Group& group,
                                           const Held& at, const Stream<true>& stream, int i,
                                           float* dq_sums, Work& work) {
  const int buffer = i % DS_BUFFERS;
  const int head = stream.Head(i), first = stream.Row(i);
  const unsigned slopes = group.arena.Slopes(buffer);
  Cursor dout = work.q;
  dout.Advance();
  Cursor next = dout;
  next.Advance();
  MmaWait<0>();
  Pin(work.t);
  ShareSlopes(group, work.q.slot, slopes, work.t, work.p);

  float dq[32], rest[kRestColumns / 2];
  group.StartQueries(dq, slopes, group.FirstColumn());
  if (!OVERLAP) group.StartQueries(rest, slopes, group.RestColumn());
  group.StartSums(work.slopes, work.q.slot, slopes);
  MmaWait<1>();
  Pin(dq);
  AddQueries(problem, head, first, group.FirstColumn(), dq, dq_sums);
  if (OVERLAP) {
    group.StartQueries(rest, slopes, group.RestColumn());
  } else {
    Pin(rest);
    AddQueries(problem, head, first, group.RestColumn(), rest, dq_sums);
  }
  if (!kIsLast) {
    group.WaitFull(next);
    group.StartScores(work.p, next.slot, 0);
  }
  group.StartSums(work.weights, dout.slot, group.arena.Weights(buffer));
  if (OVERLAP) {
    MmaWait<2 - kIsLast>();
    Pin(rest);
    AddQueries(problem, head, first, group.RestColumn(), rest, dq_sums);
  }
  if (kIsLast) return;
  MmaWait<1>();
  Pin(work.p);
  group.Release(work.q);
  WeighTile(problem, group, at.row, stream.Row(i + 1), next.slot,
            group.arena.Weights((i + 1) % DS_BUFFERS), work.p);
  work.q = next;
  next.Advance();
  group.WaitFull(next);
  group.StartScores(work.t, next.slot, 1);
  MmaWait<1>();
  group.Release(dout);
}

// Makes the weights of the first tile and starts their gradient.
__device__ __forceinline__ void StartTiles(const Problem& problem, const Group& group,
                                           const Held& at, int first, Work& work) {
  Cursor dout;
  dout.Advance();
  group.WaitFull(work.q);
  group.StartScores(work.p, work.q.slot, 0);
  group.WaitFull(dout);
  group.StartScores(work.t, dout.slot, 1);
  MmaWait<1>();
  Pin(work.p);
  WeighTile(problem, group, at.row, first, work.q.slot, group.arena.Weights(0), work.p);
}

// Leaves sums, rounded, where K or V was: a row for each key.
__device__ __forceinline__ void ShareSums(const Group& group, int matrix, float scale, Sums& sums) {
  ForEach(sums, group.index, [&](auto& part, int slab, int key) {
    constexpr int kCount = sizeof(part) / sizeof(float);
    unsigned packed[kCount / 2];
#pragma unroll
    for (int i = 0; i < kCount / 2; ++i) {
      packed[i] = Pack(part[2 * i] * scale, part[2 * i + 1] * scale);
    }
    StoreColumns(group.arena.Held(matrix) + slab * kHeldSlabBytes, key, packed);
  });
}

// Writes the gradient of the held rows that ShareSums has left, 16 bytes a thread at a time.
__device__ __forceinline__ void StoreShared(const Problem& problem, const Group& group,
                                            const Held& at, int matrix, const View<Element>& to) {
  constexpr int kChunks = HEAD_DIM / 8;
  for (int i = threadIdx.x; i < BLOCK_N * kChunks; i += kConsumers) {
    const int row = i / kChunks, chunk = i % kChunks;
    if (at.row + row >= problem.keys) break;
    const int from =
        matrix * kHeldBytes + chunk / 8 * kHeldSlabBytes + row * 128 + (chunk % 8 ^ row % 8) * 16;
    Element* line = to.Row(problem.kv_heads, at.head, problem.start + at.row + row);
    reinterpret_cast<uint4*>(line)[chunk] = *reinterpret_cast<const uint4*>(group.shared + from);
  }
}

// Writes sums as they are, to a part that a later step adds.
__device__ __forceinline__ void StoreSums(const Problem& problem, const Group& group,
                                          const Held& at, float scale, Sums& sums, float* to) {
  const int lane = threadIdx.x % 32;
  ForEach(sums, group.index, [&](auto& part, int slab, int key) {
    float* column = to + slab * 64 + threadIdx.x % 128 / 32 * 16 + lane / 4;
    const int first = at.row + key + lane % 4 * 2;
#pragma unroll
    for (int i = 0; i < static_cast<int>(sizeof(part) / sizeof(float)); ++i) {
      const int row = first + i / 4 * 8 + i % 2;
      if (row < problem.keys) {
        column[static_cast<long long>(row) * HEAD_DIM + i / 2 % 2 * 8] = part[i] * scale;
      }
    }
  });
}

__device__ __forceinline__ void StoreGradients(const Problem& problem, const Group& group,
                                               const Held& at, Work& work, const Gradients& to) {
  if (PARTS > 1) {
    StoreSums(problem, group, at, problem.scale, work.slopes, to.parts + PartIndex(problem, at, 0));
    StoreSums(problem, group, at, 1.0f, work.weights, to.parts + PartIndex(problem, at, 1));
    return;
  }
  NamedSync(kMeeting, kConsumers);  // The other warpgroup has read K.
  ShareSums(group, 0, problem.scale, work.slopes);
  ShareSums(group, 1, 1.0f, work.weights);
  NamedSync(kMeeting, kConsumers);
  StoreShared(problem, group, at, 0, to.slopes);
  StoreShared(problem, group, at, 1, to.weights);
}

__device__ __forceinline__ void Consume(const Problem& problem, const Group& group, const Held& at,
                                        const Gradients& gradients, float* dq_sums) {
  const Stream<true> stream(problem, at);
  Work work;
  ClearSums(work.slopes);
  ClearSums(work.weights);
  BarrierWait(group.arena.HeldFull(), 0);
  if (!(stream.kMayBeEmpty && stream.count == 0)) {
    StartTiles(problem, group, at, stream.Row(0), work);
    int i = 0;
    for (; i + 1 < stream.count; ++i) {
      FinishTile<false>(problem, group, at, stream, i, dq_sums, work);
    }
    FinishTile<true>(problem, group, at, stream, i, dq_sums, work);
    MmaWait<0>();
    PinSums(work.slopes);
    PinSums(work.weights);
  }
  StoreGradients(problem, group, at, work, gradients);
}

template <bool kKeys>
__device__ __forceinline__ void Walk(Problem problem, const CUtensorMap* const (&held)[2],
                                     const CUtensorMap* const (&streamed)[2], const float* facts,
                                     const Gradients& gradients, float* dq_sums) {
  static_assert(kKeys, "dQ has no pass of its own");
  extern __shared__ __align__(1024) unsigned char shared[];
  const Arena arena = {SharedAddress(shared)};
  const Held at = HeldBy<true>(problem, blockIdx.x);
  if (PACKED && at.row >= problem.keys) return;
  if (threadIdx.x == 0) InitBarriers(arena);
  __syncthreads();
  const int index = __shfl_sync(0xffffffffu, threadIdx.x / 128, 0);
  if (index == kGroups) {
    RegistersLower<24>();
    if (threadIdx.x % 128 == 0) Produce(problem, arena, at, held, streamed, facts);
  } else {
    RegistersRaise<240>();
    Consume(problem, {arena, shared, index}, at, gradients, dq_sums);
  }
}
