// SPDX-License-Identifier: Apache-2.0
// Further instructions of sm_90a: matrices to shared memory, the bulk engine's copies and additions
// of plain memory, and a product of two transposed operands.
#pragma once

#include "hopper.h"

__device__ __forceinline__ void StoreMatrices(unsigned address, const unsigned* r) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address),
               "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3])
               : "memory");
}

__device__ __forceinline__ void StoreFour(unsigned address, const float* x) {
  asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(address), "f"(x[0]), "f"(x[1]),
               "f"(x[2]), "f"(x[3])
               : "memory");
}

// What this thread has written to shared memory is seen by WGMMA and the bulk engine.
__device__ __forceinline__ void AsyncFence() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

__device__ __forceinline__ void BulkLoad(unsigned to, const void* from, unsigned bytes,
                                         unsigned barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(to),
      "l"(from), "r"(bytes), "r"(barrier)
      : "memory");
}

// Adds floats of shared memory to device memory.
__device__ __forceinline__ void BulkAdd(float* to, unsigned from, unsigned bytes) {
  asm volatile(
      "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;\n"
      "cp.async.bulk.commit_group;" ::"l"(to),
      "r"(from), "r"(bytes)
      : "memory");
}
// Waits until this thread's additions have read shared memory, or are done.
__device__ __forceinline__ void BulkWaitRead() {
  asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}
__device__ __forceinline__ void BulkWait() {
  asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

// 64 x 64 of sums from A and B in shared memory, both with the summed axis not contiguous.
__device__ __forceinline__ void TransposedMma(float (&d)[32], unsigned long long left,
                                              unsigned long long right, int accumulate) {
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\n"
               "wgmma.mma_async.sync.aligned.m64n64k16" MMA_TYPES " {" TEXT_32
               "}, %32, %33, p, 1, 1, 1, 1;\n}"
               : REGS_32(d)
               : "l"(left), "l"(right), "r"(accumulate));
}
