// SPDX-License-Identifier: Apache-2.0
// The instructions of sm_90a that CUDA C++ has no name for, for clusters of up to eight blocks:
// mbarriers, the bulk copy engine (TMA), warpgroup matrix multiply (WGMMA), register reallocation.
#pragma once

struct alignas(64) CUtensorMap {
  unsigned long long opaque[16];
};

__device__ __forceinline__ unsigned SharedAddress(const void* pointer) {
  return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

__device__ __forceinline__ void BarrierInit(unsigned barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

__device__ __forceinline__ void BarrierInitFence() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ __forceinline__ void BarrierArrive(unsigned barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// At the same barrier of block `rank` of the cluster. What it tells is that reads of shared memory
// are over, and WGMMA has waited for those: it takes no fence of the cluster's scope, which would
// invalidate L1 at each step. The same goes for BarrierTest.
__device__ __forceinline__ void BarrierArriveAt(unsigned barrier, int rank) {
  asm volatile(
      "{\n.reg .b32 there;\n"
      "mapa.shared::cluster.u32 there, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [there];\n}" ::"r"(barrier),
      "r"(rank)
      : "memory");
}

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

// Waits for the phase of the given parity to complete. With GEMM_WAIT_LIMIT_NS, a wait that lasts
// longer traps: a wrong phase then ends as an error and not as a hang.
__device__ __forceinline__ void BarrierWait(unsigned barrier, unsigned parity) {
#ifdef GEMM_WAIT_LIMIT_NS
  unsigned long long start, now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
  while (!BarrierTest(barrier, parity)) {
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    if (now - start > GEMM_WAIT_LIMIT_NS) asm volatile("trap;");
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

// All threads of all blocks of the cluster.
__device__ __forceinline__ void ClusterSync() {
  asm volatile("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;" ::: "memory");
}

__device__ __forceinline__ int ClusterRank() {
  unsigned rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return static_cast<int>(rank);
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

// One box of a map of two axes, to this block's shared memory.
__device__ __forceinline__ void LoadBox(unsigned to, const CUtensorMap* map, unsigned barrier,
                                        int x, int y) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
      " [%0], [%1, {%3, %4}], [%2];" ::"r"(to),
      "l"(map), "r"(barrier), "r"(x), "r"(y)
      : "memory");
}

// The same, to the same place in each block of `mask`, where it counts at that block's barrier.
__device__ __forceinline__ void LoadBoxForAll(unsigned to, const CUtensorMap* map,
                                              unsigned barrier, int x, int y,
                                              unsigned short mask) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
      ".multicast::cluster [%0], [%1, {%3, %4}], [%2], %5;" ::"r"(to),
      "l"(map), "r"(barrier), "r"(x), "r"(y), "h"(mask)
      : "memory");
}

__device__ __forceinline__ void PrefetchMap(const CUtensorMap* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

template <int kCount>
__device__ __forceinline__ void RegistersRaise() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kCount));
}

template <int kCount>
__device__ __forceinline__ void RegistersLower() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kCount));
}

// A tile of 128-byte rows with the 128-byte swizzle, 1024-byte aligned; `slab_bytes` is the way to
// the next 64 elements of the contiguous axis where that axis is not the summed one.
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

// The operands of the one multiplication that BLOCK_N needs: its sums as text and as registers, and
// the numbers of the operands that follow them.
#define T16_0 "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15"
#define T16_1 "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define T16_2 "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47"
#define T16_3 "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
#define T16_4 "%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79"
#define T16_5 "%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95"
#define T16_6 "%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111"
#define T16_7 "%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127"
#define R8(r, i)                                                                               \
  "+f"(r[i]), "+f"(r[i + 1]), "+f"(r[i + 2]), "+f"(r[i + 3]), "+f"(r[i + 4]), "+f"(r[i + 5]), \
      "+f"(r[i + 6]), "+f"(r[i + 7])
#define R16(r, i) R8(r, i), R8(r, i + 8)
#define R32(r, i) R16(r, i), R16(r, i + 16)
#define R64(r, i) R32(r, i), R32(r, i + 32)

#if BLOCK_N == 64
#define SUMS_TEXT T16_0 "," T16_1
#define SUMS_REGISTERS(r) R32(r, 0)
#define MMA_OPERANDS "%32, %33, p"
#define MMA_ADD "%34"
#elif BLOCK_N == 96
#define SUMS_TEXT T16_0 "," T16_1 "," T16_2
#define SUMS_REGISTERS(r) R32(r, 0), R16(r, 32)
#define MMA_OPERANDS "%48, %49, p"
#define MMA_ADD "%50"
#elif BLOCK_N == 128
#define SUMS_TEXT T16_0 "," T16_1 "," T16_2 "," T16_3
#define SUMS_REGISTERS(r) R64(r, 0)
#define MMA_OPERANDS "%64, %65, p"
#define MMA_ADD "%66"
#elif BLOCK_N == 160
#define SUMS_TEXT T16_0 "," T16_1 "," T16_2 "," T16_3 "," T16_4
#define SUMS_REGISTERS(r) R64(r, 0), R16(r, 64)
#define MMA_OPERANDS "%80, %81, p"
#define MMA_ADD "%82"
#elif BLOCK_N == 192
#define SUMS_TEXT T16_0 "," T16_1 "," T16_2 "," T16_3 "," T16_4 "," T16_5
#define SUMS_REGISTERS(r) R64(r, 0), R32(r, 64)
#define MMA_OPERANDS "%96, %97, p"
#define MMA_ADD "%98"
#elif BLOCK_N == 224
#define SUMS_TEXT T16_0 "," T16_1 "," T16_2 "," T16_3 "," T16_4 "," T16_5 "," T16_6
#define SUMS_REGISTERS(r) R64(r, 0), R32(r, 64), R16(r, 96)
#define MMA_OPERANDS "%112, %113, p"
#define MMA_ADD "%114"
#elif BLOCK_N == 256
#define SUMS_TEXT T16_0 "," T16_1 "," T16_2 "," T16_3 "," T16_4 "," T16_5 "," T16_6 "," T16_7
#define SUMS_REGISTERS(r) R64(r, 0), R64(r, 64)
#define MMA_OPERANDS "%128, %129, p"
#define MMA_ADD "%130"
#endif

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)
// Whether an operand's summed axis is not the contiguous one.
#if TRANSPOSE_B
#define MMA_B_ACROSS 0
#else
#define MMA_B_ACROSS 1
#endif

#if defined(DTYPE_E4M3)
#define MMA_SHAPE "k32.f32.e4m3.e4m3"
#define MMA_LAYOUT
#else
#ifdef DTYPE_BF16
#define MMA_SHAPE "k16.f32.bf16.bf16"
#else
#define MMA_SHAPE "k16.f32.f16.f16"
#endif
#define MMA_LAYOUT ", " TEXT(TRANSPOSE_A) ", " TEXT(MMA_B_ACROSS)
#endif

// 64 x BLOCK_N of sums from 64 rows of A and BLOCK_N columns of B in shared memory, 32 bytes of the
// summed axis of each; without `accumulate` they start at zero.
__device__ __forceinline__ void SharedMma(float (&d)[BLOCK_N / 2], unsigned long long left,
                                          unsigned long long right, int accumulate) {
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " MMA_ADD ", 0;\n"
               "wgmma.mma_async.sync.aligned.m64n" TEXT(BLOCK_N) MMA_SHAPE " {" SUMS_TEXT
               "}, " MMA_OPERANDS ", 1, 1" MMA_LAYOUT ";\n}"
               : SUMS_REGISTERS(d)
               : "l"(left), "l"(right), "r"(accumulate));
}
