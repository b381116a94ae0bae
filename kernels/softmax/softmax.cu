// SPDX-License-Identifier: Apache-2.0
// Softmax along the last dimension of a row-major [rows, COLS] matrix, whose rows may be apart.
// Each element is read once from device memory (unless KEEP is `none`: see README.md).
#if TUNE_REFERENCE

#if DTYPE_BF16
#include <cuda_bf16.h>
#elif DTYPE_F16
#include <cuda_fp16.h>
#endif

// A block of 256 threads takes a row; three plain passes in double precision.
extern "C" __global__ void softmax_reference(const DTYPE* x, double* y, long long rows) {
  __shared__ double partial[256];
  const int thread = threadIdx.x;
  for (long long row = blockIdx.x; row < rows; row += gridDim.x) {
    const DTYPE* in = x + row * COLS;
    double* out = y + row * COLS;

    double largest = static_cast<double>(static_cast<float>(in[0]));
    for (int col = thread; col < COLS; col += 256) {
      largest = fmax(largest, static_cast<double>(static_cast<float>(in[col])));
    }
    partial[thread] = largest;
    __syncthreads();
    for (int i = 0; i < 256; ++i) largest = fmax(largest, partial[i]);
    __syncthreads();

    double sum = 0;
    for (int col = thread; col < COLS; col += 256) {
      out[col] = exp(static_cast<double>(static_cast<float>(in[col])) - largest);
      sum += out[col];
    }
    partial[thread] = sum;
    __syncthreads();
    sum = 0;
    for (int i = 0; i < 256; ++i) sum += partial[i];
    __syncthreads();

    for (int col = thread; col < COLS; col += 256) out[col] /= sum;
  }
}

#else

#include "cluster.cuh"
#include "row.cuh"

// ---- Copies into and out of shared memory -------------------------------------------------------

#if STAGED

extern __shared__ __align__(128) unsigned char dynamic_shared[];

__device__ __forceinline__ Vector* Stage() {
  return reinterpret_cast<Vector*>(dynamic_shared) +
         threadIdx.x / ROW_THREADS * (kItems * ROW_THREADS);
}

#if BULK

__device__ __forceinline__ int BulkBytes(const Row& row) {
  return Min(kChunk, kRowVectors - row.rank * kChunk) * VECTOR_BYTES;
}

// The threads of a row in this block meet.
__device__ __forceinline__ void MeetInRow() {
  if constexpr (ROW_THREADS > 32) {
    __syncthreads();
  } else {
    __syncwarp();
  }
}

__device__ __forceinline__ void CopyIn(Vector* stage, const Bits* x, const Row& row) {
  __shared__ __align__(8) unsigned long long barriers[ROWS];
  const unsigned barrier = SharedAddress(&barriers[threadIdx.x / ROW_THREADS]);
  if (row.lane == 0) {
    const Vector* from = reinterpret_cast<const Vector*>(x + row.first) + row.rank * kChunk;
    const int bytes = BulkBytes(row);
    BarrierInit(barrier, 1);
    BarrierInitFence();
    if (row.exists) {
      // BarrierExpect and BulkLoad in one piece, as measured: the compiler puts nothing in between.
      asm volatile(
          "mbarrier.arrive.expect_tx.shared.b64 _, [%3], %2;\n"
          "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
          ::"r"(SharedAddress(stage)), "l"(from), "r"(bytes), "r"(barrier)
          : "memory");
    }
  }
  MeetInRow();
  if (!row.exists) return;
  // BarrierWait as a loop in PTX, as measured: the compiler does not unroll it.
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared.b64 done, [%0], 0;\n"
      "@!done bra again;\n"
      "}\n" ::"r"(barrier)
      : "memory");
}

// Once all threads of the row have written their results to `stage`, one copies them to `y`, and
// stays until they have been read: the block's shared memory ends with the block.
__device__ __forceinline__ void CopyOut(Bits* y, const Vector* stage, const Row& row) {
  AsyncFence();
  MeetInRow();
  if (row.lane != 0 || !row.exists) return;
  Vector* to = reinterpret_cast<Vector*>(y + row.first) + row.rank * kChunk;
  BulkStore(to, SharedAddress(stage), BulkBytes(row));
  BulkWaitRead();
}

#else

// Each thread copies its own vectors; nobody else reads them.
__device__ __forceinline__ void CopyIn(Vector* stage, const Bits* x, const Row& row) {
#pragma unroll 4
  for (int i = 0; i < kItems; ++i) {
    const int v = VectorOf(row, i);
    if (!IsInside(row, v)) continue;
    Vector* to = stage + i * ROW_THREADS + row.lane;
    const Vector* from = reinterpret_cast<const Vector*>(x + row.first) + v;
#if !ALIGNED
    if (MayBePart(i) && IsPart(row, v)) {
      *to = LoadPart(from, row, v);
      continue;
    }
#endif
#pragma unroll
    for (int piece = 0; piece < kPieces; ++piece) {
      CopyChunk(SharedAddress(reinterpret_cast<Piece*>(to) + piece),
                reinterpret_cast<const Piece*>(from) + piece);
    }
  }
  CopyWaitAll();
}

#endif  // BULK
#endif  // STAGED

// ---- Merging what the threads of a row know -----------------------------------------------------

constexpr unsigned kAll = 0xffffffffu;  // lanes of a warp

// The largest of some elements, and the sum of exp(element - largest).
struct alignas(8) Partial {
  float largest;
  float sum;
};

// Which of the two a merge is about.
enum Part { kLargest, kSum, kBoth };

// All threads of `width` get the same answer. With both, sums around different maxima are brought
// around the largest one before they are added.
template <Part part, int width>
__device__ __forceinline__ Partial MergedInWarp(Partial partial) {
  if constexpr (part != kSum) {
    const float own = partial.largest;
#pragma unroll
    for (int mask = width / 2; mask > 0; mask /= 2) {
      partial.largest = fmaxf(partial.largest, __shfl_xor_sync(kAll, partial.largest, mask));
    }
    if constexpr (part == kBoth) partial.sum *= Exp(own, partial.largest);
  }
  if constexpr (part != kLargest) {
#pragma unroll
    for (int mask = width / 2; mask > 0; mask /= 2) {
      partial.sum += __shfl_xor_sync(kAll, partial.sum, mask);
    }
  }
  return partial;
}

template <Part part>
__device__ __forceinline__ Partial Merged(Partial a, Partial b) {
  if constexpr (part == kSum) return {a.largest, a.sum + b.sum};
  const float largest = fmaxf(a.largest, b.largest);
  if constexpr (part == kLargest) return {largest, 0.0f};
  return {largest, a.sum * Exp(a.largest, largest) + b.sum * Exp(b.largest, largest)};
}

#if CLUSTER > 1
// Writes to `slot` as block `rank` of the cluster has it.
__device__ __forceinline__ void Send(Partial partial, int rank, Partial* slot, int turn) {
  SendFloats(InBlock(rank, SharedAddress(slot)), InBlock(rank, Arrivals(turn)), partial.largest,
             partial.sum);
}
#endif

// Every thread of the row gets the same answer. Two calls need two values of `turn`: nobody writes
// the slots of a turn again.
template <Part part, int turn>
__device__ __forceinline__ Partial MergedInRow(Partial partial, const Row& row) {
  partial = MergedInWarp<part, Min(ROW_THREADS, 32)>(partial);
#if ROW_THREADS > 32
  constexpr int kWarps = ROW_THREADS / 32;
  constexpr int kSlots = kWarps * CLUSTER;
  __shared__ Partial slots[kSlots];
  const int warp = threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
#if CLUSTER > 1
  if (threadIdx.x == 0) Expect(turn, sizeof(slots));
  if (turn == 0) WaitForClusterStart();
  if (lane < CLUSTER) Send(partial, lane, &slots[row.rank * kWarps + warp], turn);
  AwaitArrivals(turn);
#else
  if (lane == 0) slots[warp] = partial;
  __syncthreads();
#endif
  const float largest = partial.largest;
  partial = slots[lane % Min(kSlots, 32)];
#pragma unroll
  for (int i = 32; i < kSlots; i += 32) partial = Merged<part>(partial, slots[i + lane]);
  partial = MergedInWarp<part, Min(kSlots, 32)>(partial);
  if constexpr (part == kSum) partial.largest = largest;
#endif
  return partial;
}

// ---- The kernel ---------------------------------------------------------------------------------

// A thread's part of one row, and the passes over it.
class Share {
 public:
  __device__ __forceinline__ Share(const Bits* x, const Row& row) : x_(x), row_(row) {
#if STAGED
    CopyIn(Stage(), x, row);
#endif
#pragma unroll
    for (int i = 0; i < (kKept ? kItems : 0); ++i) {
      const Vector vector = Load(x, row, i);
      if constexpr (KEEP == packed) {
        raw_[i] = vector;
      } else {
#pragma unroll
        for (int e = 0; e < kVector; ++e) value_[i][e] = At(vector, e);
      }
    }
  }

  __device__ __forceinline__ float Largest() {
    float largest = kLowest;
    if constexpr (KEEP == packed && kHasLargerWord) {
      Vector most = raw_[0];
#pragma unroll
      for (int i = 1; i < kItems; ++i) {
#pragma unroll
        for (int w = 0; w < kWords; ++w) most.word[w] = LargerWord(most.word[w], raw_[i].word[w]);
      }
#pragma unroll
      for (int e = 0; e < kVector; ++e) largest = fmaxf(largest, At(most, e));
    } else {
#pragma unroll kUnroll
      for (int i = 0; i < kItems; ++i) {
        float value[kVector];
        Get(i, value);
#pragma unroll
        for (int e = 0; e < kVector; ++e) largest = fmaxf(largest, value[e]);
      }
    }
    return largest;
  }

  // Sums exp(element - largest); `floats` keeps each of them instead of the element.
  __device__ __forceinline__ float Sum(float largest) {
    float sum = 0;
#pragma unroll kUnroll
    for (int i = 0; i < kItems; ++i) {
      float value[kVector];
      Get(i, value);
      float part = 0;
#pragma unroll
      for (int e = 0; e < kVector; ++e) {
        const float exponential = Exp(value[e], largest);
        part += exponential;
        if constexpr (KEEP == floats) value_[i][e] = exponential;
      }
      sum += part;
    }
    return sum;
  }

  // Both in one pass, with a running maximum.
  __device__ __forceinline__ Partial Streamed() {
    Partial mine = {kLowest, 0.0f};
#pragma unroll kUnroll
    for (int i = 0; i < kItems; ++i) {
      float value[kVector];
      Get(i, value);
      float largest = mine.largest;
#pragma unroll
      for (int e = 0; e < kVector; ++e) largest = fmaxf(largest, value[e]);
      float sum = mine.sum * Exp(mine.largest, largest);
#pragma unroll
      for (int e = 0; e < kVector; ++e) sum += Exp(value[e], largest);
      mine = {largest, sum};
    }
    return mine;
  }

  __device__ __forceinline__ void Write(Bits* y, float largest, float scale) {
#pragma unroll kUnroll
    for (int i = 0; i < kItems; ++i) {
      float value[kVector];
      Get(i, value);
#pragma unroll
      for (int e = 0; e < kVector; ++e) {
        value[e] = (KEEP == floats ? value[e] : Exp(value[e], largest)) * scale;
      }
#if BULK
      if constexpr (STORES == bulk) {
        Stage()[i * ROW_THREADS + row_.lane] = Rounded(value);
        continue;
      }
#endif
      Store(y, row_, i, Rounded(value));
    }
#if BULK
    if constexpr (STORES == bulk) CopyOut(y, Stage(), row_);
#endif
  }

 private:
  static constexpr bool kKept = KEEP == packed || KEEP == floats;
  static constexpr int kUnroll = kKept ? kItems : Min(4, 64 / VECTOR_BYTES);

  __device__ __forceinline__ Vector Taken(int i) const {
#if STAGED
    if (!IsInside(row_, VectorOf(row_, i))) return Nothing();
    return Stage()[i * ROW_THREADS + row_.lane];
#else
    return KEEP == packed ? Forgotten(raw_[i]) : Load(x_, row_, i);
#endif
  }

  __device__ __forceinline__ void Get(int i, float (&value)[kVector]) const {
    if constexpr (KEEP == floats) {
#pragma unroll
      for (int e = 0; e < kVector; ++e) value[e] = value_[i][e];
    } else {
      const Vector vector = Taken(i);
#pragma unroll
      for (int e = 0; e < kVector; ++e) value[e] = At(vector, e);
    }
  }

  const Bits* x_;
  const Row& row_;
  Vector raw_[KEEP == packed ? kItems : 1];
  float value_[KEEP == floats ? kItems : 1][kVector];
};

extern "C" __global__ void __launch_bounds__(kThreads, kBlocksPerSm)
    softmax(const Bits* __restrict__ x, Bits* __restrict__ y, long long rows, long long x_skip) {
  StartMerges();
  const Row row = RowOfThread(rows);
  Share share(x + row.index * x_skip, row);
  Partial mine = {kLowest, 0.0f};
  if constexpr (EXCHANGES == 2) {
    mine.largest = MergedInRow<kLargest, 0>({share.Largest(), 0.0f}, row).largest;
    mine.sum = share.Sum(mine.largest);
  } else if constexpr (KEEP == packed || KEEP == floats) {
    mine.largest = share.Largest();
    mine.sum = share.Sum(mine.largest);
  } else {
    mine = share.Streamed();
  }
  constexpr Part kPart = EXCHANGES == 2 ? kSum : kBoth;
  const Partial all = MergedInRow<kPart, EXCHANGES - 1>(mine, row);
  // The kept exponentials are relative to `mine.largest`.
  const float own = KEEP == floats && EXCHANGES == 1 ? Exp(mine.largest, all.largest) : 1.0f;
  share.Write(y, all.largest, __fdividef(own, all.sum));
}

#endif  // TUNE_REFERENCE
