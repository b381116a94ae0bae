// SPDX-License-Identifier: Apache-2.0
// Copies from device memory to shared memory that do not wait (cp.async, sm_80 and later), and the
// addresses of shared memory that instructions in PTX take. The CPU device copies nothing this way.
#pragma once

#if !TUNE_CPU
__device__ __forceinline__ unsigned SharedAddress(const void* pointer) {
  return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

// Starts to copy 16 bytes, which are aligned to 16. The copy does not use L1.
__device__ __forceinline__ void CopyChunk(unsigned to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}

// Writes zeros and reads nothing if `inside` is false.
__device__ __forceinline__ void CopyChunk(unsigned to, const void* from, bool inside) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
               "r"(inside ? 16 : 0)
               : "memory");
}
#endif

// Ends a group of this thread's copies.
__device__ __forceinline__ void CopyCommit() {
#if !TUNE_CPU
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

// Waits until all but the latest kPending groups of this thread's copies have arrived. Other
// threads see them after a barrier.
template <int kPending = 0>
__device__ __forceinline__ void CopyWait() {
#if !TUNE_CPU
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
#endif
}

// Waits for all of this thread's copies, also those of no group.
__device__ __forceinline__ void CopyWaitAll() {
#if !TUNE_CPU
  asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}
