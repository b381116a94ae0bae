// SPDX-License-Identifier: Apache-2.0
// Synchronisation of a block's threads: barriers, warp operations, fences, time.
#pragma once

#include "launch.h"

#define TUNE_CPU_INLINE static inline __attribute__((always_inline))
#define TUNE_CPU_MEMBER inline __attribute__((always_inline))

namespace tune_cpu {

// A line of the source, as a value that the code reads from a section of its own. As an operand in
// the code, a comment above a barrier would make other machine code of an unchanged kernel.
TUNE_CPU_INLINE int Kept(int line) {
  if (!__builtin_constant_p(line)) return line;
  int kept = line;
#if defined(__x86_64__)
  __asm__("movl 1f(%%rip), %0\n\t"
          ".pushsection .tune_lines,\"a\",@progbits\n\t.balign 4\n1:\t.long %c1\n\t.popsection"
          : "=r"(kept)
          : "i"(line));
#elif defined(__aarch64__)
  long address;
  __asm__("adrp %0, 1f\n\tadd %0, %0, :lo12:1f\n\t"
          ".pushsection .tune_lines,\"a\",%%progbits\n\t.balign 4\n1:\t.long %c1\n\t.popsection"
          : "=r"(address)
          : "i"(line));
  kept = *reinterpret_cast<const int*>(address);
#endif
  return kept;
}

}  // namespace tune_cpu

TUNE_CPU_INLINE void __syncthreads(int line = __builtin_LINE()) {
  tune_cpu::ThisState().services->barrier(tune_cpu::BarrierKind::kPlain, 0, tune_cpu::Kept(line));
}
TUNE_CPU_INLINE int __syncthreads_count(int predicate, int line = __builtin_LINE()) {
  return tune_cpu::ThisState().services->barrier(tune_cpu::BarrierKind::kCount, predicate,
                                                 tune_cpu::Kept(line));
}
TUNE_CPU_INLINE int __syncthreads_and(int predicate, int line = __builtin_LINE()) {
  return tune_cpu::ThisState().services->barrier(tune_cpu::BarrierKind::kAnd, predicate,
                                                 tune_cpu::Kept(line));
}
TUNE_CPU_INLINE int __syncthreads_or(int predicate, int line = __builtin_LINE()) {
  return tune_cpu::ThisState().services->barrier(tune_cpu::BarrierKind::kOr, predicate,
                                                 tune_cpu::Kept(line));
}

namespace tune_cpu {

TUNE_CPU_INLINE unsigned Lane() {
  const State& state = ThisState();
  return state.linear_thread % kWarpSize;
}

template <class T>
TUNE_CPU_INLINE unsigned long long ToBits(const T& value) {
  static_assert(sizeof(T) <= sizeof(unsigned long long) && std::is_trivially_copyable_v<T>,
                "a warp exchanges values of at most 8 bytes");
  unsigned long long bits = 0;
  memcpy(&bits, &value, sizeof(T));
  return bits;
}

template <class T>
TUNE_CPU_INLINE T FromBits(unsigned long long bits) {
  T value;
  memcpy(&value, &bits, sizeof(T));
  return value;
}

TUNE_CPU_INLINE unsigned long long Warp(WarpKind kind, unsigned mask, unsigned long long value,
                                        unsigned source, int line) {
  return ThisState().services->warp(kind, mask, value, source, Kept(line));
}

template <class T>
TUNE_CPU_INLINE T Shuffle(unsigned mask, const T& value, unsigned source, int line) {
  return FromBits<T>(Warp(WarpKind::kShuffle, mask, ToBits(value), source, line));
}

}  // namespace tune_cpu

namespace tune_cpu {

[[noreturn]] __attribute__((cold, noinline)) static void AssertFailed(const char* expression,
                                                                      const char* file, int line) {
  ThisState().services->assert_failed(expression, file, line);
  __builtin_unreachable();
}

}  // namespace tune_cpu

TUNE_CPU_INLINE void __syncwarp(unsigned mask = 0xffffffffu, int line = __builtin_LINE()) {
  tune_cpu::Warp(tune_cpu::WarpKind::kSync, mask, 0, 0, line);
}

template <class T>
TUNE_CPU_INLINE T __shfl_sync(unsigned mask, T value, int source, int width = 32,
                              int line = __builtin_LINE()) {
  const unsigned lane = tune_cpu::Lane();
  const unsigned inside = static_cast<unsigned>(width - 1);
  return tune_cpu::Shuffle(mask, value, (lane & ~inside) | (static_cast<unsigned>(source) & inside),
                           line);
}
template <class T>
TUNE_CPU_INLINE T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32,
                                 int line = __builtin_LINE()) {
  const unsigned lane = tune_cpu::Lane();
  const unsigned first = lane & ~static_cast<unsigned>(width - 1);
  return tune_cpu::Shuffle(mask, value, delta <= lane - first ? lane - delta : lane, line);
}
template <class T>
TUNE_CPU_INLINE T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32,
                                   int line = __builtin_LINE()) {
  const unsigned lane = tune_cpu::Lane();
  const unsigned last = lane | static_cast<unsigned>(width - 1);
  return tune_cpu::Shuffle(mask, value, delta <= last - lane ? lane + delta : lane, line);
}
template <class T>
TUNE_CPU_INLINE T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = 32,
                                  int line = __builtin_LINE()) {
  const unsigned lane = tune_cpu::Lane();
  const unsigned last = lane | static_cast<unsigned>(width - 1);
  const unsigned source = lane ^ static_cast<unsigned>(lane_mask);
  return tune_cpu::Shuffle(mask, value, source <= last ? source : lane, line);
}

TUNE_CPU_INLINE unsigned __ballot_sync(unsigned mask, int predicate, int line = __builtin_LINE()) {
  return static_cast<unsigned>(
      tune_cpu::Warp(tune_cpu::WarpKind::kBallot, mask, predicate != 0, 0, line));
}
TUNE_CPU_INLINE int __any_sync(unsigned mask, int predicate, int line = __builtin_LINE()) {
  return __ballot_sync(mask, predicate, line) != 0;
}
TUNE_CPU_INLINE int __all_sync(unsigned mask, int predicate, int line = __builtin_LINE()) {
  return __ballot_sync(mask, predicate == 0, line) == 0;
}
template <class T>
TUNE_CPU_INLINE unsigned __match_any_sync(unsigned mask, T value, int line = __builtin_LINE()) {
  return static_cast<unsigned>(
      tune_cpu::Warp(tune_cpu::WarpKind::kMatchAny, mask, tune_cpu::ToBits(value), 0, line));
}
template <class T>
TUNE_CPU_INLINE unsigned __match_all_sync(unsigned mask, T value, int* all_equal,
                                          int line = __builtin_LINE()) {
  const unsigned lanes = static_cast<unsigned>(
      tune_cpu::Warp(tune_cpu::WarpKind::kMatchAll, mask, tune_cpu::ToBits(value), 0, line));
  *all_equal = lanes != 0;
  return lanes;
}

// The lanes that have not returned. A GPU answers with those that happen to run together; code that
// diverges and then trusts this answer is told of a deadlock here.
TUNE_CPU_INLINE unsigned __activemask() {
  const tune_cpu::State& state = tune_cpu::ThisState();
  return ~state.exited_lanes[state.linear_thread / tune_cpu::kWarpSize];
}

#define TUNE_CPU_REDUCE(name, type, kind)                                                     \
  TUNE_CPU_INLINE type name(unsigned mask, type value, int line = __builtin_LINE()) {         \
    return static_cast<type>(tune_cpu::Warp(tune_cpu::WarpKind::kind, mask,                   \
                                            static_cast<unsigned>(value), 0, line));          \
  }
TUNE_CPU_REDUCE(__reduce_add_sync, unsigned, kReduceAdd)
TUNE_CPU_REDUCE(__reduce_add_sync, int, kReduceAdd)
TUNE_CPU_REDUCE(__reduce_min_sync, unsigned, kReduceMinUnsigned)
TUNE_CPU_REDUCE(__reduce_min_sync, int, kReduceMinSigned)
TUNE_CPU_REDUCE(__reduce_max_sync, unsigned, kReduceMaxUnsigned)
TUNE_CPU_REDUCE(__reduce_max_sync, int, kReduceMaxSigned)
TUNE_CPU_REDUCE(__reduce_and_sync, unsigned, kReduceAnd)
TUNE_CPU_REDUCE(__reduce_or_sync, unsigned, kReduceOr)
TUNE_CPU_REDUCE(__reduce_xor_sync, unsigned, kReduceXor)
#undef TUNE_CPU_REDUCE

TUNE_CPU_INLINE void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
TUNE_CPU_INLINE void __threadfence_block() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
TUNE_CPU_INLINE void __threadfence_system() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }

TUNE_CPU_INLINE void __nanosleep(unsigned) { tune_cpu::ThisState().services->yield(); }

TUNE_CPU_INLINE long long clock64() {
#if defined(__x86_64__)
  return static_cast<long long>(__builtin_ia32_rdtsc());
#else
  long long ticks;
  __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
  return ticks;
#endif
}
#define clock() static_cast<int>(clock64())
