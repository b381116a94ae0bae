// SPDX-License-Identifier: Apache-2.0
// Kernels that each do one thing as fast as possible, for the ceilings with which utilisation is
// compared. Compiled by NVRTC when ceilings are asked for. Data are random where they reach a
// multiplier or the memory: zeros draw less power and flatter the device by a tenth.

namespace tune::cuda {

using U16 = unsigned short;
using U32 = unsigned int;
using U64 = unsigned long long;

// SplitMix64's finaliser.
__device__ __forceinline__ U64 Mix(U64 z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

__device__ __forceinline__ U64 Thread() {
  return static_cast<U64>(blockIdx.x) * blockDim.x + threadIdx.x;
}

// [-1, 1).
__device__ __forceinline__ float Random(U64 seed) {
  return static_cast<float>(static_cast<int>(Mix(seed + 1))) * 0x1p-31f;
}

__device__ __forceinline__ U32 PackBfloat16(float a, float b) {
  return (__float_as_uint(a) >> 16) | (__float_as_uint(b) & 0xffff0000u);
}
__device__ __forceinline__ U32 PackHalf(float a, float b) {
  U32 packed;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(b), "f"(a));
  return packed;
}

// Each thread moves kUnroll words, a block's width apart; the grid covers the array exactly.
template <int kUnroll>
__device__ __forceinline__ void CopyTile(const uint4* in, uint4* out) {
  const U64 first = static_cast<U64>(blockIdx.x) * blockDim.x * kUnroll + threadIdx.x;
  uint4 words[kUnroll];
#pragma unroll
  for (int k = 0; k < kUnroll; ++k) words[k] = __ldcs(&in[first + k * blockDim.x]);
#pragma unroll
  for (int k = 0; k < kUnroll; ++k) __stcs(&out[first + k * blockDim.x], words[k]);
}

template <int kUnroll>
__device__ __forceinline__ void ReadTile(const uint4* in, U32* sink) {
  const U64 first = static_cast<U64>(blockIdx.x) * blockDim.x * kUnroll + threadIdx.x;
  uint4 words[kUnroll];
#pragma unroll
  for (int k = 0; k < kUnroll; ++k) words[k] = __ldcs(&in[first + k * blockDim.x]);
  U32 seen = ~0u;
#pragma unroll
  for (int k = 0; k < kUnroll; ++k) seen &= words[k].x & words[k].y & words[k].z & words[k].w;
  if (seen == 0x6b8b4567u) *sink = seen;  // as good as never; the compiler cannot know
}

template <int kUnroll>
__device__ __forceinline__ void WriteTile(uint4* out, U32 value) {
  const U64 first = static_cast<U64>(blockIdx.x) * blockDim.x * kUnroll + threadIdx.x;
#pragma unroll
  for (int k = 0; k < kUnroll; ++k) {
    __stcs(&out[first + k * blockDim.x], make_uint4(value, value + k, value, value));
  }
}

#if defined(TUNE_CEILING_SUITE)
// out = b + 3 c: two words read for one written.
template <int kUnroll>
__device__ __forceinline__ void TriadTile(const float4* b, const float4* c, float4* out) {
  const U64 first = static_cast<U64>(blockIdx.x) * blockDim.x * kUnroll + threadIdx.x;
  float4 x[kUnroll];
  float4 y[kUnroll];
#pragma unroll
  for (int k = 0; k < kUnroll; ++k) x[k] = __ldcs(&b[first + k * blockDim.x]);
#pragma unroll
  for (int k = 0; k < kUnroll; ++k) y[k] = __ldcs(&c[first + k * blockDim.x]);
#pragma unroll
  for (int k = 0; k < kUnroll; ++k) {
    const float4 sum = make_float4(fmaf(3.0f, y[k].x, x[k].x), fmaf(3.0f, y[k].y, x[k].y),
                                   fmaf(3.0f, y[k].z, x[k].z), fmaf(3.0f, y[k].w, x[k].w));
    __stcs(&out[first + k * blockDim.x], sum);
  }
}

constexpr int kCacheLoads = 8;  // of a thread, a round

__device__ __forceinline__ U32 Fold(uint4 word) { return word.x ^ word.y ^ word.z ^ word.w; }

// Reads `words` round and round, past the first-level cache. Each block has a slice of its own:
// what several SMs want at the same time may cost the second-level cache one read only. In a cache
// too small for that, blocks share.
__device__ __forceinline__ void ReadSecondLevel(const uint4* in, U64 words, int rounds, U32* sink) {
  const U64 whole = words / gridDim.x / blockDim.x * blockDim.x;
  const U64 slice = whole > kCacheLoads * blockDim.x ? whole : kCacheLoads * blockDim.x;
  const U64 slices = words > slice ? words / slice : 1;
  const uint4* mine = in + slice * (blockIdx.x % slices);
  U32 seen = 0;
  U64 at = threadIdx.x;
#pragma unroll 1
  for (int round = 0; round < rounds; ++round) {
    uint4 word[kCacheLoads];
#pragma unroll
    for (int k = 0; k < kCacheLoads; ++k) {
      asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(word[k].x), "=r"(word[k].y), "=r"(word[k].z), "=r"(word[k].w)
                   : "l"(&mine[at]));
      at += blockDim.x;
      if (at >= slice) at -= slice;
    }
#pragma unroll
    for (int k = 0; k < kCacheLoads; ++k) seen ^= Fold(word[k]);
  }
  if (seen == 0x6b8b4567u) *sink = seen;
}

// Each block reads the same kCacheLoads words a thread again and again.
__device__ __forceinline__ void ReadFirstLevel(const uint4* in, int rounds, U32* sink) {
  const uint4* block = in + static_cast<U64>(blockIdx.x) * blockDim.x * kCacheLoads;
  U32 seen = 0;
#pragma unroll 1
  for (int round = 0; round < rounds; ++round) {
    // Another word of the warp's each round: ptxas would unroll and load equal addresses once.
    const uint4* mine = block + (threadIdx.x ^ (round & 31));
    uint4 word[kCacheLoads];
#pragma unroll
    for (int k = 0; k < kCacheLoads; ++k) {
      asm volatile("ld.global.ca.v4.u32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(word[k].x), "=r"(word[k].y), "=r"(word[k].z), "=r"(word[k].w)
                   : "l"(&mine[k * blockDim.x]));
    }
#pragma unroll
    for (int k = 0; k < kCacheLoads; ++k) seen ^= Fold(word[k]);
  }
  if (seen == 0x6b8b4567u) *sink = seen;
}

// 32 KiB of shared memory; neighbouring threads read neighbouring words, so no bank is asked twice.
// REQUIRES: at most 256 threads, or some words of a round are the same and are loaded once.
__device__ __forceinline__ void ReadShared(int rounds, U32* sink) {
  __shared__ uint4 words[2048];
  for (int i = threadIdx.x; i < 2048; i += blockDim.x) {
    words[i] = make_uint4(i, static_cast<U32>(Mix(i)), i, i);
  }
  __syncthreads();
  const U32 base = static_cast<U32>(__cvta_generic_to_shared(words));
  U32 seen = 0;
#pragma unroll 1
  for (int round = 0; round < rounds; ++round) {
    uint4 word[kCacheLoads];
#pragma unroll
    for (int k = 0; k < kCacheLoads; ++k) {
      const U32 at = base + ((threadIdx.x ^ (round & 31)) + k * blockDim.x) * 16;
      asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(word[k].x), "=r"(word[k].y), "=r"(word[k].z), "=r"(word[k].w)
                   : "r"(at));
    }
#pragma unroll
    for (int k = 0; k < kCacheLoads; ++k) seen ^= Fold(word[k]);
  }
  if (seen == 0x6b8b4567u) *sink = seen;
}

#if __CUDA_ARCH__ >= 900
constexpr U32 kStageBytes = 8 * 1024;
constexpr int kStages = 5;

__device__ __forceinline__ void LoadStage(U32 stage, const unsigned char* from, U32 barrier) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier),
               "r"(kStageBytes)
               : "memory");
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
      :
      : "r"(stage), "l"(from), "r"(kStageBytes), "r"(barrier)
      : "memory");
}

__device__ __forceinline__ void StoreStage(unsigned char* to, U32 stage) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(stage),
               "r"(kStageBytes)
               : "memory");
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

__device__ __forceinline__ void AwaitStage(U32 barrier, U32 parity) {
  U32 done = 0;
  while (done == 0) {
    asm volatile(
        "{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; "
        "selp.u32 %0, 1, 0, p; }"
        : "=r"(done)
        : "r"(barrier), "r"(parity)
        : "memory");
  }
}

// By the bulk copy engine: one thread of a block keeps kStages pieces in flight. A stage is loaded
// again once the store from it has been read; that of the piece before is the only one not waited
// for. REQUIRES: the array is a multiple of kStageBytes.
__device__ __forceinline__ void CopyBulk(const unsigned char* in, unsigned char* out, U64 bytes) {
  __shared__ alignas(128) unsigned char stages[kStages * kStageBytes];
  __shared__ alignas(8) U64 barriers[kStages];
  if (threadIdx.x != 0) return;
  const U32 stage0 = static_cast<U32>(__cvta_generic_to_shared(stages));
  const U32 barrier0 = static_cast<U32>(__cvta_generic_to_shared(barriers));
  for (int s = 0; s < kStages; ++s) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barrier0 + 8 * s) : "memory");
  }
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  const U64 count = bytes / kStageBytes;
  U64 load = blockIdx.x;
  int loaded = 0;  // pieces asked for
  for (; loaded < kStages - 1 && load < count; ++loaded, load += gridDim.x) {
    LoadStage(stage0 + loaded * kStageBytes, in + load * kStageBytes, barrier0 + 8 * loaded);
  }
  int stored = 0;
  for (U64 piece = blockIdx.x; piece < count; piece += gridDim.x, ++stored) {
    const U32 s = stored % kStages;
    AwaitStage(barrier0 + 8 * s, (stored / kStages) & 1);
    StoreStage(out + piece * kStageBytes, stage0 + s * kStageBytes);
    if (load >= count) continue;
    asm volatile("cp.async.bulk.wait_group.read 1;" ::: "memory");
    const U32 next = loaded % kStages;
    LoadStage(stage0 + next * kStageBytes, in + load * kStageBytes, barrier0 + 8 * next);
    ++loaded;
    load += gridDim.x;
  }
  asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}
#endif
#endif  // TUNE_CEILING_SUITE

__device__ __forceinline__ void MultiplyAdd(float& x, float a, float b) { x = fmaf(x, a, b); }
__device__ __forceinline__ void MultiplyAdd(double& x, double a, double b) { x = fma(x, a, b); }
struct HalfPair {
  U32 bits;
};
__device__ __forceinline__ void MultiplyAdd(HalfPair& x, HalfPair a, HalfPair b) {
  asm volatile("fma.rn.f16x2 %0, %0, %1, %2;" : "+r"(x.bits) : "r"(a.bits), "r"(b.bits));
}

__device__ __forceinline__ void Set(float& x, float value) { x = value; }
__device__ __forceinline__ void Set(double& x, float value) { x = value; }
__device__ __forceinline__ void Set(HalfPair& x, float value) { x.bits = PackHalf(value, value); }
__device__ __forceinline__ bool IsMagic(float x) { return x == 1.2345e30f; }
__device__ __forceinline__ bool IsMagic(double x) { return x == 1.2345e300; }
__device__ __forceinline__ bool IsMagic(HalfPair x) { return x.bits == 0x7c007c00u; }

constexpr int kChains = 8;           // independent, to hide the latency of one multiply-add
constexpr int kStepsPerRound = 8;    // of each chain

// 64 multiply-adds a round. x -> a x + b with |a| < 1 neither grows nor dies out.
template <typename T>
__device__ __forceinline__ void MultiplyAddChains(int rounds, U32* sink) {
  T a;
  T b;
  T x[kChains];
  Set(a, 0.5f + 0.4f * Random(Thread()));
  Set(b, Random(Thread() + 0x10000000));
#pragma unroll
  for (int k = 0; k < kChains; ++k) Set(x[k], Random(Thread() * kChains + k + 0x20000000));
#pragma unroll 1
  for (int round = 0; round < rounds; ++round) {
#pragma unroll
    for (int step = 0; step < kStepsPerRound; ++step) {
#pragma unroll
      for (int k = 0; k < kChains; ++k) MultiplyAdd(x[k], a, b);
    }
  }
#pragma unroll
  for (int k = 0; k < kChains; ++k) {
    if (IsMagic(x[k])) *sink = k;
  }
}

}  // namespace tune::cuda

#define TUNE_CEILING(name, threads) \
  extern "C" __global__ void __launch_bounds__(threads) tune_harness_ceiling_##name

using namespace tune::cuda;

#include "tensor_probes.cuh"

TUNE_CEILING(randomise, 1024)(uint4* out) {
  const U64 a = Mix(2 * Thread() + 1);
  const U64 b = Mix(2 * Thread() + 2);
  out[Thread()] = make_uint4(static_cast<U32>(a), static_cast<U32>(a >> 32), static_cast<U32>(b),
                             static_cast<U32>(b >> 32));
}

TUNE_CEILING(copy_1, 1024)(const uint4* in, uint4* out) { CopyTile<1>(in, out); }
TUNE_CEILING(copy_2, 1024)(const uint4* in, uint4* out) { CopyTile<2>(in, out); }
TUNE_CEILING(copy_4, 1024)(const uint4* in, uint4* out) { CopyTile<4>(in, out); }
TUNE_CEILING(copy_8, 1024)(const uint4* in, uint4* out) { CopyTile<8>(in, out); }
TUNE_CEILING(read_2, 1024)(const uint4* in, U32* sink) { ReadTile<2>(in, sink); }
TUNE_CEILING(read_4, 1024)(const uint4* in, U32* sink) { ReadTile<4>(in, sink); }
TUNE_CEILING(read_8, 1024)(const uint4* in, U32* sink) { ReadTile<8>(in, sink); }
TUNE_CEILING(write_1, 1024)(uint4* out, U32 value) { WriteTile<1>(out, value); }
TUNE_CEILING(write_4, 1024)(uint4* out, U32 value) { WriteTile<4>(out, value); }

TUNE_CEILING(f64, 256)(int rounds, U32* sink) { MultiplyAddChains<double>(rounds, sink); }
TUNE_CEILING(f32, 256)(int rounds, U32* sink) { MultiplyAddChains<float>(rounds, sink); }
TUNE_CEILING(f16, 256)(int rounds, U32* sink) { MultiplyAddChains<HalfPair>(rounds, sink); }

#if defined(TUNE_CEILING_SUITE)
TUNE_CEILING(triad_1, 1024)(const float4* b, const float4* c, float4* out) {
  TriadTile<1>(b, c, out);
}
TUNE_CEILING(triad_2, 1024)(const float4* b, const float4* c, float4* out) {
  TriadTile<2>(b, c, out);
}
TUNE_CEILING(triad_4, 1024)(const float4* b, const float4* c, float4* out) {
  TriadTile<4>(b, c, out);
}
TUNE_CEILING(l2, 1024)(const uint4* in, U64 words, int rounds, U32* sink) {
  ReadSecondLevel(in, words, rounds, sink);
}
TUNE_CEILING(l1, 1024)(const uint4* in, int rounds, U32* sink) { ReadFirstLevel(in, rounds, sink); }
TUNE_CEILING(shared, 1024)(int rounds, U32* sink) { ReadShared(rounds, sink); }
// Adds to *count the words in which two arrays differ.
TUNE_CEILING(differ, 1024)(const uint4* a, const uint4* b, U64* count) {
  const uint4 x = a[Thread()];
  const uint4 y = b[Thread()];
  const bool differ = x.x != y.x || x.y != y.y || x.z != y.z || x.w != y.w;
  if (differ) atomicAdd(count, 1ull);
}
#if __CUDA_ARCH__ >= 900
TUNE_CEILING(copy_bulk, 32)(const unsigned char* in, unsigned char* out, U64 bytes) {
  CopyBulk(in, out, bytes);
}
#endif
// Not one of the harness's names: its record is wanted.
extern "C" __global__ void tune_ceiling_empty() {}
#endif
