// SPDX-License-Identifier: Apache-2.0
// The harness's own kernels: they fill buffers, check what a variant wrote, and empty the cache.
// Compiled by NVRTC when a runner starts. All names begin with tune_harness_, which keeps them out
// of the timed records.
#include "compare.h"
#include "fill.h"
#include "harness_layout.h"

namespace tune::cuda {

constexpr int kCompareUnroll = 2;

using U8 = unsigned char;
using U16 = unsigned short;
using U32 = unsigned int;
using U64 = unsigned long long;

// In the order of tune::DType.
enum DTypeIndex {
  kF64, kF32, kF16, kBF16, kI8, kU8, kI32, kU32, kI64, kE4M3, kI16, kU16, kU64, kBool
};

// Narrow floats as the harness sees them: bits. CUDA's own types would need its headers.
__device__ __forceinline__ float HalfToFloat(U16 bits) {
  float wide;
  asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(bits));
  return wide;
}
__device__ __forceinline__ U16 FloatToHalf(float value) {
  U16 bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
}
__device__ __forceinline__ float Bfloat16ToFloat(U16 bits) {
  return __uint_as_float(static_cast<U32>(bits) << 16);
}
// Rounds to nearest even.
__device__ __forceinline__ U16 FloatToBfloat16(float value) {
  const U32 bits = __float_as_uint(value);
  return static_cast<U16>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

__device__ __forceinline__ float E4m3ToFloat(U8 bits) {
  const U32 sign = static_cast<U32>(bits & 0x80u) << 24;
  const U32 rest = bits & 0x7fu;
  const U32 finite = __float_as_uint(__uint_as_float(rest << 20) * 0x1p120f);
  return __uint_as_float(sign | (rest == 0x7fu ? 0x7fc00000u : finite));
}
// Rounds to nearest even; what is too large becomes the largest number, 448.
__device__ __forceinline__ U8 FloatToE4m3(float value) {
  const U32 bits = __float_as_uint(value);
  const U32 size = bits & 0x7fffffffu;
  U32 narrow = (size + 0x7ffffu + ((size >> 20) & 1u) - 0x3c000000u) >> 20;
  // Subnormal: an addition shifts and rounds.
  if (size < 0x3c800000u) narrow = __float_as_uint(__uint_as_float(size) + 16384.0f) - 0x46800000u;
  if (size >= 0x43e00000u) narrow = size > 0x7f800000u ? 0x7fu : 0x7eu;
  return static_cast<U8>(((bits >> 24) & 0x80u) | narrow);
}

// A switch over all types, which every thread takes alike, instead of a kernel for each pair of
// types: a worker compiles this file when it starts, and who replaces a hung worker waits for it.
__device__ __forceinline__ double Load(int dtype, const void* data, U64 i) {
  switch (dtype) {
    case kF64: return static_cast<const double*>(data)[i];
    case kF32: return static_cast<const float*>(data)[i];
    case kF16: return HalfToFloat(static_cast<const U16*>(data)[i]);
    case kBF16: return Bfloat16ToFloat(static_cast<const U16*>(data)[i]);
    case kI8: return static_cast<const signed char*>(data)[i];
    case kU8: return static_cast<const U8*>(data)[i];
    case kI32: return static_cast<const int*>(data)[i];
    case kU32: return static_cast<const U32*>(data)[i];
    case kE4M3: return E4m3ToFloat(static_cast<const U8*>(data)[i]);
    case kI16: return static_cast<const short*>(data)[i];
    case kU16: return static_cast<const U16*>(data)[i];
    case kU64: return static_cast<double>(static_cast<const U64*>(data)[i]);
    case kBool: return static_cast<const U8*>(data)[i];
    default: return static_cast<double>(static_cast<const long long*>(data)[i]);
  }
}

__device__ __forceinline__ void StoreFloat(int dtype, void* data, U64 i, float value) {
  switch (dtype) {
    case kF64: static_cast<double*>(data)[i] = value; break;
    case kF32: static_cast<float*>(data)[i] = value; break;
    case kF16: static_cast<U16*>(data)[i] = FloatToHalf(value); break;
    case kE4M3: static_cast<U8*>(data)[i] = FloatToE4m3(value); break;
    default: static_cast<U16*>(data)[i] = FloatToBfloat16(value); break;
  }
}

__device__ __forceinline__ void StoreInteger(int dtype, void* data, U64 i, long long value) {
  switch (dtype) {
    case kI8:
    case kU8: static_cast<U8*>(data)[i] = static_cast<U8>(value); break;
    case kI32:
    case kU32: static_cast<U32*>(data)[i] = static_cast<U32>(value); break;
    case kI16:
    case kU16: static_cast<U16*>(data)[i] = static_cast<U16>(value); break;
    case kBool: static_cast<U8*>(data)[i] = value != 0; break;
    default: static_cast<long long*>(data)[i] = value; break;
  }
}

__device__ __forceinline__ U64 FirstIndex() {
  return static_cast<U64>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ __forceinline__ U64 IndexStep() { return static_cast<U64>(gridDim.x) * blockDim.x; }

// The block's results, added up in a fixed order, into *out.
__device__ void ReduceBlock(const CompareResult& mine, CompareResult* out) {
  __shared__ CompareResult shared[kHarnessThreads];
  shared[threadIdx.x] = mine;
  __syncthreads();
  for (int half = kHarnessThreads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) {
      Merge(shared[threadIdx.x + half], shared[threadIdx.x]);
    }
    __syncthreads();
  }
  if (threadIdx.x == 0) *out = shared[0];
}

// SplitMix64's finaliser.
__device__ __forceinline__ U64 Mix(U64 z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

__device__ __forceinline__ U8 GuardByte(U64 range, U64 offset) {
  return static_cast<U8>(Mix(range * 0x100000000ull + offset));
}

}  // namespace tune::cuda

using namespace tune;
using namespace tune::cuda;

#define TUNE_KERNEL(name) \
  extern "C" __global__ void __launch_bounds__(kHarnessThreads) tune_harness_##name

TUNE_KERNEL(fill)(int dtype, void* out, U64 count, int kind, double low, double high, U64 key) {
  for (U64 i = FirstIndex(); i < count; i += IndexStep()) {
    if (dtype <= kBF16 || dtype == kE4M3) {
      const float from = static_cast<float>(low);
      StoreFloat(dtype, out, i, tune::FillFloat(kind, from, static_cast<float>(high), key, i));
    } else {
      const long long from = static_cast<long long>(low);
      StoreInteger(dtype, out, i,
                   tune::FillInteger(kind, from, static_cast<long long>(high), key, i));
    }
  }
}

// From a floating type to f32 or f64.
TUNE_KERNEL(widen)(int out_dtype, void* out, int in_dtype, const void* in, U64 count) {
  for (U64 i = FirstIndex(); i < count; i += IndexStep()) {
    const double value = Load(in_dtype, in, i);
    if (out_dtype == kF64) static_cast<double*>(out)[i] = value;
    if (out_dtype == kF32) static_cast<float*>(out)[i] = static_cast<float>(value);
  }
}

// Writes a partial result a block. Four blocks a multiprocessor hide the latency of memory,
// although some registers spill: with two blocks it takes twice as long on an H100.
extern "C" __global__ void __launch_bounds__(kHarnessThreads, 4)
tune_harness_compare(int out_dtype, const void* out, int ref_dtype, const void* ref, U64 count,
                     double rtol, double atol, CompareResult* partials) {
  CompareResult sum = {};
  const bool with_sign = out_dtype == kI64 && ref_dtype == kI64;
  const bool without_sign = out_dtype == kU64 && ref_dtype == kU64;
  const U64 step = IndexStep();
  for (U64 first = FirstIndex(); first < count; first += kCompareUnroll * step) {
    double values[kCompareUnroll];
    double references[kCompareUnroll];
    double errors[kCompareUnroll];
#pragma unroll
    for (int k = 0; k < kCompareUnroll; ++k) {
      const U64 i = first + k * step < count ? first + k * step : first;
      values[k] = Load(out_dtype, out, i);
      references[k] = Load(ref_dtype, ref, i);
      errors[k] = with_sign ? ErrorOfIntegers(static_cast<const long long*>(out)[i],
                                              static_cast<const long long*>(ref)[i])
                  : without_sign
                      ? ErrorOfUnsigned(static_cast<const U64*>(out)[i],
                                        static_cast<const U64*>(ref)[i])
                      : ErrorOf(values[k], references[k]);
    }
#pragma unroll
    for (int k = 0; k < kCompareUnroll; ++k) {
      const U64 i = first + k * step;
      if (i < count) AddElement(values[k], references[k], errors[k], i, rtol, atol, sum);
    }
  }
  ReduceBlock(sum, &partials[blockIdx.x]);
}

// Runs as one block.
TUNE_KERNEL(compare_finish)(const CompareResult* partials, int count, CompareResult* result) {
  CompareResult sum = {};
  for (int i = threadIdx.x; i < count; i += blockDim.x) Merge(partials[i], sum);
  ReduceBlock(sum, result);
}

// Adds the hash of an array to *hash: the same whatever the grid.
// REQUIRES: data is aligned to 8 bytes.
TUNE_KERNEL(hash)(const U8* data, U64 bytes, U64* hash) {
  const U64* words = reinterpret_cast<const U64*>(data);
  const U64 count = bytes / 8;
  U64 sum = 0;
  for (U64 i = FirstIndex(); i < count; i += IndexStep()) {
    sum += (words[i] ^ (i * 0x9e3779b97f4a7c15ull)) * 0xd6e8feb86659fd93ull ^ (words[i] >> 32);
  }
  const U64 tail = count * 8 + FirstIndex();
  if (tail < bytes) sum += Mix(tail * 256 + data[tail] + 1);
#pragma unroll
  for (int lanes = 16; lanes > 0; lanes /= 2) sum += __shfl_xor_sync(~0u, sum, lanes);
  if (threadIdx.x % 32 == 0) atomicAdd(hash, sum);
}

// Runs a block a range.
TUNE_KERNEL(guard_fill)(const GuardRange* ranges) {
  const GuardRange range = ranges[blockIdx.x];
  U8* bytes = reinterpret_cast<U8*>(range.begin);
  for (U64 i = threadIdx.x; i < range.bytes; i += blockDim.x) bytes[i] = GuardByte(blockIdx.x, i);
}

// Runs a block a range.
TUNE_KERNEL(guard_check)(const GuardRange* ranges, GuardResult* results) {
  __shared__ U64 bad_bytes;
  __shared__ U64 first_bad;
  if (threadIdx.x == 0) {
    bad_bytes = 0;
    first_bad = ~0ull;
  }
  __syncthreads();
  const GuardRange range = ranges[blockIdx.x];
  const U8* bytes = reinterpret_cast<const U8*>(range.begin);
  for (U64 i = threadIdx.x; i < range.bytes; i += blockDim.x) {
    if (bytes[i] == GuardByte(blockIdx.x, i)) continue;
    atomicAdd(&bad_bytes, 1ull);
    atomicMin(&first_bad, i);
  }
  __syncthreads();
  if (threadIdx.x == 0) results[blockIdx.x] = {bad_bytes, first_bad};
}

// Reads `count` 16-byte words of zeros past the first-level cache, so that the second level holds
// nothing else and nothing dirty afterwards. `sink` is never written; the compiler cannot know.
TUNE_KERNEL(flush)(const uint4* data, U64 count, U32* sink) {
  U32 seen = 0;
  U64 i = FirstIndex();
  for (; i + 3 * IndexStep() < count; i += 4 * IndexStep()) {
    uint4 words[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) words[k] = __ldcg(&data[i + k * IndexStep()]);
#pragma unroll
    for (int k = 0; k < 4; ++k) seen |= words[k].x | words[k].y | words[k].z | words[k].w;
  }
  for (; i < count; i += IndexStep()) seen |= __ldcg(&data[i]).x;
  if (seen == 0x6b8b4567u) *sink = seen;
}

// The known kernel of a canary: arithmetic, shared memory, a barrier and a shuffle in each result.
// Runs as one block.
TUNE_KERNEL(canary)(U64* out, U64 seed) {
  __shared__ U64 shared[kHarnessThreads];
  shared[threadIdx.x] = Mix(seed + threadIdx.x);
  __syncthreads();
  const U64 other = shared[kHarnessThreads - 1 - threadIdx.x];
  out[threadIdx.x] = other + __shfl_xor_sync(~0u, shared[threadIdx.x], 1);
}
