// SPDX-License-Identifier: Apache-2.0
// Elements of 16 or 32 bits, in vectors of VECTOR_BYTES: how they are read, written and converted.
// Elements go by their bits: the headers of their types would be a fifth of the time to compile a
// variant.
#pragma once

#include "fast_math.cuh"

// The values of LOADS and STORES. A `streamed` load leaves no copy in L1. A `streamed` store is the
// first to leave L2, a `kept` one the last.
enum Hint { cached, streamed, kept };

__device__ constexpr int CeilDiv(int a, int b) { return (a + b - 1) / b; }
__device__ constexpr int Min(int a, int b) { return a < b ? a : b; }
__device__ constexpr int Max(int a, int b) { return a < b ? b : a; }

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
constexpr int kBitsBytes = static_cast<int>(sizeof(Bits));
constexpr int kPerWord = 4 / kBitsBytes;            // elements
constexpr int kVector = VECTOR_BYTES / kBitsBytes;  // elements
constexpr int kWords = VECTOR_BYTES < 4 ? 1 : VECTOR_BYTES / 4;

struct alignas(VECTOR_BYTES < 4 ? 4 : VECTOR_BYTES) Vector {
  unsigned word[kWords];
};

// ---- Conversions --------------------------------------------------------------------------------

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

__device__ __forceinline__ void Unpack(const Vector& vector, float (&value)[kVector]) {
#pragma unroll
  for (int e = 0; e < kVector; ++e) value[e] = At(vector, e);
}

__device__ __forceinline__ Vector Rounded(const float (&value)[kVector]) {
  Vector vector;
#pragma unroll
  for (int w = 0; w < kWords; ++w) {
#if DTYPE_F32
    vector.word[w] = __float_as_uint(value[w]);
#else
    vector.word[w] = Pack(value[2 * w], kVector == 1 ? 0.0f : value[(2 * w + 1) % kVector]);
#endif
  }
  return vector;
}

// The bits of an element by itself.
__device__ __forceinline__ Bits BitsOf(float value) {
#if DTYPE_F32
  return __float_as_uint(value);
#else
  return static_cast<Bits>(Pack(value, 0.0f));
#endif
}

// A vector of a value's bits, as many as a word holds.
__device__ __forceinline__ Vector Filled(unsigned bits) {
  Vector vector;
#pragma unroll
  for (unsigned& word : vector.word) word = bits;
  return vector;
}

__device__ __forceinline__ float FloatOf(Bits bits) { return At(Filled(bits), 0); }

// A copy of the vector that the compiler does not know to be one: else it would keep the elements
// as floats from one pass to the next, in twice the registers.
__device__ __forceinline__ Vector Forgotten(const Vector& kept) {
  Vector vector = kept;
#if !TUNE_CPU
#pragma unroll
  for (unsigned& word : vector.word) asm volatile("" : "+r"(word));
#endif
  return vector;
}

// ---- Device memory ------------------------------------------------------------------------------

// The widest access the machine has for a vector; 32-byte vectors are two of them.
constexpr int kPieceBytes = Min(VECTOR_BYTES, 16);
constexpr int kPieces = VECTOR_BYTES / kPieceBytes;

template <int bytes>
struct PieceOf;
template <>
struct PieceOf<2> {
  using Type = unsigned short;
};
template <>
struct PieceOf<4> {
  using Type = unsigned;
};
template <>
struct PieceOf<8> {
  using Type = uint2;
};
template <>
struct PieceOf<16> {
  using Type = uint4;
};
using Piece = PieceOf<kPieceBytes>::Type;

// Loads from memory that nobody writes while the kernel runs.
template <int hint>
__device__ __forceinline__ Piece LoadPiece(const Piece* from) {
#if TUNE_CPU
  return *from;
#elif VECTOR_BYTES >= 16
  Piece piece;
  if constexpr (hint == streamed) {
    asm("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
        : "=r"(piece.x), "=r"(piece.y), "=r"(piece.z), "=r"(piece.w)
        : "l"(from));
    return piece;
  }
  return __ldg(from);
#elif VECTOR_BYTES == 8
  Piece piece;
  if constexpr (hint == streamed) {
    asm("ld.global.nc.L1::no_allocate.v2.u32 {%0, %1}, [%2];"
        : "=r"(piece.x), "=r"(piece.y)
        : "l"(from));
    return piece;
  }
  return __ldg(from);
#else
  return __ldg(from);
#endif
}

#if !TUNE_CPU && VECTOR_BYTES >= 8
__device__ __forceinline__ void StoreKept(Piece* to, const Piece& piece) {
  unsigned long long policy;
  asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
#if VECTOR_BYTES >= 16
  asm volatile("st.global.L2::cache_hint.v4.u32 [%0], {%1, %2, %3, %4}, %5;" ::"l"(to),
               "r"(piece.x), "r"(piece.y), "r"(piece.z), "r"(piece.w), "l"(policy)
               : "memory");
#else
  asm volatile("st.global.L2::cache_hint.v2.u32 [%0], {%1, %2}, %3;" ::"l"(to), "r"(piece.x),
               "r"(piece.y), "l"(policy)
               : "memory");
#endif
}
#endif

template <int hint>
__device__ __forceinline__ void StorePiece(Piece* to, const Piece& piece) {
#if !TUNE_CPU
  if constexpr (hint == streamed) {
    __stcs(to, piece);
    return;
  }
#if VECTOR_BYTES >= 8
  if constexpr (hint == kept) {
    StoreKept(to, piece);
    return;
  }
#endif
#endif
  *to = piece;
}

// A whole vector, from where it is aligned.
template <int hint = LOADS>
__device__ __forceinline__ Vector LoadVector(const Bits* from) {
  Vector vector = {};
#pragma unroll
  for (int i = 0; i < kPieces; ++i) {
    const Piece piece = LoadPiece<hint>(reinterpret_cast<const Piece*>(from) + i);
    memcpy(reinterpret_cast<char*>(&vector) + i * kPieceBytes, &piece, kPieceBytes);
  }
  return vector;
}

template <int hint = STORES>
__device__ __forceinline__ void StoreVector(Bits* to, const Vector& vector) {
#pragma unroll
  for (int i = 0; i < kPieces; ++i) {
    Piece piece;
    memcpy(&piece, reinterpret_cast<const char*>(&vector) + i * kPieceBytes, kPieceBytes);
    StorePiece<hint>(reinterpret_cast<Piece*>(to) + i, piece);
  }
}

// Elements [first, end) of a vector, one at a time; the others have the bits of `pad`.
__device__ __forceinline__ Vector LoadElements(const Bits* from, int first, int end,
                                               unsigned pad = 0) {
  Vector vector = Filled(pad);
#pragma unroll
  for (int i = 0; i < kVector; ++i) {
    if (i < first || i >= end) continue;
    const int shift = i % kPerWord * 16;
    const unsigned mask = kPerWord == 1 ? 0 : ~(0xffffu << shift);
    unsigned& word = vector.word[i / kPerWord];
    word = (word & mask) | static_cast<unsigned>(from[i]) << shift;
  }
  return vector;
}

__device__ __forceinline__ void StoreElements(Bits* to, int first, int end, const Vector& vector) {
#pragma unroll
  for (int i = 0; i < kVector; ++i) {
    if (i < first || i >= end) continue;
    to[i] = static_cast<Bits>(vector.word[i / kPerWord] >> (i % kPerWord * 16));
  }
}
