// SPDX-License-Identifier: Apache-2.0
// Work on the accumulators of a tensor-core multiplication, which spreads a row over four
// neighbouring lanes: of each 8 columns a lane holds two, for rows lane / 4 and lane / 4 + 8.
#pragma once

#include "backward_problem.h"
#include "fast_math.cuh"
#include "quad.cuh"
#include "stores.h"

// A score without weight. Its square is finite where the cap's slope is made from it.
constexpr float kHidden = SOFTCAP ? -1e15f : -1e30f;

// Relative error up to 2^-11.
__device__ __forceinline__ float Tanh(float x) {
  float y;
  asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// Makes hyperbolic tangents of products.
template <int kCount>
__device__ __forceinline__ void Cap(float (&s)[kCount], const Scale& scale) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) s[i] = Tanh(s[i] * scale.to_cap);
}

// Hides the columns of a lane's two rows before their bounds (kBefore), or those from there on.
template <bool kBefore, int kCount>
__device__ __forceinline__ void Mask(float (&s)[kCount], const int (&bound)[2]) {
  const int column = threadIdx.x % 4 * 2;
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    const int at = i / 4 * 8 + i % 2;
    const int limit = bound[i / 2 % 2] - column;
    if (kBefore ? at < limit : at >= limit) s[i] = kHidden;
  }
}

// Hides what the kRows held rows from `first_row` do not see of the streamed block from `first`;
// each warp has 16 of them, and a lane kCount scores in two of these. Streamed rows of Q behind the
// last have no weight anyway.
template <bool kKeys, int kRows, int kCount>
__device__ __forceinline__ void MaskTile(const Problem& problem, int first_row, int first,
                                         float (&s)[kCount]) {
  const int lane_row = first_row + threadIdx.x % (kRows * 2) / 32 * 16 + threadIdx.x % 32 / 4;
  if (kKeys ? first_row + kRows > problem.keys ||
                  (CAUSAL && first < QueriesOf(problem, first_row + kRows - 1).begin)
            : first + 2 * kCount > KeysOf(problem, first_row).end) {
    int bound[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int row = lane_row + r * 8;
      if (kKeys) {
        bound[r] = row >= problem.keys ? 2 * kCount
                   : CAUSAL            ? QueriesOf(problem, row).begin - first
                                       : 0;
      } else {
        bound[r] = KeysOf(problem, row).end - first;
      }
    }
    Mask<kKeys>(s, bound);
  }
  if (WINDOWED && (kKeys ? first + 2 * kCount > QueriesOf(problem, first_row).end
                         : first < KeysOf(problem, first_row + kRows - 1).begin)) {
    int bound[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const Range seen = SeenBy<kKeys>(problem, lane_row + r * 8);
      bound[r] = (kKeys ? seen.end : seen.begin) - first;
    }
    Mask<!kKeys>(s, bound);
  }
}

// The facts of a lane's rows of Q: of two held rows, or two at a time of the streamed ones.
struct RowFacts {
  float lse[2];
  float delta[2];
};

__device__ __forceinline__ void LoadFacts(const Problem& problem, int head, int row,
                                          const float* facts, RowFacts& rows) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const long long at = FactIndex(problem, head, row + r * 8);
    rows.lse[r] = facts[at];
    rows.delta[r] = facts[at + kFactRows];
  }
}

__device__ __forceinline__ float2 StreamedPair(const float* facts, int i) {
  const int at = i / 4 * 8 + threadIdx.x % 4 * 2;
  return *reinterpret_cast<const float2*>(facts + at / kFactRows * kFactFloats + at % kFactRows);
}

template <int kCount>
__device__ __forceinline__ void PackAll(const float (&s)[kCount], unsigned (&p)[kCount / 2]) {
#pragma unroll
  for (int i = 0; i < kCount / 2; ++i) p[i] = Pack(s[2 * i], s[2 * i + 1]);
}

// From scores, or the tangents that Cap has left, to weights, also rounded ones for dV (kKeys).
// With SOFTCAP those that are not rounded are multiplied by the cap's slope. `facts` are the
// streamed rows' (kKeys), `rows` the held ones'.
template <bool kKeys, int kCount>
__device__ __forceinline__ void Weigh(float (&s)[kCount], float scale_log2, const float* facts,
                                      const RowFacts& rows, unsigned (&packed)[kCount / 2]) {
#pragma unroll
  for (int i = 0; i < kCount; i += 4) {
    const float2 lse = kKeys ? StreamedPair(facts, i) : make_float2(rows.lse[0], rows.lse[1]);
    float slope[4];
#pragma unroll
    for (int e = 0; e < 4; ++e) slope[e] = 1.0f - s[i + e] * s[i + e];
    s[i] = Exp2(s[i] * scale_log2 - lse.x);
    s[i + 1] = Exp2(s[i + 1] * scale_log2 - (kKeys ? lse.y : lse.x));
    s[i + 2] = Exp2(s[i + 2] * scale_log2 - (kKeys ? lse.x : lse.y));
    s[i + 3] = Exp2(s[i + 3] * scale_log2 - lse.y);
    if (!SOFTCAP) continue;
    packed[i / 2] = Pack(s[i], s[i + 1]);
    packed[i / 2 + 1] = Pack(s[i + 2], s[i + 3]);
#pragma unroll
    for (int e = 0; e < 4; ++e) s[i + e] *= slope[e];
  }
  if (!SOFTCAP && kKeys) PackAll(s, packed);
}

// From the weights' slopes `t` and the weights `p` to the scores' slopes, of four scores from the
// i-th.
template <bool kKeys>
__device__ __forceinline__ void SlopeFour(float* t, const float* p, int i, const float* facts,
                                          const RowFacts& rows) {
  const float2 delta =
      kKeys ? StreamedPair(facts + kFactRows, i) : make_float2(rows.delta[0], rows.delta[1]);
  t[0] = p[0] * (t[0] - delta.x);
  t[1] = p[1] * (t[1] - (kKeys ? delta.y : delta.x));
  t[2] = p[2] * (t[2] - (kKeys ? delta.x : delta.y));
  t[3] = p[3] * (t[3] - delta.y);
}

template <bool kKeys, int kCount>
__device__ __forceinline__ void Slope(float (&t)[kCount], const float (&p)[kCount],
                                      const float* facts, const RowFacts& rows) {
#pragma unroll
  for (int i = 0; i < kCount; i += 4) SlopeFour<kKeys>(t + i, p + i, i, facts, rows);
}

// Makes slopes from rounded weights, which take half the registers.
template <bool kKeys, int kCount>
__device__ __forceinline__ void Slope(float (&t)[kCount], const unsigned (&p)[kCount / 2],
                                      const float* facts, const RowFacts& rows) {
#pragma unroll
  for (int i = 0; i < kCount; i += 4) {
    const float2 first = Unpack(p[i / 2]), second = Unpack(p[i / 2 + 1]);
    const float four[4] = {first.x, first.y, second.x, second.y};
    SlopeFour<kKeys>(t + i, four, i, facts, rows);
  }
}

// Writes rows `row` and `row + 8` of a head times `scale`, 16 bytes a lane at a time, as far as
// they are before `end`.
template <int kCount>
__device__ __forceinline__ void StoreRows(const Problem& problem, int heads, int head, int row,
                                          int end, float scale, const float (&sums)[kCount],
                                          const View<Element>& to) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    uint4* line = reinterpret_cast<uint4*>(to.Row(heads, head, problem.start + row + r * 8)) +
                  threadIdx.x % 4;
#pragma unroll
    for (int i = 0; i < kCount / 16; ++i) {
      unsigned w[4];
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const float* pair = sums + 16 * i + 4 * e + 2 * r;
        w[e] = Pack(pair[0] * scale, pair[1] * scale);
      }
      TransposeQuad(w);
      if (row + r * 8 < end) line[i * 4] = make_uint4(w[0], w[1], w[2], w[3]);
    }
  }
}

// Writes rows `row` and `row + 8` of a head's part times `scale`.
template <int kCount>
__device__ __forceinline__ void StorePart(const Problem& problem, int row, float scale,
                                          const float (&sums)[kCount], float* __restrict__ part) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    if (row + r * 8 >= problem.keys) continue;
    float* line = part + static_cast<long long>(row + r * 8) * HEAD_DIM + threadIdx.x % 4 * 2;
#pragma unroll
    for (int i = 0; i < kCount / 4; ++i) {
      const float* pair = sums + 4 * i + 2 * r;
      *reinterpret_cast<float2*>(line + i * 8) = make_float2(pair[0] * scale, pair[1] * scale);
    }
  }
}

// Writes the gradients of held rows `row` and `row + 8`.
template <bool kKeys, int kCount>
__device__ __forceinline__ void StoreHeld(const Problem& problem, const Held& at, int row,
                                          const float (&slopes)[kCount],
                                          const float (&weights)[kCount], const Gradients& to) {
  if (kKeys && PARTS > 1) {
    StorePart(problem, row, problem.scale, slopes, to.parts + PartIndex(problem, at, 0));
    StorePart(problem, row, 1.0f, weights, to.parts + PartIndex(problem, at, 1));
    return;
  }
  const Sides<kKeys> sides(problem);
  const int heads = sides.held_heads, end = sides.held_rows;
  StoreRows(problem, heads, at.head, row, end, problem.scale, slopes, to.slopes);
  if (kKeys) StoreRows(problem, heads, at.head, row, end, 1.0f, weights, to.weights);
}
