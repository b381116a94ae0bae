// SPDX-License-Identifier: Apache-2.0
// Products of tensor cores by a warp (mma.sync) and the loads of their operands from shared memory
// (ldmatrix), for sm_80 and later. A warp's sums are spread as in quad.cuh.
#pragma once

#include "async_copy.cuh"

// Four matrices of 8 rows of 16 bytes; lane i has the address of row i % 8 of matrix i / 8.
__device__ __forceinline__ void LoadMatrices(unsigned (&r)[4], unsigned address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}

// Transposes each matrix of 8 x 8 elements of 16 bits on the way.
__device__ __forceinline__ void LoadTransposed(unsigned (&r)[4], unsigned address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}

// d[0..3] += a (16 x 16) b (16 x 8), of bf16 if that is the dtype, else of f16.
__device__ __forceinline__ void WarpMma(float* d, const unsigned* a, unsigned b0, unsigned b1) {
#if DTYPE_BF16
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
