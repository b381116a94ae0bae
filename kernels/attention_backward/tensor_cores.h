// SPDX-License-Identifier: Apache-2.0
// The instructions of sm_80 that CUDA C++ has no name for: copies to shared memory, matrices from
// and to it, the tensor cores, the exponential, and additions without a result.
#pragma once

#include "backward_problem.h"

__device__ __forceinline__ unsigned SharedOffset(const void* pointer) {
  return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

__device__ __forceinline__ float Exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// Two neighbouring numbers as 16 bits each; `low` has the lower column.
__device__ __forceinline__ unsigned Pack(float low, float high) {
  unsigned packed;
#ifdef DTYPE_BF16
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
#else
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
#endif
  return packed;
}

__device__ __forceinline__ float2 Unpack(unsigned packed) {
#ifdef DTYPE_BF16
  return make_float2(__uint_as_float(packed << 16), __uint_as_float(packed & 0xffff0000u));
#else
  return __half22float2(*reinterpret_cast<const __half2*>(&packed));
#endif
}

// Starts copying 16 bytes; where `inside` is false they become zero.
__device__ __forceinline__ void CopyVector(unsigned to, const void* from, bool inside) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
               "r"(inside ? 16 : 0)
               : "memory");
}
__device__ __forceinline__ void CopyCommit() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
template <int kPending>
__device__ __forceinline__ void CopyWait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

__device__ __forceinline__ void LoadMatrices(unsigned (&r)[4], unsigned address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}

__device__ __forceinline__ void LoadTransposed(unsigned (&r)[4], unsigned address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}

__device__ __forceinline__ void StoreWord(unsigned address, unsigned word) {
  asm volatile("st.shared.b32 [%0], %1;" ::"r"(address), "r"(word) : "memory");
}

// d[0..3] += a (16 x 16) b (16 x 8).
__device__ __forceinline__ void Multiply(float* d, const unsigned* a, unsigned b0, unsigned b1) {
#ifdef DTYPE_BF16
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7},"
      " {%8, %9}, {%0, %1, %2, %3};"
#else
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7},"
      " {%8, %9}, {%0, %1, %2, %3};"
#endif
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Additions to device memory, in any order. From sm_90 on four neighbours go in one.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
constexpr bool kAddsFour = true;
#else
constexpr bool kAddsFour = false;
#endif

__device__ __forceinline__ void AddOne(float* to, float x) {
  asm volatile("red.global.add.f32 [%0], %1;" ::"l"(to), "f"(x) : "memory");
}

__device__ __forceinline__ void AddFour(float* to, const float* x) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("red.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to), "f"(x[0]), "f"(x[1]),
               "f"(x[2]), "f"(x[3])
               : "memory");
#endif
}
