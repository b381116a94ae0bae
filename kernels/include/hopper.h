// SPDX-License-Identifier: Apache-2.0
// The instructions of sm_90a that CUDA C++ has no name for: mbarriers, the bulk copy engine (TMA),
// warpgroup matrix multiply (WGMMA) and register reallocation.
#pragma once

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

// Waits for the phase of the given parity to complete. With ATTENTION_WAIT_LIMIT_NS, a wait that
// lasts longer traps: a wrong phase then ends as an error and not as a hang.
__device__ __forceinline__ void BarrierWait(unsigned barrier, unsigned parity) {
#ifdef ATTENTION_WAIT_LIMIT_NS
  unsigned long long start, now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
  while (!BarrierTest(barrier, parity)) {
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    if (now - start > ATTENTION_WAIT_LIMIT_NS) asm volatile("trap;");
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

// One box of a map with the axes {64 elements, row, 64-element column of the head, head}.
__device__ __forceinline__ void LoadBox(unsigned to, const CUtensorMap* map, unsigned barrier,
                                        int row, int head) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes"
      " [%0], [%1, {%3, %4, %3, %5}], [%2];" ::"r"(to),
      "l"(map), "r"(barrier), "r"(0), "r"(row), "r"(head)
      : "memory");
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

// The operand lists of the two multiplications, by their number of accumulators: 32 to 96.
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
#define TEXT_32 T8_0 "," T8_1 "," T8_2 "," T8_3
#define TEXT_40 TEXT_32 "," T8_4
#define TEXT_48 TEXT_40 "," T8_5
#define TEXT_56 TEXT_48 "," T8_6
#define TEXT_64 TEXT_56 "," T8_7
#define TEXT_72 TEXT_64 "," T8_8
#define TEXT_80 TEXT_72 "," T8_9
#define TEXT_88 TEXT_80 "," T8_10
#define TEXT_96 TEXT_88 "," T8_11

#define R8(r, i)                                                                               \
  "+f"(r[i]), "+f"(r[i + 1]), "+f"(r[i + 2]), "+f"(r[i + 3]), "+f"(r[i + 4]), "+f"(r[i + 5]), \
      "+f"(r[i + 6]), "+f"(r[i + 7])
#define REGS_32(r) R8(r, 0), R8(r, 8), R8(r, 16), R8(r, 24)
#define REGS_40(r) REGS_32(r), R8(r, 32)
#define REGS_48(r) REGS_40(r), R8(r, 40)
#define REGS_56(r) REGS_48(r), R8(r, 48)
#define REGS_64(r) REGS_56(r), R8(r, 56)
#define REGS_72(r) REGS_64(r), R8(r, 64)
#define REGS_80(r) REGS_72(r), R8(r, 72)
#define REGS_88(r) REGS_80(r), R8(r, 80)
#define REGS_96(r) REGS_88(r), R8(r, 88)

#ifdef DTYPE_BF16
#define MMA_TYPES ".f32.bf16.bf16"
#else
#define MMA_TYPES ".f32.f16.f16"
#endif

// 64 x n of sums (count registers) from A and B in shared memory, both with the summed axis
// contiguous. %a and so on are the operands after the sums.
#define SHARED_MMA(n, count, a, b, add)                                                    \
  template <>                                                                              \
  __device__ __forceinline__ void SharedMma<n>(float(&d)[count], unsigned long long left,  \
                                               unsigned long long right, int accumulate) { \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #add ", 0;\n"                        \
                 "wgmma.mma_async.sync.aligned.m64n" #n "k16" MMA_TYPES " {" TEXT_##count  \
                 "}, %" #a ", %" #b ", p, 1, 1, 0, 0;\n}"                                  \
                 : REGS_##count(d)                                                         \
                 : "l"(left), "l"(right), "r"(accumulate));                                \
  }

template <int kN>
__device__ __forceinline__ void SharedMma(float (&d)[kN / 2], unsigned long long left,
                                          unsigned long long right, int accumulate);
SHARED_MMA(64, 32, 32, 33, 34)
SHARED_MMA(80, 40, 40, 41, 42)
SHARED_MMA(96, 48, 48, 49, 50)
SHARED_MMA(112, 56, 56, 57, 58)
SHARED_MMA(128, 64, 64, 65, 66)
SHARED_MMA(144, 72, 72, 73, 74)
SHARED_MMA(160, 80, 80, 81, 82)
SHARED_MMA(176, 88, 88, 89, 90)
SHARED_MMA(192, 96, 96, 97, 98)

// Adds to 64 x n of sums from A in registers and B in shared memory with n contiguous.
#define REGISTER_MMA(n, count, a0, a1, a2, a3, b)                                                 \
  template <>                                                                                     \
  __device__ __forceinline__ void RegisterMma<n>(float(&d)[count], const unsigned* left,          \
                                                 unsigned long long right) {                      \
    asm volatile("wgmma.mma_async.sync.aligned.m64n" #n "k16" MMA_TYPES " {" TEXT_##count "}, {%" \
                 #a0 ", %" #a1 ", %" #a2 ", %" #a3 "}, %" #b ", 1, 1, 1, 1;"                      \
                 : REGS_##count(d)                                                                \
                 : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "l"(right));           \
  }

template <int kN>
__device__ __forceinline__ void RegisterMma(float (&d)[kN / 2], const unsigned* left,
                                            unsigned long long right);
REGISTER_MMA(64, 32, 32, 33, 34, 35, 36)
REGISTER_MMA(128, 64, 64, 65, 66, 67, 68)
