// SPDX-License-Identifier: Apache-2.0
// Rotary position embedding of q and k in one launch; every element is read once and written once.
// Tensors are [seq, batch, heads, HEAD_DIM], with strides of their own: a token is `rows` heads.
constexpr int kHalf = HEAD_DIM / 2;

#if TUNE_REFERENCE

#if DTYPE_BF16
#include <cuda_bf16.h>
#elif DTYPE_F16
#include <cuda_fp16.h>
#endif

// A thread takes a pair, in double precision.
extern "C" __global__ void rope_reference(const DTYPE* q, const DTYPE* k, const float* cosine,
                                          const float* sine, double* q_out, double* k_out,
                                          long long seq, int q_rows, int k_rows) {
  const long long pairs = seq * (q_rows + k_rows) * kHalf;
  const long long step = static_cast<long long>(gridDim.x) * blockDim.x;
  for (long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x; i < pairs;
       i += step) {
    const long long pair = i % kHalf;
    const long long row = i / kHalf % (q_rows + k_rows);
    const long long token = i / kHalf / (q_rows + k_rows);
    const DTYPE* in = row < q_rows ? q : k;
    double* out = row < q_rows ? q_out : k_out;
    const long long head =
        row < q_rows ? token * q_rows + row : token * k_rows + (row - q_rows);
    const long long first = head * HEAD_DIM + (INTERLEAVED ? 2 * pair : pair);
    const long long second = first + (INTERLEAVED ? 1 : kHalf);
    const double c = cosine[token * kHalf + pair];
    const double s = BACKWARD ? -sine[token * kHalf + pair] : sine[token * kHalf + pair];
    const double a = static_cast<float>(in[first]);
    const double b = static_cast<float>(in[second]);
    out[first] = a * c - b * s;
    out[second] = b * c + a * s;
  }
}

#else

#include "fast_math.cuh"

// The values of the parameters that are words.
enum Choice { tile, token, direct, shared, cached, streamed };

// Elements go by their bits, and are converted by one instruction each: the headers of their types
// would be a fifth of the time to compile a variant.
#if DTYPE_F32
using Bits = unsigned;
#else
using Bits = unsigned short;
#endif

// A thread works on one or two vectors of a head: the elements of its pairs.
constexpr int kVector = VECTOR_BYTES / static_cast<int>(sizeof(Bits));      // elements
constexpr int kParts = INTERLEAVED ? 1 : 2;                                 // vectors
constexpr int kPairs = INTERLEAVED ? kVector / 2 : kVector;
constexpr int kLanes = kHalf / kPairs;                                      // threads of a head
constexpr int kTokenThreads = THREADS / TOKENS;
constexpr int kHeadLanes = kTokenThreads / kLanes;                          // heads at a time
constexpr int kTile = kHeadLanes * HEADS;                                   // heads in flight
constexpr int kBlocksPerSm = 1024 / THREADS;
constexpr int kWords = VECTOR_BYTES < 4 ? 1 : VECTOR_BYTES / 4;

struct alignas(VECTOR_BYTES < 4 ? 4 : VECTOR_BYTES) Vector {
  unsigned word[kWords];
};

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
// The widest access the machine has for a vector; 32-byte vectors are two of them.
constexpr int kPieceBytes = VECTOR_BYTES < 16 ? VECTOR_BYTES : 16;
constexpr int kPieces = VECTOR_BYTES / kPieceBytes;
using Piece = PieceOf<kPieceBytes>::Type;

// ---- Elements -----------------------------------------------------------------------------------

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
#if DTYPE_F32
    vector.word[w] = __float_as_uint(value[w]);
#else
    vector.word[w] = Pack(value[2 * w], kVector == 1 ? 0.0f : value[(2 * w + 1) % kVector]);
#endif
  }
  return vector;
}

// ---- Device memory ------------------------------------------------------------------------------

__device__ __forceinline__ Vector Load(const Bits* from) {
  Vector vector = {};
#pragma unroll
  for (int i = 0; i < kPieces; ++i) {
    const Piece* where = reinterpret_cast<const Piece*>(from) + i;
#if TUNE_CPU
    const Piece piece = *where;
#else
    const Piece piece = __ldg(where);
#endif
    memcpy(reinterpret_cast<char*>(&vector) + i * kPieceBytes, &piece, kPieceBytes);
  }
  return vector;
}

__device__ __forceinline__ void Store(Bits* to, const Vector& vector) {
#pragma unroll
  for (int i = 0; i < kPieces; ++i) {
    Piece piece;
    memcpy(&piece, reinterpret_cast<const char*>(&vector) + i * kPieceBytes, kPieceBytes);
    Piece* where = reinterpret_cast<Piece*>(to) + i;
#if !TUNE_CPU
    if constexpr (STORES == streamed) {
      __stcs(where, piece);
      continue;
    }
#endif
    *where = piece;
  }
}

// kPairs consecutive floats of the table, as wide as they are aligned.
__device__ __forceinline__ void LoadTable(float (&to)[kPairs], const float* from) {
  if constexpr (kPairs % 4 == 0) {
#pragma unroll
    for (int i = 0; i < kPairs; i += 4) {
      const float4 four = *reinterpret_cast<const float4*>(from + i);
      to[i] = four.x;
      to[i + 1] = four.y;
      to[i + 2] = four.z;
      to[i + 3] = four.w;
    }
  } else {
#pragma unroll
    for (int i = 0; i < kPairs; ++i) to[i] = from[i];
  }
}

// ---- The kernel ---------------------------------------------------------------------------------

// The distances of a tensor's heads, in elements.
struct Lie {
  long long token;  // of two tokens
  long long batch;  // of two sequences, less those of a sequence's heads
  int head;         // of two heads
};

// The heads of a token in q and q_out, or in k and k_out.
struct Heads {
  int rows;
  unsigned sequences;  // 2^32 over the heads of a sequence, rounded up
  Lie in;
  Lie out;
};

struct Tensors {
  const Bits* __restrict__ q;
  const Bits* __restrict__ k;
  Bits* __restrict__ q_out;
  Bits* __restrict__ k_out;
  Heads of_q;
  Heads of_k;
};

// From a tensor's start to a head of a token, in elements.
__device__ __forceinline__ long long OffsetOf(const Lie& lie, long long at, int row,
                                              unsigned sequence) {
  return at * lie.token + static_cast<long long>(row) * lie.head + sequence * lie.batch;
}

// A thread's part of the table for one token.
struct Angle {
  float cosine[kPairs];
  float sine[kPairs];
};

__device__ __forceinline__ void Rotate(Vector (&part)[kParts], const Angle& angle) {
  float value[kParts][kVector];
#pragma unroll
  for (int i = 0; i < kPairs; ++i) {
    const float a = INTERLEAVED ? At(part[0], 2 * i) : At(part[0], i);
    const float b = INTERLEAVED ? At(part[0], 2 * i + 1) : At(part[kParts - 1], i);
    const float s = BACKWARD ? -angle.sine[i] : angle.sine[i];
    const float first = a * angle.cosine[i] - b * s;
    const float second = b * angle.cosine[i] + a * s;
    value[0][INTERLEAVED ? 2 * i : i] = first;
    value[kParts - 1][INTERLEAVED ? 2 * i + 1 : i] = second;
  }
#pragma unroll
  for (int p = 0; p < kParts; ++p) part[p] = Rounded(value[p]);
}

// HEADS heads of one token, kHeadLanes apart, all on their way before the first is used.
__device__ __forceinline__ void RotateTile(const Tensors& t, const Angle& angle, long long at,
                                           int first_row, int lane) {
  Vector part[HEADS][kParts];
  const int rows = t.of_q.rows + t.of_k.rows;
  // Elements from the start of the tensor that the row is in, q or k, or what comes of it.
  const auto offset = [&](int row, Lie Heads::*lie) {
    const bool is_q = row < t.of_q.rows;
    const Heads& heads = is_q ? t.of_q : t.of_k;
    const int own = is_q ? row : row - t.of_q.rows;
    return OffsetOf(heads.*lie, at, own, __umulhi(own, heads.sequences)) + lane * kVector;
  };
#pragma unroll
  for (int i = 0; i < HEADS; ++i) {
    const int row = first_row + i * kHeadLanes;
    if (row >= rows) continue;
    const Bits* from = (row < t.of_q.rows ? t.q : t.k) + offset(row, &Heads::in);
#pragma unroll
    for (int p = 0; p < kParts; ++p) part[i][p] = Load(from + p * kHalf);
  }
#pragma unroll
  for (int i = 0; i < HEADS; ++i) {
    const int row = first_row + i * kHeadLanes;
    if (row >= rows) continue;
    Rotate(part[i], angle);
    Bits* to = (row < t.of_q.rows ? t.q_out : t.k_out) + offset(row, &Heads::out);
#pragma unroll
    for (int p = 0; p < kParts; ++p) Store(to + p * kHalf, part[i][p]);
  }
}

extern "C" __global__ void __launch_bounds__(THREADS, kBlocksPerSm)
    rope(const Bits* __restrict__ q, const Bits* __restrict__ k,
         const float* __restrict__ cosine, const float* __restrict__ sine,
         Bits* __restrict__ q_out, Bits* __restrict__ k_out, long long seq, int q_rows, int k_rows,
         unsigned q_sequences, unsigned k_sequences, long long q_token, long long q_batch,
         int q_head, long long k_token, long long k_batch, int k_head, long long q_out_token,
         long long q_out_batch, int q_out_head, long long k_out_token, long long k_out_batch,
         int k_out_head) {
  const Tensors tensors = {
      q, k, q_out, k_out,
      {q_rows, q_sequences, {q_token, q_batch, q_head}, {q_out_token, q_out_batch, q_out_head}},
      {k_rows, k_sequences, {k_token, k_batch, k_head}, {k_out_token, k_out_batch, k_out_head}}};
  const int slot = threadIdx.x / kTokenThreads;  // which token of the block's
  const int member = threadIdx.x % kTokenThreads;
  const int lane = member % kLanes;
  const int head_lane = member / kLanes;
  const int rows = q_rows + k_rows;
  // A block has TOKENS tokens and a tile, or all, of their heads.
  const unsigned tiles = GRID == token ? 1 : (rows + kTile - 1) / kTile;
  const long long first_token = static_cast<long long>(blockIdx.x / tiles) * TOKENS;
  const long long at = first_token + slot;
  const bool idle = slot >= TOKENS || head_lane >= kHeadLanes || at >= seq;

  Angle angle;
  if constexpr (TABLE == shared) {
    __shared__ __align__(16) float table[2][TOKENS * kHalf];
    for (int i = threadIdx.x; i < TOKENS * kHalf && first_token * kHalf + i < seq * kHalf;
         i += THREADS) {
      table[0][i] = cosine[first_token * kHalf + i];
      table[1][i] = sine[first_token * kHalf + i];
    }
    __syncthreads();
    if (idle) return;
    LoadTable(angle.cosine, &table[0][slot * kHalf + lane * kPairs]);
    LoadTable(angle.sine, &table[1][slot * kHalf + lane * kPairs]);
  } else {
    if (idle) return;
    LoadTable(angle.cosine, cosine + at * kHalf + lane * kPairs);
    LoadTable(angle.sine, sine + at * kHalf + lane * kPairs);
  }
  const int first_row = static_cast<int>(blockIdx.x % tiles) * kTile + head_lane;
  const int end_row = GRID == token ? rows : first_row + 1;
  for (int row = first_row; row < end_row; row += kTile) {
    RotateTile(tensors, angle, at, row, lane);
  }
}

#endif  // TUNE_REFERENCE
