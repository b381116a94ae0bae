// SPDX-License-Identifier: Apache-2.0
// How the blocks of a cluster tell each other something, in turns: by writes to shared memory,
// whose bytes an mbarrier of the block that gets them counts. barrier.cluster would wait as well
// for all that a warp has under way, such as the stores of rows before. Each kernel that includes
// this file has a copy of it, and a test holds the copies alike.
#pragma once

#if !TUNE_CPU
__device__ __forceinline__ unsigned SharedAddress(const void* pointer) {
  return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}
#endif

#if CLUSTER > 1
// The barrier of the turns of one parity.
__device__ __forceinline__ unsigned Arrivals(int turn) {
  __shared__ unsigned long long arrivals[2];
  return SharedAddress(&arrivals[turn % 2]);
}

__device__ __forceinline__ void InitArrivals() {
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(Arrivals(0)) : "memory");
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(Arrivals(1)) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncwarp();
}

// By one thread, before it waits for a turn of which the block will be sent so much.
__device__ __forceinline__ void Expect(int turn, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(Arrivals(turn)),
               "r"(bytes)
               : "memory");
}

__device__ __forceinline__ unsigned InBlock(int rank, unsigned address) {
  unsigned there;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(rank));
  return there;
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
