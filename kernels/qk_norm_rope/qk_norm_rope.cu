// SPDX-License-Identifier: Apache-2.0
// RMS norm of each head of q and k, each with its weight, and the rotary position embedding of what
// comes of it, in one launch; every element is read once and written once. Tensors are
// [seq, batch, heads, HEAD_DIM]: a token is `rows` heads, in one piece in q and in k.
constexpr int kHalf = HEAD_DIM / 2;

#if TUNE_REFERENCE

#if DTYPE_BF16
#include <cuda_bf16.h>
#elif DTYPE_F16
#include <cuda_fp16.h>
#endif

__device__ double Double(DTYPE value) { return static_cast<float>(value); }

// A thread takes a head, in double precision.
extern "C" __global__ void qk_norm_rope_reference(const DTYPE* q, const DTYPE* k,
                                                  const DTYPE* q_weight, const DTYPE* k_weight,
                                                  const float* cosine, const float* sine,
                                                  double* q_out, double* k_out, long long seq,
                                                  long long q_rows, long long k_rows,
                                                  float epsilon) {
  const long long rows = q_rows + k_rows;
  const long long step = static_cast<long long>(gridDim.x) * blockDim.x;
  for (long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
       i < seq * rows; i += step) {
    const long long token = i / rows;
    const long long row = i % rows;
    const bool is_q = row < q_rows;
    const long long head =
        (is_q ? token * q_rows + row : token * k_rows + (row - q_rows)) * HEAD_DIM;
    const DTYPE* in = (is_q ? q : k) + head;
    const DTYPE* weight = is_q ? q_weight : k_weight;
    double* out = (is_q ? q_out : k_out) + head;
    double squares = 0;
    for (int e = 0; e < HEAD_DIM; ++e) squares += Double(in[e]) * Double(in[e]);
    const double scale = 1 / sqrt(squares / HEAD_DIM + epsilon);
    for (int pair = 0; pair < kHalf; ++pair) {
      const int first = INTERLEAVED ? 2 * pair : pair;
      const int second = first + (INTERLEAVED ? 1 : kHalf);
      const double a = Double(in[first]) * scale * Double(weight[first]);
      const double b = Double(in[second]) * scale * Double(weight[second]);
      const double c = cosine[token * kHalf + pair];
      const double s = sine[token * kHalf + pair];
      out[first] = a * c - b * s;
      out[second] = b * c + a * s;
    }
  }
}

#else

#include "element.cuh"

constexpr unsigned kAll = 0xffffffffu;  // lanes of a warp

// A head has one part, of neighbouring pairs, or two: the first and the second elements of pairs.
constexpr int kParts = INTERLEAVED ? 1 : 2;
constexpr int kPairs = INTERLEAVED ? kVector / 2 : kVector;  // of a vector
constexpr int kVectors = HEAD_DIM / kParts / kVector;        // of a part
constexpr int kItems = CeilDiv(kVectors, HEAD_THREADS);      // vectors of a part that a thread owns
constexpr bool kExact = kItems * HEAD_THREADS == kVectors;
constexpr int kGroups = THREADS / HEAD_THREADS;              // heads at a time
constexpr int kTile = kGroups * HEADS;                       // heads in flight
constexpr int kBlocksPerSm = Max(1, Min(32, 1024 / THREADS));

struct Tensors {
  const Bits* __restrict__ q;
  const Bits* __restrict__ k;
  const Bits* __restrict__ q_weight;
  const Bits* __restrict__ k_weight;
  Bits* __restrict__ q_out;
  Bits* __restrict__ k_out;
  int q_rows;  // heads of a token
  int k_rows;
};

// Which vector of a part is a thread's item i?
__device__ __forceinline__ int VectorOf(int lane, int i) { return i * HEAD_THREADS + lane; }

__device__ __forceinline__ bool IsInside(int lane, int i) {
  return kExact || VectorOf(lane, i) < kVectors;
}

// A thread's part of the table for one token.
struct Angle {
  float cosine[kItems][kPairs];
  float sine[kItems][kPairs];
};

// kPairs consecutive floats, as wide as they are aligned.
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

// A thread's part of one head.
class Head {
 public:
  // Starts to fetch it. `row`: which head of the token, of those of q and then of k.
  __device__ __forceinline__ void Fetch(const Tensors& t, long long token, int row, int lane) {
    exists_ = row < t.q_rows + t.k_rows;
    is_q_ = row < t.q_rows;
    const long long head = is_q_ ? token * t.q_rows + row : token * t.k_rows + (row - t.q_rows);
    offset_ = head * HEAD_DIM;
    const Bits* from = (is_q_ ? t.q : t.k) + offset_;
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
#pragma unroll
      for (int p = 0; p < kParts; ++p) {
        part_[i][p] = exists_ && IsInside(lane, i)
                          ? LoadVector(from + p * kHalf + VectorOf(lane, i) * kVector)
                          : Filled(0);
      }
    }
  }

  // All threads of a warp take part, also those whose head there is not.
  __device__ __forceinline__ float Squares() const {
    float squares = 0;
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
#pragma unroll
      for (int p = 0; p < kParts; ++p) {
#pragma unroll
        for (int e = 0; e < kVector; ++e) {
          const float value = At(part_[i][p], e);
          squares += value * value;
        }
      }
    }
#pragma unroll
    for (int mask = HEAD_THREADS / 2; mask > 0; mask /= 2) {
      squares += __shfl_xor_sync(kAll, squares, mask);
    }
    return squares;
  }

  __device__ __forceinline__ void ScaleRotateStore(const Tensors& t, const Angle& angle,
                                                   float scale, int lane) const {
    if (!exists_) return;
    const Bits* weight = is_q_ ? t.q_weight : t.k_weight;
    Bits* to = (is_q_ ? t.q_out : t.k_out) + offset_;
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      if (!IsInside(lane, i)) continue;
      const int at = VectorOf(lane, i) * kVector;
      float value[kParts][kVector];
#pragma unroll
      for (int p = 0; p < kParts; ++p) {
        const Vector factor = LoadVector<cached>(weight + p * kHalf + at);
#pragma unroll
        for (int e = 0; e < kVector; ++e) {
          value[p][e] = At(part_[i][p], e) * (scale * At(factor, e));
        }
      }
#pragma unroll
      for (int pair = 0; pair < kPairs; ++pair) {
        float& first = INTERLEAVED ? value[0][2 * pair] : value[0][pair];
        float& second = INTERLEAVED ? value[0][2 * pair + 1] : value[kParts - 1][pair];
        const float a = first;
        const float b = second;
        first = a * angle.cosine[i][pair] - b * angle.sine[i][pair];
        second = b * angle.cosine[i][pair] + a * angle.sine[i][pair];
      }
#pragma unroll
      for (int p = 0; p < kParts; ++p) StoreVector(to + p * kHalf + at, Rounded(value[p]));
    }
  }

 private:
  Vector part_[kItems][kParts];
  long long offset_;
  bool exists_;
  bool is_q_;
};

extern "C" __global__ void __launch_bounds__(THREADS, kBlocksPerSm)
    qk_norm_rope(const Bits* __restrict__ q, const Bits* __restrict__ k,
                 const Bits* __restrict__ q_weight, const Bits* __restrict__ k_weight,
                 const float* __restrict__ cosine, const float* __restrict__ sine,
                 Bits* __restrict__ q_out, Bits* __restrict__ k_out, long long seq,
                 long long q_rows, long long k_rows, float epsilon) {
  const Tensors tensors = {q,     k,     q_weight, k_weight,
                           q_out, k_out, static_cast<int>(q_rows), static_cast<int>(k_rows)};
  const int lane = threadIdx.x % HEAD_THREADS;
  const unsigned tiles = (tensors.q_rows + tensors.k_rows + kTile - 1) / kTile;
  const long long token = blockIdx.x / tiles;  // less than `seq`: the grid has no more blocks
  const int first_row = static_cast<int>(blockIdx.x % tiles) * kTile + threadIdx.x / HEAD_THREADS;

  Head heads[HEADS];
#pragma unroll
  for (int h = 0; h < HEADS; ++h) heads[h].Fetch(tensors, token, first_row + h * kGroups, lane);
  Angle angle;
#pragma unroll
  for (int i = 0; i < kItems; ++i) {
    if (!IsInside(lane, i)) continue;
    LoadTable(angle.cosine[i], cosine + token * kHalf + VectorOf(lane, i) * kPairs);
    LoadTable(angle.sine[i], sine + token * kHalf + VectorOf(lane, i) * kPairs);
  }
#pragma unroll
  for (int h = 0; h < HEADS; ++h) {
    const float scale = rsqrtf(heads[h].Squares() * (1.0f / HEAD_DIM) + epsilon);
    heads[h].ScaleRotateStore(tensors, angle, scale, lane);
  }
}

#endif  // TUNE_REFERENCE
