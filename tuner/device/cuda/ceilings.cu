// SPDX-License-Identifier: Apache-2.0
// Kernels that do nothing but one thing as fast as it goes: what utilisation is held against.
// Compiled by NVRTC when ceilings are asked for. Data are random where they reach a multiplier or
// the memory: zeros draw less power and flatter the device by a tenth.

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

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
// A tile of 64 16-bit columns in the layout of the 128-byte swizzle (PTX ISA, "Asynchronous
// Warpgroup Level Matrix Shared Memory Layout"): start address, 1024 bytes from one group of eight
// rows to the next, swizzle mode 1.
__device__ __forceinline__ U64 Descriptor(const void* tile) {
  const U64 address = static_cast<U64>(__cvta_generic_to_shared(tile));
  return ((address & 0x3ffff) >> 4) | (1ull << 16) | (64ull << 32) | (1ull << 62);
}

#define TUNE_ACCUMULATORS \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, " \
  "%14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, " \
  "%28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, " \
  "%42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, " \
  "%56, %57, %58, %59, %60, %61, %62, %63, %64, %65, %66, %67, %68, %69, " \
  "%70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, %82, %83, " \
  "%84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, %96, %97, " \
  "%98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, " \
  "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, " \
  "%126, %127"
#define TUNE_EIGHT(i)                                                                      \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), \
      "+f"(d[i + 6]), "+f"(d[i + 7])
#define TUNE_WGMMA(type)                                                                  \
  asm volatile("wgmma.mma_async.sync.aligned.m64n256k16.f32." type "." type                \
               " {" TUNE_ACCUMULATORS "}, %128, %129, 1, 1, 1, 0, 0;"                       \
               : TUNE_EIGHT(0), TUNE_EIGHT(8), TUNE_EIGHT(16), TUNE_EIGHT(24), TUNE_EIGHT(32), \
                 TUNE_EIGHT(40), TUNE_EIGHT(48), TUNE_EIGHT(56), TUNE_EIGHT(64), TUNE_EIGHT(72), \
                 TUNE_EIGHT(80), TUNE_EIGHT(88), TUNE_EIGHT(96), TUNE_EIGHT(104), TUNE_EIGHT(112), \
                 TUNE_EIGHT(120)                                                            \
               : "l"(a), "l"(b))

// d += a b, a 64 x 16 and b 16 x 256.
struct Bfloat16Wgmma {
  __device__ __forceinline__ static void Multiply(float (&d)[128], U64 a, U64 b) {
    TUNE_WGMMA("bf16");
  }
  __device__ __forceinline__ static U32 Pack(float a, float b) { return PackBfloat16(a, b); }
};
struct HalfWgmma {
  __device__ __forceinline__ static void Multiply(float (&d)[128], U64 a, U64 b) {
    TUNE_WGMMA("f16");
  }
  __device__ __forceinline__ static U32 Pack(float a, float b) { return PackHalf(a, b); }
};

// Two warpgroups, each 64 x 256 over the same 256 x 64 tile of B, all operands in shared memory.
// A round is sixteen products of depth 16, 16 * 2 * 64 * 256 * 16 FLOPs a warpgroup; while one
// warpgroup waits at its end the other one has work left.
template <typename Wgmma>
__device__ __forceinline__ void TensorRounds(int rounds, U32* sink) {
  __shared__ alignas(1024) U32 tiles[48 * 1024 / 4];  // A, A, B: 8 + 8 + 32 KiB
  for (int i = threadIdx.x; i < 48 * 1024 / 4; i += blockDim.x) {
    tiles[i] = Wgmma::Pack(Random(2 * i), Random(2 * i + 1));
  }
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  const U64 a = Descriptor(&tiles[threadIdx.x / 128 * 2048]);
  const U64 b = Descriptor(&tiles[4096]);
  float d[128];
#pragma unroll
  for (int k = 0; k < 128; ++k) d[k] = 0.0f;
#pragma unroll 1
  for (int round = 0; round < rounds; ++round) {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
    for (int k = 0; k < 16; ++k) {
      Wgmma::Multiply(d, a + 2 * (k % 4), b + 2 * (k % 4));  // 32 bytes further each
    }
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  }
#pragma unroll
  for (int k = 0; k < 128; ++k) {
    if (IsMagic(d[k])) *sink = k;
  }
}
using TensorBfloat16 = Bfloat16Wgmma;
using TensorHalf = HalfWgmma;
#else
struct Bfloat16Mma {
  __device__ __forceinline__ static void Multiply(float (&d)[4], const U32 (&a)[4],
                                                  const U32 (&b)[2]) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  }
  __device__ __forceinline__ static U32 Pack(float a, float b) { return PackBfloat16(a, b); }
};
struct HalfMma {
  __device__ __forceinline__ static void Multiply(float (&d)[4], const U32 (&a)[4],
                                                  const U32 (&b)[2]) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  }
  __device__ __forceinline__ static U32 Pack(float a, float b) { return PackHalf(a, b); }
};

// A round is eight independent products of 16 x 8 x 16: 8 * 4096 FLOPs a warp.
template <typename Mma>
__device__ __forceinline__ void TensorRounds(int rounds, U32* sink) {
  U32 a[4];
  U32 b[2];
  float d[kChains][4] = {};
#pragma unroll
  for (int k = 0; k < 4; ++k) a[k] = Mma::Pack(Random(Thread() * 8 + k), Random(Thread() + k));
#pragma unroll
  for (int k = 0; k < 2; ++k) b[k] = Mma::Pack(Random(Thread() * 8 + k + 4), Random(Thread() - k));
#pragma unroll 1
  for (int round = 0; round < rounds; ++round) {
#pragma unroll
    for (int k = 0; k < kChains; ++k) Mma::Multiply(d[k], a, b);
  }
#pragma unroll
  for (int k = 0; k < kChains; ++k) {
    if (IsMagic(d[k][0] + d[k][1] + d[k][2] + d[k][3])) *sink = k;
  }
}
using TensorBfloat16 = Bfloat16Mma;
using TensorHalf = HalfMma;
#endif

}  // namespace tune::cuda

using namespace tune::cuda;

#define TUNE_CEILING(name, threads) \
  extern "C" __global__ void __launch_bounds__(threads) tune_harness_ceiling_##name

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

TUNE_CEILING(f64, 256)(int rounds, U32* sink) { MultiplyAddChains<double>(rounds, sink); }
TUNE_CEILING(f32, 256)(int rounds, U32* sink) { MultiplyAddChains<float>(rounds, sink); }
TUNE_CEILING(f16, 256)(int rounds, U32* sink) { MultiplyAddChains<HalfPair>(rounds, sink); }

TUNE_CEILING(tensor_bf16, 256)(int rounds, U32* sink) {
  TensorRounds<TensorBfloat16>(rounds, sink);
}
TUNE_CEILING(tensor_f16, 256)(int rounds, U32* sink) { TensorRounds<TensorHalf>(rounds, sink); }
