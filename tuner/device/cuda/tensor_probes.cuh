// SPDX-License-Identifier: Apache-2.0
// Tensor-core products with operands resident and random, for ceilings.cu: by warps (mma.sync)
// everywhere, by warpgroups (wgmma) on sm_90a.

namespace tune::cuda {

// Operands of a type, four bytes at a time.
struct Bfloat16Operand {
  __device__ __forceinline__ static U32 Word(U64 seed) {
    return PackBfloat16(Random(2 * seed), Random(2 * seed + 1));
  }
};
struct HalfOperand {
  __device__ __forceinline__ static U32 Word(U64 seed) {
    return PackHalf(Random(2 * seed), Random(2 * seed + 1));
  }
};
struct Tfloat32Operand {
  __device__ __forceinline__ static U32 Word(U64 seed) { return __float_as_uint(Random(seed)); }
};
// e4m3 with the highest bit of the exponent clear: below 2, and never a NaN.
struct Float8Operand {
  __device__ __forceinline__ static U32 Word(U64 seed) {
    return static_cast<U32>(Mix(seed + 1)) & 0xbfbfbfbfu;
  }
};
struct Int8Operand {
  __device__ __forceinline__ static U32 Word(U64 seed) { return static_cast<U32>(Mix(seed + 1)); }
};

__device__ __forceinline__ bool IsMagic(int x) { return x == 0x6b8b4567; }

// d += a b of one warp, a in four words, b in two.
#define TUNE_MMA(name, operand, accumulator, constraint, instruction)                           \
  struct name : operand {                                                                       \
    using Accumulator = accumulator;                                                            \
    __device__ __forceinline__ static void Multiply(accumulator (&d)[4], const U32 (&a)[4],      \
                                                    const U32 (&b)[2]) {                         \
      asm volatile(instruction                                                                  \
                   " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"            \
                   : "+" constraint(d[0]), "+" constraint(d[1]), "+" constraint(d[2]),           \
                     "+" constraint(d[3])                                                       \
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));          \
    }                                                                                           \
  };
TUNE_MMA(Bfloat16Mma, Bfloat16Operand, float, "f",
         "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32")
TUNE_MMA(HalfMma, HalfOperand, float, "f", "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32")
TUNE_MMA(Tfloat32Mma, Tfloat32Operand, float, "f",
         "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32")
TUNE_MMA(Int8Mma, Int8Operand, int, "r", "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32")
#if __CUDA_ARCH__ >= 890 && __CUDA_ARCH__ != 900 && __CUDA_ARCH__ < 1000 || __CUDA_ARCH__ >= 1200
#define TUNE_HAS_FLOAT8_MMA 1
TUNE_MMA(Float8Mma, Float8Operand, float, "f",
         "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32")
#endif

// A round is eight independent products.
template <typename Mma>
__device__ __forceinline__ void MmaRounds(int rounds, U32* sink) {
  U32 a[4];
  U32 b[2];
  typename Mma::Accumulator d[kChains][4] = {};
#pragma unroll
  for (int k = 0; k < 4; ++k) a[k] = Mma::Word(Thread() * 8 + k);
#pragma unroll
  for (int k = 0; k < 2; ++k) b[k] = Mma::Word(Thread() * 8 + k + 4);
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

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
// A tile of rows of 128 bytes in the layout of the 128-byte swizzle (PTX ISA, "Asynchronous
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
#define TUNE_EIGHT(c, i)                                                            \
  "+" c(d[i]), "+" c(d[i + 1]), "+" c(d[i + 2]), "+" c(d[i + 3]), "+" c(d[i + 4]), \
      "+" c(d[i + 5]), "+" c(d[i + 6]), "+" c(d[i + 7])

// d += a b of a warpgroup: 64 x 256, and 32 bytes deep. `scales` are the immediates that a type has
// besides scale-d.
#define TUNE_WGMMA(name, operand, accumulator, c, instruction, scales)                           \
  struct name : operand {                                                                        \
    using Accumulator = accumulator;                                                             \
    __device__ __forceinline__ static void Multiply(accumulator (&d)[128], U64 a, U64 b) {        \
      asm volatile("wgmma.mma_async.sync.aligned." instruction                                    \
                   " {" TUNE_ACCUMULATORS "}, %128, %129, 1" scales ";"                           \
                   : TUNE_EIGHT(c, 0), TUNE_EIGHT(c, 8), TUNE_EIGHT(c, 16), TUNE_EIGHT(c, 24),    \
                     TUNE_EIGHT(c, 32), TUNE_EIGHT(c, 40), TUNE_EIGHT(c, 48), TUNE_EIGHT(c, 56),  \
                     TUNE_EIGHT(c, 64), TUNE_EIGHT(c, 72), TUNE_EIGHT(c, 80), TUNE_EIGHT(c, 88),  \
                     TUNE_EIGHT(c, 96), TUNE_EIGHT(c, 104), TUNE_EIGHT(c, 112),                   \
                     TUNE_EIGHT(c, 120)                                                          \
                   : "l"(a), "l"(b));                                                            \
    }                                                                                            \
  };
TUNE_WGMMA(Bfloat16Wgmma, Bfloat16Operand, float, "f", "m64n256k16.f32.bf16.bf16", ", 1, 1, 0, 0")
TUNE_WGMMA(HalfWgmma, HalfOperand, float, "f", "m64n256k16.f32.f16.f16", ", 1, 1, 0, 0")
TUNE_WGMMA(Tfloat32Wgmma, Tfloat32Operand, float, "f", "m64n256k8.f32.tf32.tf32", ", 1, 1")
TUNE_WGMMA(Float8Wgmma, Float8Operand, float, "f", "m64n256k32.f32.e4m3.e4m3", ", 1, 1")
TUNE_WGMMA(Int8Wgmma, Int8Operand, int, "r", "m64n256k32.s32.s8.s8", "")

// Two warpgroups, each 64 x 256 over the same 256 rows of B, all operands in shared memory. A round
// is sixteen products of a warpgroup; while one warpgroup waits at its end the other one has work
// left.
template <typename Wgmma>
__device__ __forceinline__ void WgmmaRounds(int rounds, U32* sink) {
  __shared__ alignas(1024) U32 tiles[48 * 1024 / 4];  // A, A, B: 8 + 8 + 32 KiB
  for (int i = threadIdx.x; i < 48 * 1024 / 4; i += blockDim.x) tiles[i] = Wgmma::Word(i);
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  const U64 a = Descriptor(&tiles[threadIdx.x / 128 * 2048]);
  const U64 b = Descriptor(&tiles[4096]);
  typename Wgmma::Accumulator d[128];
#pragma unroll
  for (int k = 0; k < 128; ++k) d[k] = 0;
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
#endif

}  // namespace tune::cuda

#define TUNE_TENSOR(name, ...) \
  TUNE_CEILING(name, 256)(int rounds, U32* sink) { __VA_ARGS__(rounds, sink); }

// Compiling a warpgroup's kernel takes half a second, so sweeps wait for two of them at most.
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
TUNE_TENSOR(wgmma_bf16, WgmmaRounds<Bfloat16Wgmma>)
TUNE_TENSOR(wgmma_f16, WgmmaRounds<HalfWgmma>)
#if defined(TUNE_CEILING_SUITE)
TUNE_TENSOR(wgmma_tf32, WgmmaRounds<Tfloat32Wgmma>)
TUNE_TENSOR(wgmma_f8, WgmmaRounds<Float8Wgmma>)
TUNE_TENSOR(wgmma_i8, WgmmaRounds<Int8Wgmma>)
#endif
#endif
TUNE_TENSOR(mma_bf16, MmaRounds<Bfloat16Mma>)
TUNE_TENSOR(mma_f16, MmaRounds<HalfMma>)
TUNE_TENSOR(mma_tf32, MmaRounds<Tfloat32Mma>)
TUNE_TENSOR(mma_i8, MmaRounds<Int8Mma>)
#if defined(TUNE_HAS_FLOAT8_MMA)
TUNE_TENSOR(mma_f8, MmaRounds<Float8Mma>)
#endif
