// SPDX-License-Identifier: Apache-2.0
// A step of AdamW over a list of tensors of any sizes, in one launch. The list is cut into chunks
// of equal size as if its tensors lay one behind the other; a block takes a chunk, whatever tensors
// or parts of tensors are in it. A vector of elements never spans two tensors: it belongs to the
// chunk that its first element is in.
#if TUNE_REFERENCE

#if DTYPE_BF16
#include <cuda_bf16.h>
#elif DTYPE_F16
#include <cuda_fp16.h>
#endif

// In double precision, tensor after tensor.
extern "C" __global__ void adamw_list_reference(
    double* p, double* master, const DTYPE* g, double* m, double* v, const long long* p_at,
    const long long* master_at, const long long* g_at, const long long* m_at,
    const long long* v_at, const long long* first, int tensors, float rate, float decay,
    float beta1, float beta2, float epsilon, float correction1, float correction2) {
  const long long step = static_cast<long long>(gridDim.x) * blockDim.x;
  for (int t = 0; t < tensors; ++t) {
    for (long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
         i < first[t + 1] - first[t]; i += step) {
      const double gradient = static_cast<float>(g[g_at[t] + i]);
      double& mean = m[m_at[t] + i];
      double& square = v[v_at[t] + i];
      double& parameter = p[p_at[t] + i];
      mean = beta1 * mean + (1.0 - beta1) * gradient;
      square = beta2 * square + (1.0 - beta2) * gradient * gradient;
      const double before = MASTER ? master[master_at[t] + i] : parameter;
      parameter = before * (1.0 - static_cast<double>(rate) * decay) -
                  rate * (mean * correction1) / (sqrt(square * correction2) + epsilon);
      if (MASTER) master[master_at[t] + i] = parameter;
    }
  }
}

#else

#include "adamw_step.cuh"

// Values of GRID: a block for each chunk, or as many as fit the device, which walk over chunks.
enum Grid { chunk, resident };
// Values of FIND: how a block learns which tensor its chunk begins in.
enum Find { search, table };

constexpr int kBlocksPerSm = Max(1, Min(32, SM_THREADS / THREADS));
constexpr int kStride = THREADS * ITEMS;                               // vectors
constexpr int kSingles = Min(kVector, 4);                              // elements, at a time
constexpr long long kChunk = static_cast<long long>(CHUNK) * kVector;  // elements

// The start of each tensor of the list, in elements from the pointer of its kind. Only `first` is
// not for the tensors' addresses: how many elements the tensors before it have.
struct List {
  const long long* __restrict__ p_at;
  const long long* __restrict__ master_at;
  const long long* __restrict__ g_at;
  const long long* __restrict__ m_at;
  const long long* __restrict__ v_at;
  const long long* __restrict__ first;  // tensors + 1 of them
  int tensors;
};

// The last tensor that begins at or before an element of the list; it has the element.
__device__ __forceinline__ int TensorOf(const long long* __restrict__ first, int tensors,
                                        long long element) {
  int low = 0;
  int high = tensors;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    if (first[middle] <= element) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

// All threads of a block get the same tensor, from `low` on. The lanes of a warp look at 32 places
// at a time, since each look waits for the one before it.
__device__ __forceinline__ int TensorOfBlock(const long long* __restrict__ first, int tensors,
                                             long long element, int low) {
#if TUNE_CPU
  return low + TensorOf(first + low, tensors - low, element);
#else
  for (int count = tensors - low; count > 1;) {
    const int stride = (count + 31) / 32;
    const int at = static_cast<int>(threadIdx.x % 32) * stride;
    const unsigned begun = __ballot_sync(~0u, at < count && first[low + at] <= element);
    const int last = (31 - __clz(begun)) * stride;
    low += last;
    count = Min(stride, count - last);
  }
  return low;
#endif
}

#if HAS_TABLE
// The first step of FIND == table: the tensor that each chunk begins in.
extern "C" __global__ void adamw_list_table(const long long* __restrict__ first,
                                            int* __restrict__ tensor_of, int tensors) {
  const long long chunks = (first[tensors] + kChunk - 1) / kChunk;
  const long long step = static_cast<long long>(gridDim.x) * blockDim.x;
  for (long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x; i < chunks;
       i += step) {
    tensor_of[i] = TensorOf(first, tensors, i * kChunk);
  }
}
#endif

__device__ __forceinline__ bool IsAligned(const void* address, int bytes) {
  return reinterpret_cast<unsigned long long>(address) % bytes == 0;
}

__device__ __forceinline__ Tensors TensorAt(const Tensors& all, const List& list, int t) {
  return {all.p + list.p_at[t], MASTER ? all.master + list.master_at[t] : all.master,
          all.g + list.g_at[t], all.m + list.m_at[t], all.v + list.v_at[t]};
}

__device__ __forceinline__ bool IsAligned(const Tensors& t) {
  constexpr int kElements = VECTOR_BYTES < 16 ? VECTOR_BYTES : 16;
  return IsAligned(t.p, kElements) && IsAligned(t.g, kElements) &&
         IsAligned(t.m, 4 * kFloats) && IsAligned(t.v, 4 * kFloats) &&
         (!MASTER || IsAligned(t.master, 4 * kFloats));
}

// Vectors [first, end) of one tensor of n elements, by all threads of the block.
__device__ __forceinline__ void StepPart(const Tensors& t, const Rule& rule, long long first,
                                         long long end, long long n) {
  const long long last = end * kVector < n ? end * kVector : n;
  // A chunk that begins in a tensor's last vector, which is another's, has nothing to step.
  const long long whole = IsAligned(t) && last / kVector > first ? last / kVector : first;
  long long from = first + threadIdx.x;
#pragma unroll 1
  for (; from + (ITEMS - 1) * THREADS < whole; from += kStride) {
    Element element[ITEMS];
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) Fetch(element[i], t, (from + i * THREADS) * kVector);
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) Step(element[i], t, rule, (from + i * THREADS) * kVector);
  }
#pragma unroll 1
  for (; ITEMS > 1 && from < whole; from += THREADS) {
    Element element;
    Fetch(element, t, from * kVector);
    Step(element, t, rule, from * kVector);
  }
  // A tensor that is not aligned, and what is behind the last whole vector.
  const long long rest = whole * kVector;
  const long long fours = rest + (last - rest) / kSingles * kSingles;
#pragma unroll 1
  for (long long at = rest + threadIdx.x * kSingles; at < fours; at += THREADS * kSingles) {
    StepSingles<kSingles>(t, rule, at);
  }
#pragma unroll 1
  for (long long at = fours + threadIdx.x; at < last; at += THREADS) StepSingles<1>(t, rule, at);
}

__device__ __forceinline__ void StepChunk(const Tensors& all, const List& list, const Rule& rule,
                                          long long begin, int t) {
  for (; t < list.tensors; ++t) {
    const long long start = list.first[t];
    if (start >= begin + kChunk) return;
    const long long n = list.first[t + 1] - start;
    const long long from = begin > start ? begin - start : 0;
    const long long to = begin + kChunk - start < n ? begin + kChunk - start : n;
    StepPart(TensorAt(all, list, t), rule, (from + kVector - 1) / kVector,
             (to + kVector - 1) / kVector, n);
  }
}

extern "C" __global__ void __launch_bounds__(THREADS, kBlocksPerSm)
    adamw_list(Bits* p, float* master, const Bits* __restrict__ g, float* m, float* v,
               const long long* __restrict__ p_at, const long long* __restrict__ master_at,
               const long long* __restrict__ g_at, const long long* __restrict__ m_at,
               const long long* __restrict__ v_at, const long long* __restrict__ first,
               int* __restrict__ tensor_of, int tensors, float rate, float decay,
               float beta1, float beta2, float epsilon, float correction1, float correction2) {
  const Tensors all = {p, master, g, m, v};
  const List list = {p_at, master_at, g_at, m_at, v_at, first, tensors};
  const Rule rule = {1.0f - rate * decay, rate * correction1, beta1, beta2, epsilon, correction2};
  int t = 0;
  for (long long i = blockIdx.x; GRID == chunk || i * kChunk < first[tensors]; i += gridDim.x) {
    const long long begin = i * kChunk;
    if constexpr (FIND == table) {
      t = tensor_of[i];
    } else if (GRID == chunk || begin >= first[t + 1]) {  // not in the tensor of the chunk before
      t = TensorOfBlock(first, tensors, begin, t);
    }
    StepChunk(all, list, rule, begin, t);
    if constexpr (GRID == chunk) return;
  }
}

#endif  // TUNE_REFERENCE
