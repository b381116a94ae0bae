// SPDX-License-Identifier: Apache-2.0
// How the blocks of a cluster tell each other something, in turns: by writes to shared memory
// (SendFloats), whose bytes an mbarrier of the block that gets them counts. barrier.cluster would
// wait as well for all that a warp has under way, such as the stores of rows before.
#pragma once

#include "sm90.cuh"

#if CLUSTER > 1
// The barrier of the turns of one parity.
__device__ __forceinline__ unsigned Arrivals(int turn) {
  __shared__ unsigned long long arrivals[2];
  return SharedAddress(&arrivals[turn % 2]);
}

__device__ __forceinline__ void InitArrivals() {
  if (threadIdx.x == 0) {
    BarrierInit(Arrivals(0), 1);
    BarrierInit(Arrivals(1), 1);
    BarrierInitFence();
  }
  __syncwarp();
}

// By one thread, before it waits for a turn of which the block will be sent so much.
__device__ __forceinline__ void Expect(int turn, unsigned bytes) {
  BarrierExpect(Arrivals(turn), bytes);
}

__device__ __forceinline__ void AwaitArrivals(int turn) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again;\n"
      "}\n" ::"r"(Arrivals(turn)),
      "r"(turn / 2 % 2)
      : "memory");
}
#endif

// At the top of a kernel whose threads merge.
__device__ __forceinline__ void StartMerges() {
#if CLUSTER > 1
  InitArrivals();
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
#endif
}
// Before the first merge: a block's shared memory may be written once the block has started.
__device__ __forceinline__ void WaitForClusterStart() {
#if CLUSTER > 1
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
}
