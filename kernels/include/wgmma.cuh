// SPDX-License-Identifier: Apache-2.0
// Products of tensor cores by a warpgroup (WGMMA, sm_90a): 64 rows by 32 to 256 columns of sums in
// f32. Each warp has 16 of the rows, spread as in quad.cuh. Operands are tiles in shared memory, by
// their descriptors; the left one may be in registers.
//
// The products of a group run on after the call that starts them: MmaFence before the first,
// MmaCommit after the last, MmaWait before their sums are read, and Pin around them.
#pragma once

#include "sm90.cuh"

// A tile of 128-byte rows with the 128-byte swizzle, 1024-byte aligned. `slab_bytes` is the way
// to the next 64 elements of the contiguous axis if that axis is not the summed one.
__device__ __forceinline__ unsigned long long Descriptor(unsigned address, unsigned slab_bytes) {
  return (1ull << 62) | (static_cast<unsigned long long>(1024 >> 4) << 32) |
         (static_cast<unsigned long long>(slab_bytes >> 4) << 16) | (address & 0x3ffff) >> 4;
}

__device__ __forceinline__ void MmaFence() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void MmaCommit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int kPending>
__device__ __forceinline__ void MmaWait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

// Keeps the compiler from moving reads or writes of the registers across this point.
template <int kCount>
__device__ __forceinline__ void Pin(float (&r)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(r[i])::"memory");
}

// Ends the life of the registers' old values. Products that start at zero then need not keep them.
template <int kCount>
__device__ __forceinline__ void Forget(float (&r)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "=f"(r[i])::"memory");
}

// ---- Operands of the sums, as text and as registers, by their number ----------------------------

#define T8_0 "%0,%1,%2,%3,%4,%5,%6,%7"
#define T8_1 "%8,%9,%10,%11,%12,%13,%14,%15"
#define T8_2 "%16,%17,%18,%19,%20,%21,%22,%23"
#define T8_3 "%24,%25,%26,%27,%28,%29,%30,%31"
#define T8_4 "%32,%33,%34,%35,%36,%37,%38,%39"
#define T8_5 "%40,%41,%42,%43,%44,%45,%46,%47"
#define T8_6 "%48,%49,%50,%51,%52,%53,%54,%55"
#define T8_7 "%56,%57,%58,%59,%60,%61,%62,%63"
#define T8_8 "%64,%65,%66,%67,%68,%69,%70,%71"
#define T8_9 "%72,%73,%74,%75,%76,%77,%78,%79"
#define T8_10 "%80,%81,%82,%83,%84,%85,%86,%87"
#define T8_11 "%88,%89,%90,%91,%92,%93,%94,%95"
#define T8_12 "%96,%97,%98,%99,%100,%101,%102,%103"
#define T8_13 "%104,%105,%106,%107,%108,%109,%110,%111"
#define T8_14 "%112,%113,%114,%115,%116,%117,%118,%119"
#define T8_15 "%120,%121,%122,%123,%124,%125,%126,%127"
#define TEXT_16 T8_0 "," T8_1
#define TEXT_20 TEXT_16 ",%16,%17,%18,%19"
#define TEXT_24 TEXT_16 "," T8_2
#define TEXT_32 T8_0 "," T8_1 "," T8_2 "," T8_3
#define TEXT_40 TEXT_32 "," T8_4
#define TEXT_48 TEXT_40 "," T8_5
#define TEXT_56 TEXT_48 "," T8_6
#define TEXT_64 TEXT_56 "," T8_7
#define TEXT_72 TEXT_64 "," T8_8
#define TEXT_80 TEXT_72 "," T8_9
#define TEXT_88 TEXT_80 "," T8_10
#define TEXT_96 TEXT_88 "," T8_11
#define TEXT_112 TEXT_96 "," T8_12 "," T8_13
#define TEXT_128 TEXT_112 "," T8_14 "," T8_15

#define R8(r, i)                                                                               \
  "+f"(r[i]), "+f"(r[i + 1]), "+f"(r[i + 2]), "+f"(r[i + 3]), "+f"(r[i + 4]), "+f"(r[i + 5]), \
      "+f"(r[i + 6]), "+f"(r[i + 7])
#define REGS_16(r) R8(r, 0), R8(r, 8)
#define REGS_20(r) REGS_16(r), "+f"(r[16]), "+f"(r[17]), "+f"(r[18]), "+f"(r[19])
#define REGS_24(r) REGS_16(r), R8(r, 16)
#define REGS_32(r) R8(r, 0), R8(r, 8), R8(r, 16), R8(r, 24)
#define REGS_40(r) REGS_32(r), R8(r, 32)
#define REGS_48(r) REGS_40(r), R8(r, 40)
#define REGS_56(r) REGS_48(r), R8(r, 48)
#define REGS_64(r) REGS_56(r), R8(r, 56)
#define REGS_72(r) REGS_64(r), R8(r, 64)
#define REGS_80(r) REGS_72(r), R8(r, 72)
#define REGS_88(r) REGS_80(r), R8(r, 80)
#define REGS_96(r) REGS_88(r), R8(r, 88)
#define REGS_112(r) REGS_96(r), R8(r, 96), R8(r, 104)
#define REGS_128(r) REGS_112(r), R8(r, 112), R8(r, 120)

// ---- Products -----------------------------------------------------------------------------------

// `layout` is text of the operands that say which axes are not the contiguous ones; 8-bit elements
// have none.
#if DTYPE_E4M3
#define MMA_SHAPE "k32.f32.e4m3.e4m3"
#define MMA_LAYOUT(layout)
#elif DTYPE_BF16
#define MMA_SHAPE "k16.f32.bf16.bf16"
#define MMA_LAYOUT(layout) layout
#else
#define MMA_SHAPE "k16.f32.f16.f16"
#define MMA_LAYOUT(layout) layout
#endif

// 64 x n of sums (count registers) from A and B in shared memory, 32 bytes of the summed axis of
// each; they start at zero without `accumulate`. kAcrossA, kAcrossB: whether the operand's summed
// axis is not the contiguous one. %a and so on are the operands after the sums.
#define SHARED_MMA(n, count, a, b, add, across_a, across_b)                                      \
  template <bool kAcrossA = false, bool kAcrossB = false>                                        \
  __device__ __forceinline__ void SharedMma(float(&d)[count], unsigned long long left,           \
                                            unsigned long long right, int accumulate) {          \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #add ", 0;\n"                              \
                 "wgmma.mma_async.sync.aligned.m64n" #n MMA_SHAPE " {" TEXT_##count "}, %" #a   \
                 ", %" #b ", p, 1, 1" MMA_LAYOUT(", %" #across_a ", %" #across_b) ";\n}"         \
                 : REGS_##count(d)                                                               \
                 : "l"(left), "l"(right), "r"(accumulate), "n"(int{kAcrossA}), "n"(int{kAcrossB}));\
  }
SHARED_MMA(32, 16, 16, 17, 18, 19, 20)
SHARED_MMA(40, 20, 20, 21, 22, 23, 24)
SHARED_MMA(48, 24, 24, 25, 26, 27, 28)
SHARED_MMA(64, 32, 32, 33, 34, 35, 36)
SHARED_MMA(80, 40, 40, 41, 42, 43, 44)
SHARED_MMA(96, 48, 48, 49, 50, 51, 52)
SHARED_MMA(112, 56, 56, 57, 58, 59, 60)
SHARED_MMA(128, 64, 64, 65, 66, 67, 68)
SHARED_MMA(144, 72, 72, 73, 74, 75, 76)
SHARED_MMA(160, 80, 80, 81, 82, 83, 84)
SHARED_MMA(176, 88, 88, 89, 90, 91, 92)
SHARED_MMA(192, 96, 96, 97, 98, 99, 100)
SHARED_MMA(224, 112, 112, 113, 114, 115, 116)
SHARED_MMA(256, 128, 128, 129, 130, 131, 132)

// Adds to 64 x n of sums from A in registers and B in shared memory with n contiguous.
#define REGISTER_MMA(n, count, a0, a1, a2, a3, b)                                                 \
  __device__ __forceinline__ void RegisterMma(float(&d)[count], const unsigned* left,             \
                                              unsigned long long right) {                         \
    asm volatile("wgmma.mma_async.sync.aligned.m64n" #n MMA_SHAPE " {" TEXT_##count "}, {%" #a0   \
                 ", %" #a1 ", %" #a2 ", %" #a3 "}, %" #b ", 1, 1, 1, 1;"                          \
                 : REGS_##count(d)                                                                \
                 : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "l"(right));           \
  }
REGISTER_MMA(64, 32, 32, 33, 34, 35, 36)
REGISTER_MMA(96, 48, 48, 49, 50, 51, 52)
REGISTER_MMA(128, 64, 64, 65, 66, 67, 68)
REGISTER_MMA(192, 96, 96, 97, 98, 99, 100)
REGISTER_MMA(256, 128, 128, 129, 130, 131, 132)
