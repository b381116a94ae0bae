// SPDX-License-Identifier: Apache-2.0
// The sm_90a path. One warpgroup, the producer, copies Q, K and V by TMA; each consumer warpgroup
// owns 64 rows of Q, multiplies with WGMMA and keeps scores, weights and O in registers. K and V go
// backwards, so that the blocks that need a mask come first.
#pragma once

#include "rounds.h"
#include "softmax.h"
#include "wgmma.cuh"

constexpr int kGroups = BLOCK_M / 64;
constexpr int kThreads = (kGroups + 1) * 128;
constexpr int kBlocksPerSm = CTAS;
constexpr int kSlabs = (HEAD_DIM + 63) / 64;  // of 64 columns, the last filled up with zeros
constexpr int kSlabsAtOnce = HEAD_DIM % 64 == 0 ? kSlabs : 1;
constexpr int kQueryBytes = 64 * kSlabs * 128;  // of one group
constexpr int kBlockBytes = BLOCK_N * kSlabs * 128;
constexpr int kScores = BLOCK_N / 2;  // registers a thread
constexpr int kOutputs = HEAD_DIM / 2;

constexpr int kTurnBarrier = 1;  // the named barriers 1 to 3 pass the turn between groups

// Addresses in shared memory: Q, then the rings of K and V, then the mbarriers.
struct Arena {
  unsigned base;
  __device__ unsigned Query(int group) const { return base + group * kQueryBytes; }
  __device__ unsigned Key(int slot) const { return Query(kGroups) + slot * kBlockBytes; }
  __device__ unsigned Value(int slot) const { return Key(STAGES) + slot * kBlockBytes; }
  __device__ unsigned Barrier(int i) const { return Value(STAGES) + i * 8; }
  __device__ unsigned QueryFull(int group) const { return Barrier(group); }
  __device__ unsigned QueryFree(int group) const { return Barrier(kGroups + group); }
  __device__ unsigned KeyFull(int slot) const { return Barrier(2 * kGroups + slot); }
  __device__ unsigned KeyFree(int slot) const { return KeyFull(STAGES + slot); }
  __device__ unsigned ValueFull(int slot) const { return KeyFull(2 * STAGES + slot); }
  __device__ unsigned ValueFree(int slot) const { return KeyFull(3 * STAGES + slot); }
};

// A position in a ring of STAGES slots.
struct Cursor {
  int slot = 0;
  unsigned phase = 0;
  __device__ void Advance() {
    if (++slot == STAGES) {
      slot = 0;
      phase ^= 1;
    }
  }
};

struct Maps {
  const CUtensorMap* q;
  const CUtensorMap* k;
  const CUtensorMap* v;
};

__device__ __forceinline__ void InitBarriers(const Arena& arena) {
  for (int i = 0; i < kGroups; ++i) {
    BarrierInit(arena.QueryFull(i), 1);
    BarrierInit(arena.QueryFree(i), 4);
  }
  for (int i = 0; i < STAGES; ++i) {
    BarrierInit(arena.KeyFull(i), 1);
    BarrierInit(arena.KeyFree(i), 4 * kGroups);
    BarrierInit(arena.ValueFull(i), 1);
    BarrierInit(arena.ValueFree(i), 4 * kGroups);
  }
  BarrierInitFence();
}

// Copies the rows [row, row + kRows) of a head: all slabs at once, or a slab after the other where
// the last is not full.
template <int kRows>
__device__ __forceinline__ void LoadRows(unsigned to, const CUtensorMap* map, unsigned barrier,
                                         int row, int head, int batch) {
  BarrierExpect(barrier, kRows * kSlabs * 128);
#pragma unroll
  for (int slab = 0; slab < kSlabs; slab += kSlabsAtOnce) {
    LoadBox(to + slab * kRows * 128, map, barrier, slab * 64, row, 0, head, batch);
  }
}

// The work of one thread. It runs ahead of the consumers as far as the rings allow, into the
// next tile too.
__device__ void Produce(const Problem& problem, const Arena& arena, const Maps& maps, int tiles) {
  Cursor key, value;
  unsigned query_phase = 0;
  const auto load_key = [&](const Tile& tile, int j) {
    BarrierWait(arena.KeyFree(key.slot), key.phase ^ 1);
    LoadRows<BLOCK_N>(arena.Key(key.slot), maps.k, arena.KeyFull(key.slot),
                      tile.start + j * BLOCK_N, tile.kv_head, tile.batch);
    key.Advance();
  };
  for (Rounds rounds(problem); rounds.Tile() < tiles; rounds.Next()) {
    const Span tile = SpanAt(problem, rounds.Tile());
    if (tile.IsEmpty()) continue;
    const Blocks blocks = BlocksOf(problem, tile, tile.row, tile.end - tile.row);
    for (int group = 0; group < kGroups; ++group) {
      BarrierWait(arena.QueryFree(group), query_phase ^ 1);
      LoadRows<64>(arena.Query(group), maps.q, arena.QueryFull(group),
                   tile.start + tile.row + group * 64, tile.head, tile.batch);
      if (group == 0 && !(SHIFTED && blocks.end == 0)) load_key(tile, blocks.end - 1);
    }
    for (int j = blocks.end - 1; j >= blocks.first; --j) {
      if (j > blocks.first) load_key(tile, j - 1);
      BarrierWait(arena.ValueFree(value.slot), value.phase ^ 1);
      LoadRows<BLOCK_N>(arena.Value(value.slot), maps.v, arena.ValueFull(value.slot),
                        tile.start + j * BLOCK_N, tile.kv_head, tile.batch);
      value.Advance();
    }
    query_phase ^= 1;
  }
}

// A consumer warpgroup.
struct Group {
  Arena arena;
  int index;
  Cursor key;
  Cursor value;
  unsigned query_phase = 0;

  // Each warp arrives once it has finished its own share of the multiplication.
  __device__ __forceinline__ void Release(unsigned barrier) const {
    if (threadIdx.x % 32 == 0) BarrierArrive(barrier);
  }
  __device__ __forceinline__ void TakeTurn() const {
    if (PINGPONG) NamedSync(kTurnBarrier + index, 256);
  }
  __device__ __forceinline__ void PassTurn() const {
    if (PINGPONG) NamedSignal(kTurnBarrier + (index + 1) % kGroups, 256);
  }

  // Starts s = Q K^T, of the first 2 kCount rows of the block of K.
  template <int kCount>
  __device__ __forceinline__ void StartScores(float (&s)[kCount]) const {
    const unsigned long long q = Descriptor(arena.Query(index), 16);
    const unsigned long long k = Descriptor(arena.Key(key.slot), 16);
    Pin(s);
    MmaFence();
#pragma unroll
    for (int d = 0; d < HEAD_DIM; d += 16) {
      SharedMma(s, q + (d / 64 * (64 * 128) + d % 64 * 2) / 16,
                k + (d / 64 * (BLOCK_N * 128) + d % 64 * 2) / 16, d != 0);
    }
    MmaCommit();
  }

  // Starts o += P V, of the first 4 kCount rows of the block of V.
  template <int kCount>
  __device__ __forceinline__ void StartOutputs(float (&o)[kOutputs],
                                               const unsigned (&p)[kCount]) const {
    const unsigned long long v = Descriptor(arena.Value(value.slot), BLOCK_N * 128);
    Pin(o);
    MmaFence();
#pragma unroll
    for (int n = 0; n < 4 * kCount; n += 16) {
      RegisterMma(o, p + n / 4, v + n * 128 / 16);
    }
    MmaCommit();
  }

  __device__ __forceinline__ void WaitKey() const {
    BarrierWait(arena.KeyFull(key.slot), key.phase);
  }
  __device__ __forceinline__ void WaitValue() const {
    BarrierWait(arena.ValueFull(value.slot), value.phase);
  }
  // Takes part in the barriers of a block of K and V that the group's rows do not see.
  __device__ __forceinline__ void SkipBlock() {
    WaitKey();
    TakeTurn();
    PassTurn();
    ReleaseKey();
    WaitValue();
    ReleaseValue();
  }
  __device__ __forceinline__ void ReleaseKey() {
    Release(arena.KeyFree(key.slot));
    key.Advance();
  }
  __device__ __forceinline__ void ReleaseValue() {
    Release(arena.ValueFree(value.slot));
    value.Advance();
  }
};

// From scores to weights of the first 2 kCount keys of block j, masked if the rows need it.
template <int kCount>
__device__ __forceinline__ void WeighBlock(float (&s)[kCount], int j, const Rows& rows,
                                           RowState& state, const Scale& scale, float (&alpha)[2]) {
  if (SOFTCAP) Cap(s, scale);
  MaskBlock(s, j, rows);
  Weigh(s, state, scale.log2, alpha);
}

// Block j's first 2 kCount keys, each multiplication waited for where it is started.
template <int kCount>
__device__ __forceinline__ void AttendBlock(Group& group, int j, bool is_last, const Rows& rows,
                                            const Scale& scale, RowState& state,
                                            float (&o)[kOutputs]) {
  float s[kCount], alpha[2];
  unsigned p[kCount / 2];
  group.WaitKey();
  group.TakeTurn();
  group.StartScores(s);
  MmaWait<0>();
  Pin(s);
  group.PassTurn();
  group.ReleaseKey();
  if (is_last) group.Release(group.arena.QueryFree(group.index));
  WeighBlock(s, j, rows, state, scale, alpha);
  Rescale(o, alpha);
  PackAll(s, p);
  group.WaitValue();
  group.StartOutputs(o, p);
  MmaWait<0>();
  Pin(o);
  group.ReleaseValue();
}

// OVERLAP 0.
__device__ __forceinline__ void AttendInTurn(Group& group, const Blocks& blocks, const Rows& rows,
                                             const Scale& scale, RowState& state,
                                             float (&o)[kOutputs]) {
  for (int j = blocks.end - 1; j >= blocks.first; --j) {
    AttendBlock<kScores>(group, j, j == blocks.first, rows, scale, state, o);
  }
}

// OVERLAP 1 and 2: the scores of the next block are started before the outputs of this one. With 2
// its softmax runs while the outputs are still being summed.
__device__ __forceinline__ void AttendAhead(Group& group, const Blocks& blocks, const Rows& rows,
                                            const Scale& scale, RowState& state,
                                            float (&o)[kOutputs]) {
  float s[kScores], alpha[2];
  unsigned p[kScores / 2];
  group.WaitKey();
  group.TakeTurn();
  group.StartScores(s);
  group.PassTurn();
  MmaWait<0>();
  Pin(s);
  group.ReleaseKey();
  WeighBlock(s, blocks.end - 1, rows, state, scale, alpha);
  if (HALVE) Rescale(o, alpha);  // what half a block before has left there
  PackAll(s, p);
  for (int j = blocks.end - 2; j >= blocks.first; --j) {
    group.WaitKey();
    group.TakeTurn();
    group.StartScores(s);
    group.WaitValue();
    group.StartOutputs(o, p);
    group.PassTurn();
    MmaWait<OVERLAP == 2 ? 1 : 0>();
    Pin(s);
    group.ReleaseKey();
    WeighBlock(s, j, rows, state, scale, alpha);
    MmaWait<0>();
    Pin(o);
    group.ReleaseValue();
    Rescale(o, alpha);
    PackAll(s, p);
  }
  group.Release(group.arena.QueryFree(group.index));
  group.WaitValue();
  group.StartOutputs(o, p);
  MmaWait<0>();
  Pin(o);
  group.ReleaseValue();
}

__device__ void Consume(const Problem& problem, const Arena& arena, const Maps& maps, int index,
                        int tiles, const Results& results) {
  Group group{arena, index};
  const int lane = threadIdx.x % 32;
  const int row_in_group = threadIdx.x % 128 / 32 * 16 + lane / 4;
  const Scale scale = ScaleOf(problem);
  // The first turn is group 0's: the last group passes it before it has had one.
  if (PINGPONG && index == kGroups - 1) group.PassTurn();
  for (Rounds rounds(problem); rounds.Tile() < tiles; rounds.Next()) {
    const Span tile = SpanAt(problem, rounds.Tile());
    if (tile.IsEmpty()) continue;
    const int first_row = tile.row + index * 64;
    const int row = first_row + row_in_group;
    const Rows rows = RowsAt(problem, tile, row, first_row, 64);
    float o[kOutputs];
#pragma unroll
    for (int i = 0; i < kOutputs; ++i) o[i] = 0.0f;
    RowState state;
    Reset(state);
    BarrierWait(arena.QueryFull(index), group.query_phase);
    group.query_phase ^= 1;
    const Blocks of_tile = BlocksOf(problem, tile, tile.row, tile.end - tile.row);
    // The last groups of a tile that is not full have no rows and skip every block.
    const bool past_end = kGroups > 1 && first_row >= tile.end;
    Blocks blocks = BlocksOf(problem, tile, first_row, 64);
    if (past_end) blocks.first = blocks.end = of_tile.first;
    for (int j = of_tile.end; j > blocks.end; --j) group.SkipBlock();
    if (past_end || (SHIFTED && blocks.end == 0)) group.Release(arena.QueryFree(index));
    if (past_end) continue;
#if HALVE
    if (!(SHIFTED && blocks.end == 0) &&
        first_row + 64 + tile.Shift() - (blocks.end - 1) * BLOCK_N <= BLOCK_N / 2) {
      --blocks.end;
      AttendBlock<kScores / 2>(group, blocks.end, blocks.end == blocks.first, rows, scale, state,
                               o);
    }
#endif
    if (OVERLAP == 0) {
      AttendInTurn(group, blocks, rows, scale, state, o);
    } else if (blocks.end > blocks.first) {
      AttendAhead(group, blocks, rows, scale, state, o);
    }
    for (int j = of_tile.first; WINDOWED && j < blocks.first; ++j) group.SkipBlock();
    Store(problem, tile, row, scale.log2, state, o, results);
  }
  // Takes the turn that nobody is left to take.
  if (PINGPONG && index == 0) group.TakeTurn();
}

__device__ __forceinline__ void Attend(const Problem& problem, const Maps& maps,
                                       const Results& results) {
  extern __shared__ __align__(1024) unsigned char shared[];
  const Arena arena = {SharedAddress(shared)};
  const int tiles = TilesOfHead(problem) * problem.batch * problem.heads;
  if (threadIdx.x == 0) InitBarriers(arena);
  __syncthreads();
  const int index = __shfl_sync(0xffffffffu, threadIdx.x / 128, 0);
  if (index == kGroups) {
#if BLOCK_M * CTAS > 64
    RegistersLower<kGroups == 3 ? 32 : 24>();
#endif
    if (threadIdx.x % 128 == 0) Produce(problem, arena, maps, tiles);
  } else {
#if BLOCK_M * CTAS > 64
    RegistersRaise<kGroups == 3 ? 160 : kGroups == 2 ? 240 : 232>();
#endif
    Consume(problem, arena, maps, index, tiles, results);
  }
}
