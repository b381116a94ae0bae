// SPDX-License-Identifier: Apache-2.0
// The gradients of qk_norm_rope: of q and k, and of the two weights. A head of y = n * weight, with
// n = x * rstd, was rotated by its token's angles; so with the gradient of what came of it rotated
// back, dy:
//   dx = rstd (dy weight - n mean(dy weight n))      dweight = sum over heads of dy n
// Two steps: the first gives dx, and sums of dy n over some heads each; the second adds those.
// Tensors are [seq, batch, heads, HEAD_DIM]: a token is `rows` heads, in one piece in q and in k.
constexpr int kHalf = HEAD_DIM / 2;

#if TUNE_REFERENCE

#if DTYPE_BF16
#include <cuda_bf16.h>
#elif DTYPE_F16
#include <cuda_fp16.h>
#endif

__device__ double Double(DTYPE value) { return static_cast<float>(value); }

struct Heads {
  const DTYPE* x;
  const DTYPE* weight;
  const DTYPE* dy;
  double* dx;
  double* dweight;
  long long rows;  // of a token
};

__device__ double Scale(const DTYPE* x, float epsilon) {
  double squares = 0;
  for (int e = 0; e < HEAD_DIM; ++e) squares += Double(x[e]) * Double(x[e]);
  return 1 / sqrt(squares / HEAD_DIM + epsilon);
}

// Element e of a head's gradient before the rotation.
__device__ double Unrotated(const DTYPE* dy, const float* cosine, const float* sine, int e) {
  const int pair = INTERLEAVED ? e / 2 : e % kHalf;
  const bool is_first = INTERLEAVED ? e % 2 == 0 : e < kHalf;
  const double first = Double(dy[INTERLEAVED ? 2 * pair : pair]);
  const double second = Double(dy[INTERLEAVED ? 2 * pair + 1 : pair + kHalf]);
  return is_first ? first * cosine[pair] + second * sine[pair]
                  : second * cosine[pair] - first * sine[pair];
}

// A thread takes a head of dx.
__device__ void GradientOfHeads(const Heads& h, const float* cosine, const float* sine,
                                long long seq, float epsilon) {
  const long long step = static_cast<long long>(gridDim.x) * 256;
  for (long long i = static_cast<long long>(blockIdx.x) * 256 + threadIdx.x; i < seq * h.rows;
       i += step) {
    const long long at = i * HEAD_DIM;
    const long long angle = i / h.rows * kHalf;
    const double scale = Scale(h.x + at, epsilon);
    double slope = 0;
    for (int e = 0; e < HEAD_DIM; ++e) {
      slope += Unrotated(h.dy + at, cosine + angle, sine + angle, e) * Double(h.weight[e]) *
               Double(h.x[at + e]) * scale;
    }
    for (int e = 0; e < HEAD_DIM; ++e) {
      const double dy = Unrotated(h.dy + at, cosine + angle, sine + angle, e);
      h.dx[at + e] = scale * (dy * Double(h.weight[e]) -
                              Double(h.x[at + e]) * scale * slope / HEAD_DIM);
    }
  }
}

// A block takes a column of the weight.
__device__ void GradientOfWeight(const Heads& h, const float* cosine, const float* sine,
                                 long long seq, float epsilon) {
  __shared__ double partial[256];
  for (int e = blockIdx.x; e < HEAD_DIM; e += gridDim.x) {
    double sum = 0;
    for (long long i = threadIdx.x; i < seq * h.rows; i += 256) {
      const long long at = i * HEAD_DIM;
      const long long angle = i / h.rows * kHalf;
      sum += Unrotated(h.dy + at, cosine + angle, sine + angle, e) * Double(h.x[at + e]) *
             Scale(h.x + at, epsilon);
    }
    partial[threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
      for (int other = 1; other < 256; ++other) sum += partial[other];
      h.dweight[e] = sum;
    }
    __syncthreads();
  }
}

// In double precision, by blocks of 256 threads.
extern "C" __global__ void qk_norm_rope_backward_reference(
    const DTYPE* q, const DTYPE* k, const DTYPE* q_weight, const DTYPE* k_weight,
    const float* cosine, const float* sine, const DTYPE* dq_out, const DTYPE* dk_out, double* dq,
    double* dk, double* dq_weight, double* dk_weight, long long seq, long long q_rows,
    long long k_rows, float epsilon) {
  const Heads of_q = {q, q_weight, dq_out, dq, dq_weight, q_rows};
  const Heads of_k = {k, k_weight, dk_out, dk, dk_weight, k_rows};
  GradientOfHeads(of_q, cosine, sine, seq, epsilon);
  GradientOfHeads(of_k, cosine, sine, seq, epsilon);
  GradientOfWeight(of_q, cosine, sine, seq, epsilon);
  GradientOfWeight(of_k, cosine, sine, seq, epsilon);
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
constexpr int kOwn = kItems * kParts * kVector;              // elements of a head, of a thread
constexpr int kGroups = THREADS / HEAD_THREADS;              // heads at a time
constexpr int kTile = kGroups * HEADS;                       // heads in flight
constexpr int kBlocksPerSm = Max(1, Min(32, SM_THREADS / THREADS));

// q, or k.
struct Tensor {
  const Bits* __restrict__ x;
  const Bits* __restrict__ weight;
  const Bits* __restrict__ dy;
  Bits* __restrict__ dx;
  int rows;  // heads of a token
};

struct Table {
  const float* __restrict__ cosine;
  const float* __restrict__ sine;
};

// Which vector of a part is a thread's item i?
__device__ __forceinline__ int VectorOf(int lane, int i) { return i * HEAD_THREADS + lane; }

__device__ __forceinline__ bool IsInside(int lane, int i) {
  return kExact || VectorOf(lane, i) < kVectors;
}

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

// A thread's part of the table for one token.
struct Angle {
  float cosine[kItems][kPairs];
  float sine[kItems][kPairs];

  __device__ __forceinline__ void Load(const Table& table, long long token, int lane) {
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      if (!IsInside(lane, i)) continue;
      LoadTable(cosine[i], table.cosine + token * kHalf + VectorOf(lane, i) * kPairs);
      LoadTable(sine[i], table.sine + token * kHalf + VectorOf(lane, i) * kPairs);
    }
  }
};

// The gradient of a weight, as far as a thread's heads go.
struct Sums {
  float of[kItems][kParts][kVector];
};

// A thread's part of one head.
class Head {
 public:
  // Starts to fetch it. `row`: which head of the token.
  __device__ __forceinline__ void Fetch(const Tensor& t, long long token, int row, int lane) {
    exists_ = row < t.rows;
    offset_ = (token * t.rows + row) * HEAD_DIM;
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
#pragma unroll
      for (int p = 0; p < kParts; ++p) {
        const long long at = offset_ + p * kHalf + VectorOf(lane, i) * kVector;
        const bool is_there = exists_ && IsInside(lane, i);
        x_[i][p] = is_there ? LoadVector(t.x + at) : Filled(0);
        dy_[i][p] = is_there ? LoadVector(t.dy + at) : Filled(0);
      }
    }
  }

  // The two sums over the head that its gradient needs. All threads of a warp take part, also those
  // whose head there is not.
  __device__ __forceinline__ void AddUp(const Tensor& t, const Angle& angle, int lane,
                                        float& squares, float& slope) const {
    squares = 0;
    slope = 0;
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      if (!IsInside(lane, i)) continue;
      float dy[kParts][kVector];
      Unrotate(angle, i, dy);
#pragma unroll
      for (int p = 0; p < kParts; ++p) {
        const Vector weight = WeightAt(t, lane, i, p);
#pragma unroll
        for (int e = 0; e < kVector; ++e) {
          const float x = At(x_[i][p], e);
          squares += x * x;
          slope += dy[p][e] * At(weight, e) * x;
        }
      }
    }
#pragma unroll
    for (int mask = HEAD_THREADS / 2; mask > 0; mask /= 2) {
      squares += __shfl_xor_sync(kAll, squares, mask);
      slope += __shfl_xor_sync(kAll, slope, mask);
    }
  }

  // Stores the head's gradient, and adds to that of the weight. `slope` is the mean of dy weight n.
  __device__ __forceinline__ void Finish(const Tensor& t, const Angle& angle, int lane,
                                         float scale, float slope, Sums& sums) const {
    if (!exists_) return;
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      if (!IsInside(lane, i)) continue;
      float dy[kParts][kVector];
      Unrotate(angle, i, dy);
#pragma unroll
      for (int p = 0; p < kParts; ++p) {
        const Vector weight = WeightAt(t, lane, i, p);
        float dx[kVector];
#pragma unroll
        for (int e = 0; e < kVector; ++e) {
          const float normal = At(x_[i][p], e) * scale;
          dx[e] = scale * (dy[p][e] * At(weight, e) - normal * slope);
          sums.of[i][p][e] += dy[p][e] * normal;
        }
        StoreVector(t.dx + offset_ + p * kHalf + VectorOf(lane, i) * kVector, Rounded(dx));
      }
    }
  }

 private:
  __device__ __forceinline__ static Vector WeightAt(const Tensor& t, int lane, int i, int p) {
    return LoadVector<cached>(t.weight + p * kHalf + VectorOf(lane, i) * kVector);
  }

  // Item i of the gradient as it was before the rotation: turned back by the same angle.
  __device__ __forceinline__ void Unrotate(const Angle& angle, int i,
                                           float (&dy)[kParts][kVector]) const {
#pragma unroll
    for (int p = 0; p < kParts; ++p) Unpack(dy_[i][p], dy[p]);
#pragma unroll
    for (int pair = 0; pair < kPairs; ++pair) {
      float& first = INTERLEAVED ? dy[0][2 * pair] : dy[0][pair];
      float& second = INTERLEAVED ? dy[0][2 * pair + 1] : dy[kParts - 1][pair];
      const float a = first;
      const float b = second;
      first = a * angle.cosine[i][pair] + b * angle.sine[i][pair];
      second = b * angle.cosine[i][pair] - a * angle.sine[i][pair];
    }
  }

  Vector x_[kItems][kParts];
  Vector dy_[kItems][kParts];
  long long offset_;
  bool exists_;
};

// All heads of q or of k that the block has: tiles of one token each.
__device__ __forceinline__ void WalkHeads(const Tensor& t, const Table& table, long long seq,
                                          float epsilon, Sums& sums) {
  const int lane = threadIdx.x % HEAD_THREADS;
  const unsigned tiles = (t.rows + kTile - 1) / kTile;  // of a token
  const unsigned end = static_cast<unsigned>(seq) * tiles;
  for (unsigned tile = blockIdx.x; tile < end; tile += gridDim.x) {
    const long long token = tile / tiles;
    const int row = static_cast<int>(tile % tiles) * kTile + threadIdx.x / HEAD_THREADS;
    Head heads[HEADS];
#pragma unroll
    for (int h = 0; h < HEADS; ++h) heads[h].Fetch(t, token, row + h * kGroups, lane);
    Angle angle;
    angle.Load(table, token, lane);
#pragma unroll
    for (int h = 0; h < HEADS; ++h) {
      float squares;
      float slope;
      heads[h].AddUp(t, angle, lane, squares, slope);
      const float scale = rsqrtf(squares * (1.0f / HEAD_DIM) + epsilon);
      heads[h].Finish(t, angle, lane, scale, slope * scale * (1.0f / HEAD_DIM), sums);
    }
  }
}

// Adds up what the block's threads have, into its row of partial sums.
__device__ __forceinline__ void StoreSums(const Sums& sums, float* __restrict__ to) {
  __shared__ float shown[kOwn][THREADS];
  __syncthreads();  // Nobody reads what was shown before.
#pragma unroll
  for (int own = 0; own < kOwn; ++own) {
    shown[own][threadIdx.x] =
        sums.of[own / (kParts * kVector)][own / kVector % kParts][own % kVector];
  }
  __syncthreads();
#pragma unroll 1
  for (int column = threadIdx.x; column < HEAD_DIM; column += THREADS) {
    const int part = column / (HEAD_DIM / kParts);
    const int vector = column % (HEAD_DIM / kParts) / kVector;
    const int own =
        (vector / HEAD_THREADS * kParts + part) * kVector + column % (HEAD_DIM / kParts) % kVector;
    float sum = 0;
#pragma unroll 4
    for (int group = 0; group < kGroups; ++group) {
      sum += shown[own][group * HEAD_THREADS + vector % HEAD_THREADS];
    }
    to[column] = sum;
  }
}

extern "C" __global__ void __launch_bounds__(THREADS, kBlocksPerSm)
    qk_norm_rope_backward(const Bits* __restrict__ q, const Bits* __restrict__ k,
                          const Bits* __restrict__ q_weight, const Bits* __restrict__ k_weight,
                          const float* __restrict__ cosine, const float* __restrict__ sine,
                          const Bits* __restrict__ dq_out, const Bits* __restrict__ dk_out,
                          Bits* __restrict__ dq, Bits* __restrict__ dk,
                          float* __restrict__ partials, int* __restrict__ groups, long long seq,
                          long long q_rows, long long k_rows, float epsilon) {
  const Table table = {cosine, sine};
  float* own = partials + static_cast<long long>(blockIdx.x) * 2 * HEAD_DIM;
#pragma unroll 1  // twice the code would take twice as long to compile
  for (int which = 0; which < 2; ++which) {
    // Chosen one by one: a structure that is chosen as a whole would lie in local memory.
    const bool is_q = which == 0;
    const Tensor tensor = {is_q ? q : k, is_q ? q_weight : k_weight, is_q ? dq_out : dk_out,
                           is_q ? dq : dk, static_cast<int>(is_q ? q_rows : k_rows)};
    Sums sums = {};
    WalkHeads(tensor, table, seq, epsilon, sums);
    StoreSums(sums, own + which * HEAD_DIM);
  }
  if (blockIdx.x == 0 && threadIdx.x == 0) *groups = static_cast<int>(gridDim.x);
}

// Second step: adds the blocks' sums. A block has 32 columns and COMBINE_LANES threads for each.
extern "C" __global__ void __launch_bounds__(32 * COMBINE_LANES)
    combine(const float* __restrict__ partials, Bits* __restrict__ dq_weight,
            Bits* __restrict__ dk_weight, const int* __restrict__ groups) {
  __shared__ float sums[COMBINE_LANES][33];
  const int column = blockIdx.x * 32 + threadIdx.x % 32;
  const int lane = threadIdx.x / 32;
  float sum = 0;
  if (column < 2 * HEAD_DIM) {
#pragma unroll 8
    for (int group = lane; group < *groups; group += COMBINE_LANES) {
      sum += partials[static_cast<long long>(group) * 2 * HEAD_DIM + column];
    }
  }
  sums[lane][threadIdx.x % 32] = sum;
  __syncthreads();
  if (lane != 0 || column >= 2 * HEAD_DIM) return;
#pragma unroll
  for (int other = 1; other < COMBINE_LANES; ++other) sum += sums[other][threadIdx.x % 32];
  Bits* gradient = column < HEAD_DIM ? dq_weight : dk_weight;
  gradient[column % HEAD_DIM] = BitsOf(sum);
}

#endif  // TUNE_REFERENCE
