// SPDX-License-Identifier: Apache-2.0
// A row as one thread sees it: vectors of elements, and how they come and go.
#pragma once

#include "fast_math.cuh"

// The values of the parameters that are words.
enum Choice { packed, floats, none, async, bulk, cached, streamed };

__device__ constexpr int CeilDiv(int a, int b) { return (a + b - 1) / b; }
__device__ constexpr int Min(int a, int b) { return a < b ? a : b; }
__device__ constexpr int Max(int a, int b) { return a < b ? b : a; }

static_assert(CLUSTER == 1 || ROW_THREADS > 32, "blocks merge what warps have");
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
constexpr int kPerWord = 4 / static_cast<int>(sizeof(Bits));            // elements
constexpr int kVector = VECTOR_BYTES / static_cast<int>(sizeof(Bits));  // elements
// A row is walked in aligned vectors. Where rows do not start on a vector boundary, the walk starts
// at the boundary before the row, and its first and last vectors are only partly the row's.
constexpr int kRowVectors = CeilDiv(COLS + (ALIGNED ? 0 : kVector - 1), kVector);
constexpr int kChunk = CeilDiv(kRowVectors, CLUSTER);  // vectors of a row that a block owns
constexpr int kItems = CeilDiv(kChunk, ROW_THREADS);   // vectors of a row that a thread owns
constexpr bool kExact =  // no vector is out of range
    ALIGNED && kItems * ROW_THREADS * CLUSTER == kRowVectors;

// Element i of a vector; i is known when loops are unrolled.
__device__ __forceinline__ float At(const Vector& vector, int i) {
#if DTYPE_F32
  return __uint_as_float(vector.word[i]);
#elif DTYPE_BF16
  const unsigned word = vector.word[i / 2];
  return __uint_as_float(i % 2 ? word & 0xffff0000u : word << 16);
#else
  const unsigned word = vector.word[i / 2];
  return FloatOfHalf(static_cast<Bits>(i % 2 ? word >> 16 : word));
#endif
}

__device__ __forceinline__ Vector Rounded(const float (&value)[kVector]) {
  Vector vector;
#pragma unroll
  for (int w = 0; w < kWords; ++w) {
    if constexpr (kPerWord == 1) {
      vector.word[w] = __float_as_uint(value[w]);
    } else {
      vector.word[w] = Pack(value[2 * w], value[2 * w + 1]);
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

// A copy of the vector that the compiler does not know to be one: else it would keep the elements
// of `packed` as floats from one pass to the next, in twice the registers.
__device__ __forceinline__ Vector Forgotten(const Vector& kept) {
  Vector vector = kept;
#if !TUNE_CPU
#pragma unroll
  for (unsigned& word : vector.word) asm volatile("" : "+r"(word));
#endif
  return vector;
}

// The larger elements of two words of 16-bit elements, in one instruction.
#if !TUNE_CPU && !DTYPE_F32
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

// ---- Device memory ------------------------------------------------------------------------------

#if !TUNE_CPU
// The widest access the machine has for a vector; 32-byte vectors are two of them.
#if VECTOR_BYTES >= 16
using Piece = uint4;
#else
using Piece = uint2;
#endif
constexpr int kPieceBytes = sizeof(Piece);
constexpr int kPieces = VECTOR_BYTES / kPieceBytes;
#endif

__device__ __forceinline__ Vector LoadWhole(const Vector* from) {
#if TUNE_CPU
  return *from;
#else
  Vector vector;
#pragma unroll
  for (int i = 0; i < kPieces; ++i) {
    reinterpret_cast<Piece*>(&vector)[i] = __ldg(reinterpret_cast<const Piece*>(from) + i);
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

// A row, and a thread's place in the work on it.
struct Row {
  long long index;
  long long first;  // element at the vector boundary at or before the row
  int offset;       // elements from there to the row
  bool exists;
  int lane;  // of the thread among the row's in this block
  int rank;  // of this block among the row's
};

__device__ __forceinline__ Row RowOfThread(long long rows) {
  const long long row = blockIdx.x / CLUSTER * static_cast<long long>(ROWS) +
                        threadIdx.x / ROW_THREADS;
  const long long start = row * COLS;
  const int offset = ALIGNED ? 0 : static_cast<int>(start % kVector);
  const bool exists = ROWS == 1 || row < rows;
  return {row,
          start - offset,
          offset,
          exists,
          static_cast<int>(threadIdx.x % ROW_THREADS),
          static_cast<int>(blockIdx.x % CLUSTER)};
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

__device__ __forceinline__ Vector Load(const Bits* x, const Row& row, int i) {
  const int v = VectorOf(row, i);
  if (!IsInside(row, v)) return Nothing();
  const Vector* from = reinterpret_cast<const Vector*>(x + row.first) + v;
#if !ALIGNED
  if (MayBePart(i) && IsPart(row, v)) return LoadPart(from, row, v);
#endif
  return LoadWhole(from);
}

__device__ __forceinline__ void Store(Bits* y, const Row& row, int i, const Vector& vector) {
  const int v = VectorOf(row, i);
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
