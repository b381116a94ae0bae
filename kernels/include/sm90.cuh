// SPDX-License-Identifier: Apache-2.0
// The instructions of sm_90 that CUDA C++ has no name for, but for products (wgmma.cuh): mbarriers,
// clusters of blocks, the bulk copy engine (TMA), named barriers, and registers that warpgroups
// give each other. The CPU device has none of them.
#pragma once

#include "async_copy.cuh"

#if !TUNE_CPU
struct alignas(64) CUtensorMap {
  unsigned long long opaque[16];
};

// ---- Mbarriers, by their address in shared memory -----------------------------------------------

__device__ __forceinline__ void BarrierInit(unsigned barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

// The cluster and the bulk copy engine see what BarrierInit wrote.
__device__ __forceinline__ void BarrierInitFence() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ __forceinline__ void BarrierArrive(unsigned barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// Arrives at the same barrier of block `rank` of the cluster. The arrival says that reads of shared
// memory are over, and WGMMA has waited for those: it takes no fence of the cluster's scope, which
// would invalidate L1 at each step. BarrierTest takes none for that reason, too.
__device__ __forceinline__ void BarrierArriveAt(unsigned barrier, int rank) {
  asm volatile(
      "{\n.reg .b32 there;\n"
      "mapa.shared::cluster.u32 there, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [there];\n}" ::"r"(barrier),
      "r"(rank)
      : "memory");
}

// Arrives, and makes the phase wait for so many bytes of copies.
__device__ __forceinline__ void BarrierExpect(unsigned barrier, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}

__device__ __forceinline__ bool BarrierTest(unsigned barrier, unsigned parity) {
  unsigned done;
  asm volatile(
      "{\n.reg .pred p;\n"
      "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
      "selp.u32 %0, 1, 0, p;\n}"
      : "=r"(done)
      : "r"(barrier), "r"(parity)
      : "memory");
  return done != 0;
}

// Waits for the phase of the given parity to complete. With WAIT_LIMIT_NS, a wait that lasts longer
// traps: a wrong phase then ends as an error and not as a hang.
__device__ __forceinline__ void BarrierWait(unsigned barrier, unsigned parity) {
#ifdef WAIT_LIMIT_NS
  unsigned long long start, now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
  while (!BarrierTest(barrier, parity)) {
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    if (now - start > WAIT_LIMIT_NS) asm volatile("trap;");
  }
#else
  while (!BarrierTest(barrier, parity)) {
  }
#endif
}

// Named barriers: Sync waits for `threads` arrivals, its own included; Signal only arrives.
__device__ __forceinline__ void NamedSync(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

__device__ __forceinline__ void NamedSignal(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// ---- Clusters -----------------------------------------------------------------------------------

// Waits for all threads of all blocks of the cluster.
__device__ __forceinline__ void ClusterSync() {
  asm volatile("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;" ::: "memory");
}

__device__ __forceinline__ int ClusterRank() {
  unsigned rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return static_cast<int>(rank);
}

// The address in the cluster of what block `rank` has at `address` of its shared memory.
__device__ __forceinline__ unsigned InBlock(int rank, unsigned address) {
  unsigned there;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(rank));
  return there;
}

// Four floats from where `address` is in block `rank` of the cluster.
__device__ __forceinline__ float4 LoadFrom(unsigned address, int rank) {
  float4 got;
  asm volatile(
      "{\n.reg .b32 there;\n"
      "mapa.shared::cluster.u32 there, %4, %5;\n"
      "ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [there];\n}"
      : "=f"(got.x), "=f"(got.y), "=f"(got.z), "=f"(got.w)
      : "r"(address), "r"(rank)
      : "memory");
  return got;
}

// Writes floats to a block of the cluster, and counts their bytes at a barrier of that block. Both
// addresses are the cluster's.
__device__ __forceinline__ void SendFloats(unsigned to, unsigned barrier, float a) {
  asm volatile(
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];" ::"r"(to),
      "r"(__float_as_uint(a)), "r"(barrier)
      : "memory");
}

__device__ __forceinline__ void SendFloats(unsigned to, unsigned barrier, float a, float b) {
  asm volatile(
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.b32 [%0], {%1, %2}, [%3];" ::"r"(
          to),
      "r"(__float_as_uint(a)), "r"(__float_as_uint(b)), "r"(barrier)
      : "memory");
}

__device__ __forceinline__ void SendFloats(unsigned to, unsigned barrier, float a, float b, float c,
                                           float d) {
  asm volatile(
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1, %2, %3, %4}, "
      "[%5];" ::"r"(to),
      "r"(__float_as_uint(a)), "r"(__float_as_uint(b)), "r"(__float_as_uint(c)),
      "r"(__float_as_uint(d)), "r"(barrier)
      : "memory");
}

// ---- The bulk copy engine -----------------------------------------------------------------------

// WGMMA and the bulk copy engine see what this thread has written to shared memory.
__device__ __forceinline__ void AsyncFence() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

__device__ __forceinline__ void PrefetchMap(const CUtensorMap* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

// Copies a box of a map of two axes to this block's shared memory.
__device__ __forceinline__ void LoadBox(unsigned to, const CUtensorMap* map, unsigned barrier,
                                        int x, int y) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
      " [%0], [%1, {%3, %4}], [%2];" ::"r"(to),
      "l"(map), "r"(barrier), "r"(x), "r"(y)
      : "memory");
}

// Copies a box of a map of four axes.
__device__ __forceinline__ void LoadBox(unsigned to, const CUtensorMap* map, unsigned barrier,
                                        int x, int y, int z, int w) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes"
      " [%0], [%1, {%3, %4, %5, %6}], [%2];" ::"r"(to),
      "l"(map), "r"(barrier), "r"(x), "r"(y), "r"(z), "r"(w)
      : "memory");
}

// Copies a box of a map of five axes.
__device__ __forceinline__ void LoadBox(unsigned to, const CUtensorMap* map, unsigned barrier,
                                        int x, int y, int z, int w, int v) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes"
      " [%0], [%1, {%3, %4, %5, %6, %7}], [%2];" ::"r"(to),
      "l"(map), "r"(barrier), "r"(x), "r"(y), "r"(z), "r"(w), "r"(v)
      : "memory");
}

// Copies a box to the same place in each block of `mask`, where it counts at that block's barrier.
__device__ __forceinline__ void LoadBoxForAll(unsigned to, const CUtensorMap* map, unsigned barrier,
                                              int x, int y, unsigned short mask) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
      ".multicast::cluster [%0], [%1, {%3, %4}], [%2], %5;" ::"r"(to),
      "l"(map), "r"(barrier), "r"(x), "r"(y), "h"(mask)
      : "memory");
}

// Copies plain memory, aligned to 16 bytes, to shared memory.
__device__ __forceinline__ void BulkLoad(unsigned to, const void* from, unsigned bytes,
                                         unsigned barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(to),
      "l"(from), "r"(bytes), "r"(barrier)
      : "memory");
}

__device__ __forceinline__ void BulkStore(void* to, unsigned from, unsigned bytes) {
  asm volatile(
      "cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;\n"
      "cp.async.bulk.commit_group;" ::"l"(to),
      "r"(from), "r"(bytes)
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

// Waits until this thread's BulkStores and BulkAdds have read shared memory, or are done.
__device__ __forceinline__ void BulkWaitRead() {
  asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}
__device__ __forceinline__ void BulkWait() {
  asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

// ---- Registers of a warpgroup -------------------------------------------------------------------

template <int kCount>
__device__ __forceinline__ void RegistersRaise() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kCount));
}

template <int kCount>
__device__ __forceinline__ void RegistersLower() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kCount));
}
#endif
