// SPDX-License-Identifier: Apache-2.0
// The sm_90a path. One warpgroup, the producer, copies A and B by TMA through a ring of STAGES
// slots; the consumer warpgroups multiply with WGMMA and keep their sums in registers. Blocks stay
// and walk over tiles, and the copies run ahead into the next tile.
//
// Without PINGPONG the consumers share a tile. With it each has a tile of its own, every other one
// of the block: while one stores its tile, the other multiplies.
#pragma once

#include "sums.h"
#include "wgmma.cuh"

constexpr int kStrips = PINGPONG ? BLOCK_M / 64 : BLOCK_M > 128 ? 2 : 1;  // of 64 rows a group
constexpr int kGroups = PINGPONG ? 2 : BLOCK_M / 64 / kStrips;
constexpr int kThreads = (kGroups + 1) * 128;
constexpr int kBlocksPerSm = CTAS;
constexpr int kSharers = CLUSTER_M * CLUSTER_N;  // blocks that load for each other
constexpr int kCluster = kSharers * CLUSTER_K;

constexpr int kWidth = 128 / kInputBytes;    // elements that the swizzle spans
constexpr int kMmaDepth = 32 / kInputBytes;  // of the summed axis in one multiplication

constexpr int kTurnBarrier = 1;  // the named barriers 1 and 2 pass the turn between groups

// A tile of an operand lies in slabs of kWidth elements (128 bytes, which the swizzle spans) of its
// contiguous axis. kRows are those of one slab; kParts blocks of the cluster load a part each. Of A
// there are fewer rows than BLOCK_M where the problem has no more: WGMMA then reads what follows in
// the ring, and its sums of these rows are not stored.
template <bool kAcross, int kSize, int kShared>
struct Operand {
  static constexpr int kSlabs = kAcross ? (kSize + kWidth - 1) / kWidth : BLOCK_K / kWidth;
  static constexpr int kRows = kAcross ? BLOCK_K : kSize;
  static constexpr int kSlabBytes = kRows * 128;
  static constexpr int kBytes = kSlabs * kSlabBytes;
  static constexpr int kStripBytes = kAcross ? kSlabBytes : 64 * 128;  // to the next 64 rows
  static constexpr int kParts = kShared;

  // The descriptor of the tile from row `row` on, and what is added to it for each of the summed
  // axis from `step`.
  __device__ static unsigned long long At(unsigned tile, int row) {
    return kAcross ? Descriptor(tile + row / 64 * kSlabBytes, kSlabBytes)
                   : Descriptor(tile + row * 128, 16);
  }
  __device__ static constexpr int Further(int step) {
    return (kAcross ? step * 128 : step / kWidth * kSlabBytes + step % kWidth * kInputBytes) / 16;
  }
};
using OperandA = Operand<TRANSPOSE_A, A_ROWS, CLUSTER_N>;
using OperandB = Operand<!TRANSPOSE_B, BLOCK_N, CLUSTER_M>;
constexpr int kStageBytes = OperandA::kBytes + OperandB::kBytes;

// Addresses in shared memory: the ring of A, that of B, then the mbarriers.
struct Arena {
  unsigned base;
  __device__ unsigned A(int slot) const { return base + slot * OperandA::kBytes; }
  __device__ unsigned B(int slot) const { return A(STAGES) + slot * OperandB::kBytes; }
  __device__ unsigned Full(int slot) const { return B(STAGES) + slot * 8; }
  __device__ unsigned Free(int slot) const { return Full(STAGES + slot); }
};

// A position in the ring.
struct Cursor {
  int slot = 0;
  unsigned phase = 0;
  __device__ __forceinline__ void Advance() {
    if (++slot == STAGES) {
      slot = 0;
      phase ^= 1;
    }
  }
  __device__ __forceinline__ int Before() const { return slot == 0 ? STAGES - 1 : slot - 1; }
  __device__ __forceinline__ void Skip(int steps) {
    slot += steps;
    phase ^= slot / STAGES & 1;
    slot %= STAGES;
  }
};

struct Maps {
  const CUtensorMap* a;
  const CUtensorMap* b;
};

__device__ __forceinline__ void InitBarriers(const Arena& arena) {
  for (int i = 0; i < STAGES; ++i) {
    BarrierInit(arena.Full(i), 1);
    // Each warp that reads the slot arrives, in every block that shares what is in it.
    BarrierInit(arena.Free(i), 4 * (PINGPONG ? 1 : kGroups) * kSharers);
  }
  BarrierInitFence();
}

// The rank of a block among those that load for each other, which have the same part of the summed
// axis, by its rank in the cluster.
__device__ __forceinline__ int RankOfSharers(int rank) {
  return CLUSTER_K > 1 ? rank % kSharers : rank;
}

// Loads an operand's tile, or this block's part of it for all blocks of the cluster. `first` is on
// the contiguous axis, `row` on the other.
template <typename OperandOf>
__device__ __forceinline__ void LoadTile(unsigned to, const CUtensorMap* map, unsigned barrier,
                                         int first, int row, int rank) {
  constexpr int kPartRows = OperandOf::kRows / OperandOf::kParts;
  const int part = RankOfSharers(rank);
  const unsigned short all = ((1 << kSharers) - 1) << (rank - part);
#pragma unroll
  for (int slab = 0; slab < OperandOf::kSlabs; ++slab) {
    if (OperandOf::kParts == 1) {
      LoadBox(to + slab * OperandOf::kSlabBytes, map, barrier, first + slab * kWidth, row);
    } else {
      LoadBoxForAll(to + slab * OperandOf::kSlabBytes + part * kPartRows * 128, map, barrier,
                    first + slab * kWidth, row + part * kPartRows, all);
    }
  }
}

// The tiles of this block's cluster.
__device__ __forceinline__ Walk WalkOf(const Problem& problem, int rank) {
#if STREAM_K > 0
  return Walk(problem, blockIdx.x, gridDim.x);
#else
  return Walk(problem, blockIdx.x / kCluster, gridDim.x / kCluster, rank);
#endif
}

// The work of one thread. It runs ahead of the consumers as far as the ring allows, into the
// next tile too.
__device__ void Produce(const Problem& problem, const Arena& arena, const Maps& maps,
                        const Walk& walk, int rank) {
  Cursor at;
  PrefetchMap(maps.a);
  PrefetchMap(maps.b);
  for (int i = 0; i < walk.count; ++i) {
    const Tile tile = walk.At(problem, i);
    for (int step = tile.first; step < tile.end; ++step) {
      const int k = step * BLOCK_K;
      const unsigned full = arena.Full(at.slot);
      BarrierWait(arena.Free(at.slot), at.phase ^ 1);
      BarrierExpect(full, kStageBytes);
      LoadTile<OperandA>(arena.A(at.slot), maps.a, full, TRANSPOSE_A ? tile.row : k,
                         TRANSPOSE_A ? k : tile.row, rank);
      LoadTile<OperandB>(arena.B(at.slot), maps.b, full, TRANSPOSE_B ? k : tile.column,
                         TRANSPOSE_B ? tile.column : k, rank);
      at.Advance();
    }
  }
}

// Gives a slot back to the producers of all blocks that load into it.
__device__ __forceinline__ void Release(unsigned barrier) {
  const int lane = threadIdx.x % 32;
  if (kSharers == 1) {
    if (lane == 0) BarrierArrive(barrier);
  } else if (lane < kSharers) {
    const int first = CLUSTER_K > 1 ? ClusterRank() / kSharers * kSharers : 0;
    BarrierArriveAt(barrier, first + lane);
  }
}

// Starts sums += A B for the slot's BLOCK_K of the summed axis; `row` is the group's first.
__device__ __forceinline__ void StartSlot(const Arena& arena, int slot, int row, bool accumulate,
                                          float (&sums)[kStrips][BLOCK_N / 2]) {
  const unsigned long long a = OperandA::At(arena.A(slot), row);
  const unsigned long long b = OperandB::At(arena.B(slot), 0);
  constexpr int kStrip = OperandA::kStripBytes / 16;
  MmaFence();
#pragma unroll
  for (int step = 0; step < BLOCK_K; step += kMmaDepth) {
#pragma unroll
    for (int strip = 0; strip < kStrips; ++strip) {
      SharedMma<TRANSPOSE_A, !TRANSPOSE_B>(
          sums[strip], a + strip * kStrip + OperandA::Further(step), b + OperandB::Further(step),
          accumulate || step > 0);
    }
  }
  MmaCommit();
}

// With PINGPONG the groups take turns to wait for slots: a parity tells a filling from the one
// before only, so nobody may wait for one that is further ahead.
__device__ __forceinline__ void TakeTurn(int group) {
  if (PINGPONG) NamedSync(kTurnBarrier + group, 256);
}
__device__ __forceinline__ void PassTurn(int group) {
  if (PINGPONG) NamedSignal(kTurnBarrier + 1 - group, 256);
}

#if PROMOTE > 0
// A consumer warpgroup's share of a tile: multiplies as slots fill. The tensor core sums e4m3 with
// fewer bits than f32 has, so the sums of each PROMOTE slots begin at zero and are added up here.
__device__ __forceinline__ void SumTile(const Arena& arena, const Tile& tile, int row, Cursor& at,
                                        float (&sums)[kStrips][BLOCK_N / 2]) {
#pragma unroll
  for (int strip = 0; strip < kStrips; ++strip) {
#pragma unroll
    for (int i = 0; i < BLOCK_N / 2; ++i) sums[strip][i] = 0.0f;
  }
  for (int step = tile.first; step < tile.end;) {
    float parts[kStrips][BLOCK_N / 2];
    const int end = step + PROMOTE < tile.end ? step + PROMOTE : tile.end;
    for (bool accumulate = false; step < end; ++step, accumulate = true) {
      BarrierWait(arena.Full(at.slot), at.phase);
      StartSlot(arena, at.slot, row, accumulate, parts);
      if (accumulate) {
        MmaWait<1>();
        Release(arena.Free(at.Before()));
      }
      at.Advance();
    }
    MmaWait<0>();
#pragma unroll
    for (int strip = 0; strip < kStrips; ++strip) Pin(parts[strip]);
    Release(arena.Free(at.Before()));
#pragma unroll
    for (int strip = 0; strip < kStrips; ++strip) {
#pragma unroll
      for (int i = 0; i < BLOCK_N / 2; ++i) sums[strip][i] += parts[strip][i];
    }
  }
}

__device__ __forceinline__ void FinishSums(const Arena&, const Cursor&,
                                           float (&)[kStrips][BLOCK_N / 2]) {}
#else
// A consumer warpgroup's share of a tile: multiplies as slots fill, and gives each back once the
// multiplication after it has started.
__device__ __forceinline__ void SumTile(const Arena& arena, const Tile& tile, int row, Cursor& at,
                                        float (&sums)[kStrips][BLOCK_N / 2]) {
  for (int step = tile.first; step < tile.end; ++step) {
    BarrierWait(arena.Full(at.slot), at.phase);
    StartSlot(arena, at.slot, row, step > tile.first, sums);
    if (step > tile.first) {
      MmaWait<1>();
      Release(arena.Free(at.Before()));
    }
    at.Advance();
  }
}

// Waits for the last multiplication of a tile.
__device__ __forceinline__ void FinishSums(const Arena& arena, const Cursor& at,
                                           float (&sums)[kStrips][BLOCK_N / 2]) {
  MmaWait<0>();
#pragma unroll
  for (int strip = 0; strip < kStrips; ++strip) Pin(sums[strip]);
  Release(arena.Free(at.Before()));
}
#endif

#if CLUSTER_K > 1
// A block's sums in its shared memory, where the ring was: rows of kPitch floats, so that those of
// eight rows lie in different banks.
constexpr int kPitch = BLOCK_N + 8;
static_assert(BLOCK_M * kPitch * 4 <= STAGES * kStageBytes, "the sums fit where the ring was");

__device__ __forceinline__ void ShowSums(const Arena& arena, int row,
                                         const float (&sums)[BLOCK_N / 2]) {
#pragma unroll
  for (int i = 0; i < BLOCK_N / 2; i += 2) {
    const int column = i / 4 * 8 + threadIdx.x % 4 * 2;
    const unsigned at = arena.base + ((row + i / 2 % 2 * 8) * kPitch + column) * 4;
    asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(at), "f"(sums[i]), "f"(sums[i + 1])
                 : "memory");
  }
}

// Adds what the blocks with the other parts have for this block's share of the tile's rows.
__device__ __forceinline__ void AddAndStore(const Problem& problem, const Arena& arena,
                                            const Output& output, const Tile& tile, int rank) {
  constexpr int kRows = BLOCK_M / CLUSTER_K;
  for (int i = threadIdx.x * 4; i < kRows * BLOCK_N; i += kGroups * 128 * 4) {
    const int row = i / BLOCK_N * CLUSTER_K + rank / kSharers;
    const int column = i % BLOCK_N;
    if (tile.row + row >= problem.m || tile.column + column >= problem.n) continue;
    alignas(16) float sums[4] = {};
#pragma unroll
    for (int from = 0; from < CLUSTER_K; ++from) {
      const float4 part = LoadFrom(arena.base + (row * kPitch + column) * 4,
                                   from * kSharers + RankOfSharers(rank));
      sums[0] += part.x;
      sums[1] += part.y;
      sums[2] += part.z;
      sums[3] += part.w;
    }
#pragma unroll
    for (int e = 0; e < 4; e += kTogether) {
      if (tile.column + column + e < problem.n) {
        StoreTogether(problem, output, tile.row + row, tile.column + column + e,
                      *reinterpret_cast<const Sums*>(sums + e));
      }
    }
  }
}
#endif

// A group's share of a tile, from row `row` of it. Where blocks share a tile, all threads of their
// cluster meet here, which has no other work.
__device__ __forceinline__ void StoreTile(const Problem& problem, const Arena& arena,
                                          const Output& output, const Tile& tile, int row,
                                          int rank, const float (&sums)[kStrips][BLOCK_N / 2]) {
  const int row_in_strip = threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4;
#if CLUSTER_K > 1
  NamedSync(kTurnBarrier, kGroups * 128);  // Nobody reads the ring any more.
#pragma unroll
  for (int strip = 0; strip < kStrips; ++strip) {
    ShowSums(arena, row + strip * 64 + row_in_strip, sums[strip]);
  }
  ClusterSync();
  AddAndStore(problem, arena, output, tile, rank);
#else
#pragma unroll
  for (int strip = 0; strip < kStrips; ++strip) {
    StoreSums(problem, output, tile, tile.row + row + strip * 64 + row_in_strip, tile.column,
              sums[strip]);
  }
#endif
}

__device__ void Consume(const Problem& problem, const Arena& arena, const Output& output,
                        const Walk& walk, int group, int rank) {
  const int first_row = PINGPONG ? 0 : group * kStrips * 64;
  Cursor at;
  if (group == 1) PassTurn(group);  // the first is group 0's
  for (int i = 0; i < walk.count; ++i) {
    const Tile tile = walk.At(problem, i);
    if (PINGPONG && i % 2 != group) {
      at.Skip(tile.end - tile.first);
      continue;
    }
    float sums[kStrips][BLOCK_N / 2];
    TakeTurn(group);
    SumTile(arena, tile, first_row, at, sums);
    if (i + 1 < walk.count) PassTurn(group);
    FinishSums(arena, at, sums);
    StoreTile(problem, arena, output, tile, first_row, rank, sums);
  }
}

__device__ __forceinline__ void Multiply(const Problem& problem, const Maps& maps,
                                         const Output& output) {
  extern __shared__ __align__(1024) unsigned char shared[];
  const Arena arena = {SharedAddress(shared)};
  const int rank = kCluster > 1 ? ClusterRank() : 0;
  const Walk walk = WalkOf(problem, rank);
  if (threadIdx.x == 0) InitBarriers(arena);
  if (kCluster > 1) {
    ClusterSync();
  } else {
    __syncthreads();
  }
  const int group = __shfl_sync(0xffffffffu, threadIdx.x / 128, 0);
  if (group == kGroups) {
    if (kGroups == 2) RegistersLower<24>();
    if (threadIdx.x % 128 == 0) Produce(problem, arena, maps, walk, rank);
    __syncwarp();
    if (CLUSTER_K > 1) ClusterSync();  // The sums are there.
  } else {
    if (kGroups == 2) RegistersRaise<240>();
    Consume(problem, arena, output, walk, group, rank);
  }
  // No block leaves while another may still write to its memory or arrive at its barriers.
  if (kCluster > 1) ClusterSync();
}
