// SPDX-License-Identifier: Apache-2.0
// Softmax along the last dimension of a row-major [rows, COLS] matrix, each element read once from
// device memory (unless KEEP is `none` with a `direct` copy: see README.md).
#if TUNE_REFERENCE

#if DTYPE_BF16
#include <cuda_bf16.h>
#elif DTYPE_F16
#include <cuda_fp16.h>
#endif

// One block of 256 threads a row; three plain passes in double precision.
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

// The values of the parameters that are words.
enum Choice { direct, async, bulk, packed, floats, none, cached, streamed, uncached };

__device__ constexpr int CeilDiv(int a, int b) { return (a + b - 1) / b; }
__device__ constexpr int Min(int a, int b) { return a < b ? a : b; }
__device__ constexpr int Max(int a, int b) { return a < b ? b : a; }

constexpr int kThreads = ROW_THREADS * ROWS;
constexpr int kBlocksPerSm = Max(1, Min(32, SM_THREADS / kThreads));
constexpr float kLog2e = 1.44269504f;
constexpr float kLowest = -3.402823466e38f;

constexpr int kWords = VECTOR_BYTES / 4;

struct alignas(VECTOR_BYTES) Vector {
  unsigned word[kWords];
};

// Elements go by their bits here, and are converted by one instruction each: the headers of their
// types would be a fifth of the time to compile a variant.
#if DTYPE_F32
using Bits = unsigned;
constexpr unsigned kMinusInfinity = 0xff800000u;
#elif DTYPE_BF16
using Bits = unsigned short;
constexpr unsigned kMinusInfinity = 0xff80ff80u;  // two of them
#else
using Bits = unsigned short;
constexpr unsigned kMinusInfinity = 0xfc00fc00u;
#endif
constexpr int kPerWord = 4 / static_cast<int>(sizeof(Bits));                // elements
constexpr int kVector = VECTOR_BYTES / static_cast<int>(sizeof(Bits));      // elements
// A row is walked in aligned vectors. Where rows do not start on a vector boundary, the walk starts
// at the boundary before the row, and its first and last vectors are only partly the row's.
constexpr int kRowVectors = CeilDiv(COLS + (ALIGNED ? 0 : kVector - 1), kVector);
constexpr int kChunk = CeilDiv(kRowVectors, CLUSTER);  // vectors of a row that a block owns
constexpr int kItems = CeilDiv(kChunk, ROW_THREADS);   // vectors of a row that a thread owns
constexpr int kPitch = kItems * ROW_THREADS;           // vectors of a row in shared memory
constexpr bool kExact = ALIGNED && kPitch * CLUSTER == kRowVectors;  // no vector is out of range

// Element i of a vector; i is known when loops are unrolled.
__device__ __forceinline__ float At(const Vector& vector, int i) {
#if DTYPE_F32
  return __uint_as_float(vector.word[i]);
#elif DTYPE_BF16
  const unsigned word = vector.word[i / 2];
  return __uint_as_float(i % 2 ? word & 0xffff0000u : word << 16);
#else
  const unsigned word = vector.word[i / 2];
  const Bits bits = static_cast<Bits>(i % 2 ? word >> 16 : word);
#if TUNE_CPU
  return __half2float(__ushort_as_half(bits));
#else
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  return value;
#endif
#endif
}

// Two floats as a word of 16-bit elements, the first in the low half.
__device__ __forceinline__ unsigned RoundedPair(float low, float high) {
#if TUNE_CPU && DTYPE_BF16
  return __bfloat16_as_ushort(__float2bfloat16_rn(low)) |
         static_cast<unsigned>(__bfloat16_as_ushort(__float2bfloat16_rn(high))) << 16;
#elif TUNE_CPU && DTYPE_F16
  return __half_as_ushort(__float2half_rn(low)) |
         static_cast<unsigned>(__half_as_ushort(__float2half_rn(high))) << 16;
#else
  unsigned word = 0;
#if DTYPE_BF16
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
#elif DTYPE_F16
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
#endif
  return word;
#endif
}

__device__ __forceinline__ Vector Rounded(const float (&value)[kVector]) {
  Vector vector;
#pragma unroll
  for (int w = 0; w < kWords; ++w) {
    if constexpr (kPerWord == 1) {
      vector.word[w] = __float_as_uint(value[w]);
    } else {
      vector.word[w] = RoundedPair(value[2 * w], value[2 * w + 1]);
    }
  }
  return vector;
}

__device__ __forceinline__ Vector Nothing() {
  Vector vector;
#pragma unroll
  for (unsigned& word : vector.word) word = kMinusInfinity;
  return vector;
}

__device__ __forceinline__ float Exp2(float value) {
#if TUNE_CPU
  return exp2f(value);
#else
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(value));
  return result;
#endif
}

// The same vector, but the compiler cannot know: else it would keep the elements of `packed` as floats
// from one pass to the next, in twice the registers.
__device__ __forceinline__ Vector Forgotten(const Vector& kept) {
  Vector vector = kept;
#if !TUNE_CPU
#pragma unroll
  for (unsigned& word : vector.word) asm volatile("" : "+r"(word));
#endif
  return vector;
}

// The larger elements of two words of 16-bit elements, in one instruction.
#if !TUNE_CPU && !DTYPE_F32 && __CUDA_ARCH__ >= 800
constexpr bool kHasLargerWord = true;
__device__ __forceinline__ unsigned LargerWord(unsigned a, unsigned b) {
  unsigned result;
#if DTYPE_BF16
  asm("max.bf16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
#else
  asm("max.f16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
#endif
  return result;
}
#else
constexpr bool kHasLargerWord = false;
__device__ __forceinline__ unsigned LargerWord(unsigned a, unsigned) { return a; }
#endif

// exp(value - largest). The difference first: exact for neighbours of any size, and never NaN for
// finite values.
__device__ __forceinline__ float Exp(float value, float largest) {
  return Exp2((value - largest) * kLog2e);
}

// ---- Device memory -------------------------------------------------------------------------------

#if !TUNE_CPU
// The widest access the machine has for a vector; 32-byte vectors are two of them.
#if VECTOR_BYTES >= 16
using Piece = uint4;
#elif VECTOR_BYTES == 8
using Piece = uint2;
#else
using Piece = unsigned;
#endif
constexpr int kPieceBytes = sizeof(Piece);
constexpr int kPieces = VECTOR_BYTES / kPieceBytes;

__device__ __forceinline__ Piece LoadPiece(const Piece* from) {
  if constexpr (LOADS == streamed) return __ldcs(from);
#if VECTOR_BYTES >= 16
  if constexpr (LOADS == uncached) {
    uint4 piece;
    asm volatile("ld.global.nc.L1::no_allocate.L2::256B.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(piece.x), "=r"(piece.y), "=r"(piece.z), "=r"(piece.w)
                 : "l"(from));
    return piece;
  }
#endif
  return __ldg(from);
}
#endif

__device__ __forceinline__ Vector LoadWhole(const Vector* from) {
#if TUNE_CPU
  return *from;
#else
  Vector vector;
#pragma unroll
  for (int i = 0; i < kPieces; ++i) {
    reinterpret_cast<Piece*>(&vector)[i] = LoadPiece(reinterpret_cast<const Piece*>(from) + i);
  }
  return vector;
#endif
}

__device__ __forceinline__ void StoreWhole(Vector* to, const Vector& vector) {
#if TUNE_CPU
  *to = vector;
#else
#pragma unroll
  for (int i = 0; i < kPieces; ++i) {
    const Piece piece = reinterpret_cast<const Piece*>(&vector)[i];
    Piece* where = reinterpret_cast<Piece*>(to) + i;
    if constexpr (STORES == streamed) {
      __stcs(where, piece);
    } else {
      *where = piece;
    }
  }
#endif
}

// A thread's place in the work on a row.
struct Seat {
  int lane;  // among the row's threads of this block
  int rank;  // of this block among the row's
};

// A row as one thread sees it.
struct Row {
  long long first;  // element at the vector boundary at or before the row
  int offset;       // elements from there to the row
  bool in;          // is there such a row?
};

__device__ __forceinline__ Row RowAt(long long row, long long rows) {
  const long long start = row * COLS;
  const int offset = ALIGNED ? 0 : static_cast<int>(start % kVector);
  return {start - offset, offset, row < rows};
}

// Which vector of its row is a thread's item i? kRowVectors if none.
__device__ __forceinline__ int VectorOf(int i, Seat seat) {
  const int index = i * ROW_THREADS + seat.lane;
  if constexpr (kExact) return seat.rank * kChunk + index;
  return index < kChunk ? Min(seat.rank * kChunk + index, kRowVectors) : kRowVectors;
}

// Item i of a thread: is the vector in the row's range at all?
__device__ __forceinline__ bool IsInside(const Row& row, int v) {
  return row.in && (kExact || v < kRowVectors);
}

#if !ALIGNED

// Can item i be a vector that only begins or ends in the row? Known when loops are unrolled.
__device__ __forceinline__ constexpr bool MayBePart(int i) {
  constexpr int kLastChunk = kRowVectors - (CLUSTER - 1) * kChunk;
  return i == 0 || (i + 1) * ROW_THREADS > kLastChunk - 2;
}
__device__ __forceinline__ bool IsPart(const Row& row, int v) {
  return v * kVector < row.offset || (v + 1) * kVector > row.offset + COLS;
}

__device__ __forceinline__ bool IsColumn(const Row& row, int v, int element) {
  const int col = v * kVector + element - row.offset;
  return col >= 0 && col < COLS;
}

__device__ __forceinline__ Vector LoadPart(const Vector* from, const Row& row, int v) {
  Vector vector = Nothing();
#pragma unroll
  for (int i = 0; i < kVector; ++i) {
    if (!IsColumn(row, v, i)) continue;
    const int shift = i % kPerWord * 16;
    const unsigned mask = kPerWord == 1 ? 0 : ~(0xffffu << shift);
    unsigned& word = vector.word[i / kPerWord];
    word = (word & mask) | static_cast<unsigned>(reinterpret_cast<const Bits*>(from)[i]) << shift;
  }
  return vector;
}

__device__ __forceinline__ void StorePart(Vector* to, const Row& row, int v,
                                          const Vector& vector) {
#pragma unroll
  for (int i = 0; i < kVector; ++i) {
    if (!IsColumn(row, v, i)) continue;
    const unsigned word = vector.word[i / kPerWord];
    reinterpret_cast<Bits*>(to)[i] = static_cast<Bits>(word >> (i % kPerWord * 16));
  }
}

#endif  // !ALIGNED

__device__ __forceinline__ Vector Load(const Bits* x, const Row& row, int i, Seat seat) {
  const int v = VectorOf(i, seat);
  if (!IsInside(row, v)) return Nothing();
  const Vector* from = reinterpret_cast<const Vector*>(x + row.first) + v;
#if !ALIGNED
  if (MayBePart(i) && IsPart(row, v)) return LoadPart(from, row, v);
#endif
  return LoadWhole(from);
}

__device__ __forceinline__ void Store(Bits* y, const Row& row, int i, Seat seat,
                                      const Vector& vector) {
  const int v = VectorOf(i, seat);
  if (!IsInside(row, v)) return;
  Vector* to = reinterpret_cast<Vector*>(y + row.first) + v;
#if !ALIGNED
  if (MayBePart(i) && IsPart(row, v)) {
    StorePart(to, row, v, vector);
    return;
  }
#endif
  StoreWhole(to, vector);
}

// ---- Merging what the threads of a row know ------------------------------------------------------

// The largest of some elements, and the sum of exp(element - largest).
struct alignas(8) Partial {
  float largest;
  float sum;
};

// Which of the two a merge is about.
enum Part { kLargest, kSum, kBoth };

template <Part part>
__device__ __forceinline__ Partial Merged(Partial a, Partial b) {
  if constexpr (part == kLargest) return {fmaxf(a.largest, b.largest), 0.0f};
  if constexpr (part == kSum) return {a.largest, a.sum + b.sum};
  const float largest = fmaxf(a.largest, b.largest);
  return {largest, a.sum * Exp(a.largest, largest) + b.sum * Exp(b.largest, largest)};
}

template <Part part, int width>
__device__ __forceinline__ Partial MergedInWarp(Partial partial) {
#pragma unroll
  for (int mask = width / 2; mask > 0; mask /= 2) {
    Partial other = partial;
    if constexpr (part != kSum) {
      other.largest = __shfl_xor_sync(0xffffffffu, partial.largest, mask);
    }
    if constexpr (part != kLargest) other.sum = __shfl_xor_sync(0xffffffffu, partial.sum, mask);
    partial = Merged<part>(partial, other);
  }
  return partial;
}

#if CLUSTER > 1
__device__ __forceinline__ void ArriveAtCluster() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}
__device__ __forceinline__ void WaitForCluster() {
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}
// Writes to `here` as block `rank` of the cluster has it.
__device__ __forceinline__ void StoreInCluster(Partial* here, int rank, Partial partial) {
  unsigned there;
  asm("mapa.shared::cluster.u32 %0, %1, %2;"
      : "=r"(there)
      : "r"(static_cast<unsigned>(__cvta_generic_to_shared(here))), "r"(rank));
  asm volatile("st.shared::cluster.v2.f32 [%0], {%1, %2};" ::"r"(there), "f"(partial.largest),
               "f"(partial.sum)
               : "memory");
}
#endif

// Every thread of the row gets the same answer. Calls alternate between turn 0 and turn 1, so that
// one barrier a call is enough: nobody writes a turn's slots before all have read the last ones.
template <Part part>
__device__ __forceinline__ Partial MergedInRow(Partial partial, int turn, Seat seat) {
  partial = MergedInWarp<part, Min(ROW_THREADS, 32)>(partial);
#if ROW_THREADS > 32
  constexpr int kWarps = ROW_THREADS / 32;
  constexpr int kSlots = kWarps * CLUSTER;
  __shared__ Partial slots[2][kSlots];
  const int warp = threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
#if CLUSTER > 1
  if (lane < CLUSTER) StoreInCluster(&slots[turn][seat.rank * kWarps + warp], lane, partial);
  __syncwarp();
  ArriveAtCluster();
  WaitForCluster();
#else
  if (lane == 0) slots[turn][warp] = partial;
  __syncthreads();
#endif
  const float largest = partial.largest;
  partial = slots[turn][lane % Min(kSlots, 32)];
#pragma unroll
  for (int i = 32; i < kSlots; i += 32) partial = Merged<part>(partial, slots[turn][i + lane]);
  partial = MergedInWarp<part, Min(kSlots, 32)>(partial);
  if constexpr (part == kSum) partial.largest = largest;
#endif
  return partial;
}

// ---- Rows on their way to the threads ------------------------------------------------------------

// The rows that a thread works on: every `step`-th.
struct Walk {
  const Bits* x;
  long long rows;
  long long step;
  long long index;  // of the row it is at
  int slot;         // of the rows that the block works on at a time
  Seat seat;

  __device__ __forceinline__ bool Done() const { return index - slot >= rows; }  // block-wide
  __device__ __forceinline__ Row Ahead(int rows_ahead) const {
    return RowAt(index + rows_ahead * step, rows);
  }
};

#if !STAGED

// Straight into registers; with two stages, the next row is on its way while this one is worked on.
class Feed {
 public:
  __device__ __forceinline__ explicit Feed(const Walk& walk) {
#if STAGES > 1
#pragma unroll
    for (int i = 0; i < kItems; ++i) next_[i] = Load(walk.x, walk.Ahead(0), i, walk.seat);
#endif
  }
  __device__ __forceinline__ void Wait(const Walk&) {}
  __device__ __forceinline__ Vector Take(const Walk& walk, int i) {
#if STAGES == 1
    return Load(walk.x, walk.Ahead(0), i, walk.seat);
#else
    const Vector vector = next_[i];
    next_[i] = Load(walk.x, walk.Ahead(1), i, walk.seat);
    return vector;
#endif
  }
  __device__ __forceinline__ void Refill(const Walk&) {}
  __device__ __forceinline__ void Step() {}

 private:
#if STAGES > 1
  Vector next_[kItems];
#endif
};

#else

// When is a row's place in shared memory free for a later row: when the row has been written, or as
// soon as it is in registers?
constexpr bool kFreedLate = KEEP == none || STORES == bulk;

extern __shared__ __align__(128) unsigned char dynamic_shared[];

__device__ __forceinline__ unsigned SharedAddress(const void* pointer) {
  return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

#if BULK

__device__ __forceinline__ int BulkBytes(Seat seat) {
  return Min(kChunk, kRowVectors - seat.rank * kChunk) * VECTOR_BYTES;
}

// One thread starts the copy of the block's part of a row.
__device__ __forceinline__ void StartCopy(Vector* stage, unsigned barrier, const Bits* x,
                                          const Row& row, Seat seat) {
  if (seat.lane != 0 || !row.in) return;
  // The stage may still be on its way to device memory.
  if constexpr (STORES == bulk) asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
  const Vector* from = reinterpret_cast<const Vector*>(x + row.first) + seat.rank * kChunk;
  const int bytes = BulkBytes(seat);
  asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
  unsigned long long policy;
  if constexpr (LOADS == streamed) {
    asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  } else {
    asm("createpolicy.fractional.L2::evict_normal.b64 %0, 1.0;" : "=l"(policy));
  }
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
      "[%0], [%1], %2, [%3], %4;" ::"r"(SharedAddress(stage)),
      "l"(from), "r"(bytes), "r"(barrier), "l"(policy)
      : "memory");
}

__device__ __forceinline__ void WaitForCopy(unsigned barrier, unsigned parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared.b64 done, [%0], %1;\n"
      "@!done bra again;\n"
      "}\n" ::"r"(barrier),
      "r"(parity)
      : "memory");
}

// Once all threads of the row have written their results to `stage`, one starts the copy to `y`.
__device__ __forceinline__ void StoreStage(Bits* y, const Row& row, const Vector* stage,
                                           Seat seat) {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  if constexpr (ROW_THREADS > 32) {
    __syncthreads();
  } else {
    __syncwarp();
  }
  if (seat.lane != 0 || !row.in) return;
  Vector* to = reinterpret_cast<Vector*>(y + row.first) + seat.rank * kChunk;
  asm volatile(
      "cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;\n"
      "cp.async.bulk.commit_group;" ::"l"(to),
      "r"(SharedAddress(stage)), "r"(BulkBytes(seat))
      : "memory");
}

#else

// Each thread starts the copy of its own vectors of a row; nobody else reads them.
__device__ __forceinline__ void StartCopy(Vector* stage, unsigned, const Bits* x, const Row& row,
                                          Seat seat) {
#pragma unroll 4
  for (int i = 0; i < kItems; ++i) {
    const int v = VectorOf(i, seat);
    if (!IsInside(row, v)) continue;
    Vector* to = stage + i * ROW_THREADS + seat.lane;
    const Vector* from = reinterpret_cast<const Vector*>(x + row.first) + v;
#if !ALIGNED
    if (MayBePart(i) && IsPart(row, v)) {
      *to = LoadPart(from, row, v);
      continue;
    }
#endif
#pragma unroll
    for (int piece = 0; piece < kPieces; ++piece) {
      const unsigned target = SharedAddress(reinterpret_cast<Piece*>(to) + piece);
      const Piece* source = reinterpret_cast<const Piece*>(from) + piece;
      if constexpr (kPieceBytes == 16) {
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(target), "l"(source)
                     : "memory");
      } else {
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(target), "l"(source),
                     "n"(kPieceBytes)
                     : "memory");
      }
    }
  }
  asm volatile("cp.async.commit_group;" ::: "memory");
}

#endif  // BULK

// A ring of STAGES rows in shared memory for each slot of the block.
class Feed {
 public:
  __device__ __forceinline__ explicit Feed(const Walk& walk) {
#if BULK
    __shared__ __align__(8) unsigned long long barriers[STAGES * ROWS];
    barriers_ = SharedAddress(barriers);
    if (threadIdx.x < STAGES * ROWS) {
      asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(barriers_ + threadIdx.x * 8)
                   : "memory");
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    __syncthreads();
#endif
#pragma unroll
    for (int stage = 0; stage < STAGES; ++stage) Start(walk, stage, stage);
  }

  // Until the row that the walk is at has arrived, for this thread's eyes.
  __device__ __forceinline__ void Wait(const Walk& walk) {
#if BULK
    if (walk.Ahead(0).in) WaitForCopy(Barrier(walk, stage_), parity_);
#else
    constexpr int kPending = Max(0, STAGES - 1 - kFreedLate);
    asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
#endif
  }

  __device__ __forceinline__ Vector Take(const Walk& walk, int i) {
    if (!IsInside(walk.Ahead(0), VectorOf(i, walk.seat))) return Nothing();
    return Stage(walk, stage_)[i * ROW_THREADS + walk.seat.lane];
  }

  // To be called once a row, after all its threads have met since they took it.
  __device__ __forceinline__ void Refill(const Walk& walk) {
    if constexpr (STAGES > 1) {
      if constexpr (!kFreedLate) {
        Start(walk, stage_, STAGES);
      } else if (!is_first_) {
        Start(walk, stage_ == 0 ? STAGES - 1 : stage_ - 1, STAGES - 1);
      }
      is_first_ = false;
    }
  }

  __device__ __forceinline__ Vector* Stage(const Walk& walk) const { return Stage(walk, stage_); }

  // To the next row.
  __device__ __forceinline__ void Step() {
    stage_ = stage_ + 1 == STAGES ? 0 : stage_ + 1;
    if (stage_ == 0) parity_ ^= 1;
  }

 private:
  __device__ __forceinline__ Vector* Stage(const Walk& walk, int stage) const {
    return reinterpret_cast<Vector*>(dynamic_shared) + (stage * ROWS + walk.slot) * kPitch;
  }
  __device__ __forceinline__ unsigned Barrier(const Walk& walk, int stage) const {
    return barriers_ + (stage * ROWS + walk.slot) * 8;
  }
  __device__ __forceinline__ void Start(const Walk& walk, int stage, int rows_ahead) {
    StartCopy(Stage(walk, stage), Barrier(walk, stage), walk.x, walk.Ahead(rows_ahead), walk.seat);
  }

  int stage_ = 0;
  unsigned parity_ = 0;
  unsigned barriers_ = 0;
  bool is_first_ = true;
};

#endif  // STAGED

// ---- The kernel ----------------------------------------------------------------------------------

// A thread's part of one row, and the passes over it.
class Share {
 public:
  __device__ __forceinline__ Share(Feed& feed, const Walk& walk) : feed_(feed), walk_(walk) {
#pragma unroll
    for (int i = 0; i < (KEEP == none ? 0 : kItems); ++i) {
      const Vector vector = feed.Take(walk, i);
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

  // Of exp(element - largest); `floats` keeps each of them instead of the element.
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
    const Row row = walk_.Ahead(0);
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
        feed_.Stage(walk_)[i * ROW_THREADS + walk_.seat.lane] = Rounded(value);
        continue;
      }
#endif
      Store(y, row, i, walk_.seat, Rounded(value));
    }
#if BULK
    if constexpr (STORES == bulk) StoreStage(y, row, feed_.Stage(walk_), walk_.seat);
#endif
  }

 private:
  static constexpr int kUnroll = KEEP == none ? 4 : kItems;

  __device__ __forceinline__ void Get(int i, float (&value)[kVector]) {
    if constexpr (KEEP == floats) {
#pragma unroll
      for (int e = 0; e < kVector; ++e) value[e] = value_[i][e];
    } else {
      const Vector vector = KEEP == packed ? Forgotten(raw_[i]) : feed_.Take(walk_, i);
#pragma unroll
      for (int e = 0; e < kVector; ++e) value[e] = At(vector, e);
    }
  }

  Feed& feed_;
  const Walk& walk_;
  Vector raw_[KEEP == packed ? kItems : 1];
  float value_[KEEP == floats ? kItems : 1][kVector];
};

extern "C" __global__ void __launch_bounds__(kThreads, kBlocksPerSm)
    softmax(const Bits* __restrict__ x, Bits* __restrict__ y, long long rows) {
  const Seat seat = {static_cast<int>(threadIdx.x % ROW_THREADS),
                     static_cast<int>(blockIdx.x % CLUSTER)};
  const int slot = threadIdx.x / ROW_THREADS;
  Walk walk = {x, rows, gridDim.x / CLUSTER * static_cast<long long>(ROWS),
               blockIdx.x / CLUSTER * static_cast<long long>(ROWS) + slot, slot, seat};
#if CLUSTER > 1
  ArriveAtCluster();  // a block's shared memory may be written once the block has started
#endif
  Feed feed(walk);
#if CLUSTER > 1
  WaitForCluster();
#endif

  int turn = 0;
  for (; !walk.Done(); walk.index += walk.step) {
    feed.Wait(walk);
    Share share(feed, walk);
    Partial mine = {kLowest, 0.0f};
    if constexpr (EXCHANGES == 2) {
      mine.largest = MergedInRow<kLargest>({share.Largest(), 0.0f}, turn, seat).largest;
      mine.sum = share.Sum(mine.largest);
      turn ^= 1;
    } else if constexpr (KEEP == none) {
      mine = share.Streamed();
    } else {
      mine.largest = share.Largest();
      mine.sum = share.Sum(mine.largest);
    }
    const Partial all = MergedInRow<EXCHANGES == 2 ? kSum : kBoth>(mine, turn, seat);
    turn ^= 1;

    feed.Refill(walk);
    // The kept exponentials are relative to `mine.largest`.
    const float own = KEEP == floats && EXCHANGES == 1 ? Exp(mine.largest, all.largest) : 1.0f;
    share.Write(y, all.largest, __fdividef(own, all.sum));
    feed.Step();
  }
#if BULK
  // The block's shared memory must outlive the copies out of it.
  if constexpr (STORES == bulk) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
#endif
}

#endif  // TUNE_REFERENCE
