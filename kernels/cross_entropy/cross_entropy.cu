// SPDX-License-Identifier: Apache-2.0
// Cross-entropy of the rows of a [rows, COLS] matrix of logits, with a target for each row, and
// if GRADIENT the gradient of the logits, in one pass: each logit is read once from device memory
// (unless KEEP is `none`: see README.md). A row whose target is no column is ignored: its loss and
// gradient are zero, and its logits are not read.
#if TUNE_REFERENCE

#if DTYPE_BF16
#include <cuda_bf16.h>
#elif DTYPE_F16
#include <cuda_fp16.h>
#endif

// The values of the 256 threads of a block, merged.
template <typename Merge>
__device__ double InBlock(double mine, Merge merge) {
  __shared__ double partial[256];
  partial[threadIdx.x] = mine;
  __syncthreads();
  double all = partial[0];
  for (int i = 1; i < 256; ++i) all = merge(all, partial[i]);
  __syncthreads();
  return all;
}

// A block takes a row, in double precision.
extern "C" __global__ void cross_entropy_reference(const DTYPE* logits, const long long* targets,
                                                   const float* dloss, double* loss, double* lse,
                                                   double* dlogits, long long rows,
                                                   float smoothing) {
  const auto add = [](double a, double b) { return a + b; };
  const auto larger = [](double a, double b) { return a > b ? a : b; };
  const int thread = threadIdx.x;
  for (long long row = blockIdx.x; row < rows; row += gridDim.x) {
    const DTYPE* in = logits + row * COLS;
    const long long target = targets[row];
    const bool ignored = target < 0 || target >= COLS;
    const auto at = [&](int col) { return static_cast<double>(static_cast<float>(in[col])); };

    double largest = at(0);
    for (int col = thread; col < COLS; col += 256) largest = larger(largest, at(col));
    largest = InBlock(largest, larger);
    double exponentials = 0;
    double sum = 0;
    for (int col = thread; col < COLS; col += 256) {
      exponentials += exp(at(col) - largest);
      sum += at(col);
    }
    exponentials = InBlock(exponentials, add);
    const double mean = InBlock(sum, add) / COLS;

    const double log_sum = largest + log(exponentials);
    if (thread == 0) {
      lse[row] = ignored ? 0 : log_sum;
      loss[row] = ignored ? 0 : log_sum - (1.0 - smoothing) * at(target) - smoothing * mean;
    }
    for (int col = thread; GRADIENT && col < COLS; col += 256) {
      const double expected = (col == target ? 1.0 - smoothing : 0.0) + smoothing / double(COLS);
      dlogits[row * COLS + col] =
          ignored ? 0 : dloss[row] * (exp(at(col) - log_sum) - expected);
    }
    if (!GRADIENT && row == 0 && thread == 0) dlogits[0] = 0;
  }
}

#else

#include "fast_math.cuh"
#include "rows.cuh"

constexpr float kLog2e = 1.44269504f;
constexpr float kLowest = -3.402823466e38f;
// Passes are unrolled so far. Those over shared memory are bound by their exponentials: more would
// only take longer to compile.
constexpr int kWalk = KEEP == async ? 2 : kUnroll;

// exp(value - largest). The difference first: exact for neighbours of any size, and never NaN for
// finite values.
__device__ __forceinline__ float Exp(float value, float largest) {
  return Exp2((value - largest) * kLog2e);
}

// The largest of some logits, the sum of exp(logit - largest), and the sum of the logits.
using Seen = Partial<3>;

struct MergeSeen {
  __device__ __forceinline__ void operator()(Seen& to, const Seen& other) const {
    const float largest = fmaxf(to.value[0], other.value[0]);
    to.value[1] = to.value[1] * Exp(to.value[0], largest) +
                  other.value[1] * Exp(other.value[0], largest);
    to.value[2] += other.value[2];
    to.value[0] = largest;
  }
};

// Sees a thread's part of a row in one pass with a running maximum.
__device__ __forceinline__ Seen SeenIn(const Share<kMinusInfinity>& share, const Row& row) {
  Seen seen = {{kLowest, 0, 0}};
#pragma unroll kWalk
  for (int i = 0; i < kItems; ++i) {
    const int v = VectorOf(row, i);
    if (!IsInside(row, v)) continue;
    float value[kVector];
    share.Get(row, i, value);
    float largest = seen.value[0];
#pragma unroll
    for (int e = 0; e < kVector; ++e) largest = fmaxf(largest, value[e]);
    float exponentials = seen.value[1] * Exp(seen.value[0], largest);
#pragma unroll
    for (int e = 0; e < kVector; ++e) exponentials += Exp(value[e], largest);
    seen.value[0] = largest;
    seen.value[1] = exponentials;
    const bool part = MayBePart(i) && IsPart(row, v);
#pragma unroll
    for (int e = 0; e < kVector; ++e) {
      if (!part || (e >= FirstOf(row, v) && e < EndOf(row, v))) seen.value[2] += value[e];
    }
  }
  return seen;
}

// scale * (softmax - expected), where `everywhere` is expected of each column and `more` of the
// target besides: its thread writes that element once more, so that the loop need not look for it.
// The softmax is exp(logit - largest) / sum: a logarithm of the sum would lose the digits that an
// offset common to all logits takes.
__device__ __forceinline__ void StoreGradient(Bits* dlogits, const Share<kMinusInfinity>& share,
                                              const Row& row, const Row& read, const Seen& seen,
                                              int target, float target_logit, float scale,
                                              float everywhere, float more) {
  const float largest = seen.value[0];
  const float share_of_sum = scale / seen.value[1];
  const float expected = scale * everywhere;
#pragma unroll kWalk
  for (int i = 0; i < kItems; ++i) {
    float value[kVector];
    share.Get(read, i, value);
#pragma unroll
    for (int e = 0; e < kVector; ++e) value[e] = share_of_sum * Exp(value[e], largest) - expected;
    Store(dlogits, row, i, read.exists ? Rounded(value) : Filled(0));
  }
  const int v = (row.offset + target) / kVector;
  if (!read.exists || v / kChunk != row.rank || v % kChunk % ROW_THREADS != row.lane) return;
  const float value = share_of_sum * Exp(target_logit, largest) - expected;
#if !TUNE_CPU
  asm volatile("" ::: "memory");  // A store of another type: the compiler may not know the order.
#endif
  dlogits[row.index * COLS + target] = BitsOf(value - scale * more);
}

extern "C" __global__ void __launch_bounds__(kThreads, kBlocksPerSm)
    cross_entropy(const Bits* __restrict__ logits, const long long* __restrict__ targets,
                  const float* __restrict__ dloss, float* __restrict__ loss,
                  float* __restrict__ lse, Bits* __restrict__ dlogits, long long rows,
                  float smoothing) {
  StartMerges();
  const Row row = RowOfThread(rows);
  const long long target = row.exists ? targets[row.index] : -1;
  Row read = row;
  read.exists = target >= 0 && target < COLS;
  Share<kMinusInfinity> share;
  share.Fetch(logits, read, 0);
  Bits target_bits = 0;
  float scale = 0;
  if (read.exists) {
    target_bits = logits[row.index * COLS + target];
    if constexpr (GRADIENT) scale = dloss[row.index];
  }
  if constexpr (KEEP == async) CopyWait();

  Seen seen = SeenIn(share, read);
  WaitForClusterStart();
  MergeInRow<by_block>(seen, row, 0, MergeSeen());

  const float target_logit = FloatOf(target_bits);
  if (Leads(row)) {
    const float largest = seen.value[0];
    const float log_sum = logf(seen.value[1]);
    // Differences first: they are exact for neighbours of any size.
    const float mean = seen.value[2] * (1.0f / COLS);
    const float below = smoothing > 0 ? smoothing * (largest - mean) : 0.0f;
    const float distance = (1.0f - smoothing) * (largest - target_logit) + below + log_sum;
    lse[row.index] = read.exists ? largest + log_sum : 0.0f;
    loss[row.index] = read.exists ? distance : 0.0f;
  }
  if constexpr (GRADIENT) {
    StoreGradient(dlogits, share, row, read, seen, static_cast<int>(target), target_logit, scale,
                  smoothing * (1.0f / COLS), 1.0f - smoothing);
  } else if (Leads(row) && row.index == 0) {
    dlogits[0] = 0;
  }
}

#endif  // TUNE_REFERENCE
