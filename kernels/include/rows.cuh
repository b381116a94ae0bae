// SPDX-License-Identifier: Apache-2.0
// A row of a [rows, COLS] matrix as one thread sees it. ROW_THREADS threads in each of CLUSTER
// blocks share a row; a block works on ROWS rows at a time.
#pragma once

#include "async_copy.cuh"
#include "cluster.cuh"
#include "element.cuh"

// The place of a row between the passes over it (KEEP): in registers, as it came (packed); in
// shared memory, where each thread copies its own vectors (async); nowhere: it is read again
// (none).
enum Keep { packed, async, none };

static_assert(CLUSTER == 1 || ROW_THREADS > 32, "blocks merge what warps have");
static_assert(ROWS == 1 || ROW_THREADS <= 32, "a block's barrier is for one row");
constexpr int kThreads = ROW_THREADS * ROWS;
constexpr int kBlocksPerSm = Max(1, Min(32, SM_THREADS / kThreads));

// A row is walked in aligned vectors. Where rows do not start on a vector boundary, the walk starts
// at the boundary before the row, and its first and last vectors are only partly the row's.
constexpr bool kAligned = COLS % kVector == 0;
constexpr int kRowVectors = CeilDiv(COLS + (kAligned ? 0 : kVector - 1), kVector);
constexpr int kChunk = CeilDiv(kRowVectors, CLUSTER);  // vectors of a row that a block owns
constexpr int kItems = CeilDiv(kChunk, ROW_THREADS);   // vectors of a row that a thread owns
constexpr bool kExact =  // no vector is out of range
    kAligned && kItems * ROW_THREADS * CLUSTER == kRowVectors;
// Passes over what registers do not hold are unrolled so far.
constexpr int kUnroll = KEEP == packed ? kItems : Min(4, 64 / VECTOR_BYTES);

// A row, and a thread's place in the work on it.
struct Row {
  long long index;
  long long first;  // element at the vector boundary at or before the row
  int offset;       // elements from there to the row
  bool exists;
  int lane;  // of the thread among the row's in this block
  int rank;  // of this block among the row's
};

__device__ __forceinline__ Row RowAt(long long index, long long rows) {
  const long long start = index * COLS;
  const int offset = kAligned ? 0 : static_cast<int>(start % kVector);
  return {index,
          start - offset,
          offset,
          ROWS == 1 || index < rows,
          static_cast<int>(threadIdx.x % ROW_THREADS),
          static_cast<int>(blockIdx.x % CLUSTER)};
}

// The row of a thread in a grid that has a block, or a cluster, for each ROWS rows.
__device__ __forceinline__ Row RowOfThread(long long rows) {
  return RowAt(blockIdx.x / CLUSTER * static_cast<long long>(ROWS) + threadIdx.x / ROW_THREADS,
               rows);
}

// Whether this is the first thread of the row's.
__device__ __forceinline__ bool Leads(const Row& row) {
  return row.exists && row.lane == 0 && row.rank == 0;
}

// Which vector of its row is a thread's item i? kRowVectors if none.
__device__ __forceinline__ int VectorOf(const Row& row, int i) {
  const int index = i * ROW_THREADS + row.lane;
  if constexpr (kExact) return row.rank * kChunk + index;
  return index < kChunk ? Min(row.rank * kChunk + index, kRowVectors) : kRowVectors;
}

__device__ __forceinline__ bool IsInside(const Row& row, int v) {
  return row.exists && (kExact || v < kRowVectors);
}

// Can item i be a vector that only begins or ends in the row? Known when loops are unrolled.
__device__ __forceinline__ constexpr bool MayBePart(int i) {
  constexpr int kLastChunk = kRowVectors - (CLUSTER - 1) * kChunk;
  return !kAligned && (i == 0 || (i + 1) * ROW_THREADS > kLastChunk - 2);
}

__device__ __forceinline__ bool IsPart(const Row& row, int v) {
  return v * kVector < row.offset || (v + 1) * kVector > row.offset + COLS;
}

// The elements of vector v that are the row's.
__device__ __forceinline__ int FirstOf(const Row& row, int v) {
  return Max(0, row.offset - v * kVector);
}
__device__ __forceinline__ int EndOf(const Row& row, int v) {
  return Min(kVector, row.offset + COLS - v * kVector);
}

// The place of item i of a row, if it is inside. Items differ by a constant.
template <typename T>
__device__ __forceinline__ T* ItemOf(T* x, const Row& row, int i) {
  return x + row.first + static_cast<long long>(row.rank * kChunk + row.lane) * kVector +
         i * (ROW_THREADS * kVector);
}

__device__ __forceinline__ Vector Load(const Bits* x, const Row& row, int i, unsigned pad = 0) {
  const int v = VectorOf(row, i);
  if (!IsInside(row, v)) return Filled(pad);
  const Bits* from = ItemOf(x, row, i);
  if (MayBePart(i) && IsPart(row, v)) {
    return LoadElements(from, FirstOf(row, v), EndOf(row, v), pad);
  }
  return LoadVector(from);
}

__device__ __forceinline__ void Store(Bits* y, const Row& row, int i, const Vector& vector) {
  const int v = VectorOf(row, i);
  if (!IsInside(row, v)) return;
  Bits* to = ItemOf(y, row, i);
  if (MayBePart(i) && IsPart(row, v)) {
    StoreElements(to, FirstOf(row, v), EndOf(row, v), vector);
    return;
  }
  StoreVector(to, vector);
}

// The elements beside item i of a row, of a [COLS] vector that all rows share. Rows are aligned.
__device__ __forceinline__ Vector LoadColumns(const Bits* of_columns, const Row& row, int i) {
  const int v = VectorOf(row, i);
  if (!kExact && v >= kRowVectors) return Filled(0);
  return LoadVector<cached>(of_columns + v * kVector);
}

// ---- What a thread keeps of a row ---------------------------------------------------------------

#if !TUNE_CPU
extern __shared__ __align__(128) unsigned char dynamic_shared[];
#endif

// The place of a tensor's rows in shared memory, for one thread: item i is i * ROW_THREADS on.
__device__ __forceinline__ Vector* Stage([[maybe_unused]] const Row& row,
                                         [[maybe_unused]] int slot) {
#if TUNE_CPU
  return nullptr;
#else
  const int group = slot * ROWS + static_cast<int>(threadIdx.x) / ROW_THREADS;
  return reinterpret_cast<Vector*>(dynamic_shared) + group * (kItems * ROW_THREADS) + row.lane;
#endif
}

// Copies a thread's vectors of a row to shared memory, without waiting for them. Each thread reads
// only what it copied itself, so CopyWait is enough.
__device__ __forceinline__ void CopyToStage([[maybe_unused]] Vector* stage,
                                            [[maybe_unused]] const Bits* x,
                                            [[maybe_unused]] const Row& row,
                                            [[maybe_unused]] unsigned pad) {
#if !TUNE_CPU
#pragma unroll 4
  for (int i = 0; i < kItems; ++i) {
    const int v = VectorOf(row, i);
    if (!IsInside(row, v)) continue;
    Vector* to = stage + i * ROW_THREADS;
    if (MayBePart(i) && IsPart(row, v)) {
      *to = Load(x, row, i, pad);
      continue;
    }
    const Bits* from = ItemOf(x, row, i);
#pragma unroll
    for (int piece = 0; piece < kPieces; ++piece) {
      CopyChunk(SharedAddress(reinterpret_cast<Piece*>(to) + piece),
                reinterpret_cast<const Piece*>(from) + piece);
    }
  }
#endif
}

// A thread's vectors of a row of one tensor, between the passes over it. `pad` are the bits of what
// is not the row's.
template <unsigned pad = 0>
class Share {
 public:
  // Starts to fetch them. `slot`: which of the tensors that wait in shared memory.
  __device__ __forceinline__ void Fetch(const Bits* x, const Row& row, int slot) {
    if constexpr (KEEP == packed) {
#pragma unroll
      for (int i = 0; i < kItems; ++i) raw_[i] = Load(x, row, i, pad);
    } else if constexpr (KEEP == async) {
      stage_ = Stage(row, slot);
      CopyToStage(stage_, x, row, pad);
      CopyCommit();
    } else {
      x_ = x;
    }
  }

  __device__ __forceinline__ Vector Get(const Row& row, int i) const {
    if constexpr (KEEP == packed) return Forgotten(raw_[i]);
    if constexpr (KEEP == none) return Load(x_, row, i, pad);
    return IsInside(row, VectorOf(row, i)) ? stage_[i * ROW_THREADS] : Filled(pad);
  }

  __device__ __forceinline__ void Get(const Row& row, int i, float (&value)[kVector]) const {
    Unpack(Get(row, i), value);
  }

 private:
  Vector raw_[KEEP == packed ? kItems : 1];
  Vector* stage_;
  const Bits* x_;
};

// ---- What the threads of a row know together ----------------------------------------------------

constexpr unsigned kAll = 0xffffffffu;  // lanes of a warp

// Some floats of a thread's, which are merged with those of the row's other threads.
template <int n>
struct Partial {
  float value[n];
};

struct Add {
  template <int n>
  __device__ __forceinline__ void operator()(Partial<n>& to, const Partial<n>& other) const {
#pragma unroll
    for (int k = 0; k < n; ++k) to.value[k] += other.value[k];
  }
};

template <int width, int n, typename Merge>
__device__ __forceinline__ void MergeInWarp(Partial<n>& partial, const Merge& merge) {
#pragma unroll
  for (int mask = width / 2; mask > 0; mask /= 2) {
    Partial<n> other;
#pragma unroll
    for (int k = 0; k < n; ++k) other.value[k] = __shfl_xor_sync(kAll, partial.value[k], mask);
    merge(partial, other);
  }
}

#if CLUSTER > 1
// Writes to `slot` as block `rank` of the cluster has it.
template <int n>
__device__ __forceinline__ void Send(const Partial<n>& partial, int rank, Partial<n>* slot,
                                     int turn) {
  const unsigned to = InBlock(rank, SharedAddress(slot));
  const unsigned arrivals = InBlock(rank, Arrivals(turn));
#pragma unroll
  for (int k = 0; k < n; ++k) {
    SendFloats(to + 4 * k, arrivals, partial.value[k]);
  }
}
#endif

// Who tells the other blocks of a cluster: each warp what it knows; or one warp what the block
// knows, of which there is less, after a barrier of the block.
enum Route { by_warp, by_block };

// Every thread of the row gets the same answer. `turn` counts the merges of a kernel. The slots of
// one are written again two turns on. By then all have read them: who writes has heard from all in
// between, and they had read before they told.
template <Route route = by_warp, int n, typename Merge = Add>
__device__ __forceinline__ void MergeInRow(Partial<n>& partial, [[maybe_unused]] const Row& row,
                                           [[maybe_unused]] int turn,
                                           const Merge& merge = Merge()) {
  MergeInWarp<Min(ROW_THREADS, 32)>(partial, merge);
#if ROW_THREADS > 32
  constexpr int kWarps = ROW_THREADS / 32;
  constexpr int kSlots = CLUSTER == 1 ? kWarps : route == by_block ? CLUSTER : kWarps * CLUSTER;
  __shared__ Partial<n> both_turns[2][kSlots];
  Partial<n>* slots = both_turns[turn % 2];
  const int warp = threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
#if CLUSTER > 1
  if (threadIdx.x == 0) Expect(turn, sizeof(both_turns[0]));
  if constexpr (route == by_warp) {
    if (lane < CLUSTER) Send(partial, lane, &slots[row.rank * kWarps + warp], turn);
  } else {
    __shared__ Partial<n> of_warps[2][kWarps];
    if (lane == 0) of_warps[turn % 2][warp] = partial;
    __syncthreads();
    if (warp == 0) {
      partial = of_warps[turn % 2][lane % kWarps];
      MergeInWarp<kWarps>(partial, merge);
      if (lane < CLUSTER) Send(partial, lane, &slots[row.rank], turn);
    }
  }
  AwaitArrivals(turn);
#else
  if (lane == 0) slots[warp] = partial;
  __syncthreads();
#endif
  partial = slots[lane % Min(kSlots, 32)];
#pragma unroll
  for (int i = 32; i < kSlots; i += 32) merge(partial, slots[i + lane]);
  MergeInWarp<Min(kSlots, 32)>(partial, merge);
#endif
}
