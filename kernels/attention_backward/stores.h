// SPDX-License-Identifier: Apache-2.0
// Stores to shared memory and additions to device memory that CUDA C++ has no name for, from sm_80
// on; StoreMatrices and StoreTransposed need sm_90.
#pragma once

#include "backward_problem.h"

__device__ __forceinline__ float2 Unpack(unsigned packed) {
#ifdef DTYPE_BF16
  return make_float2(__uint_as_float(packed << 16), __uint_as_float(packed & 0xffff0000u));
#else
  return __half22float2(*reinterpret_cast<const __half2*>(&packed));
#endif
}

__device__ __forceinline__ void StoreWord(unsigned address, unsigned word) {
  asm volatile("st.shared.b32 [%0], %1;" ::"r"(address), "r"(word) : "memory");
}

__device__ __forceinline__ void StoreFour(unsigned address, const float* x) {
  asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(address), "f"(x[0]), "f"(x[1]),
               "f"(x[2]), "f"(x[3])
               : "memory");
}

// Four matrices of 8 rows of 16 bytes; lane i has the address of row i % 8 of matrix i / 8.
__device__ __forceinline__ void StoreMatrices(unsigned address, const unsigned* r) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address),
               "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3])
               : "memory");
}

// Two matrices, each transposed; lanes 0 to 15 have the addresses of their rows.
__device__ __forceinline__ void StoreTransposed(unsigned address, const unsigned* r) {
  asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};" ::"r"(address),
               "r"(r[0]), "r"(r[1])
               : "memory");
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
