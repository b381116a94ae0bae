// SPDX-License-Identifier: Apache-2.0
// Atomic operations on global and shared memory. Relaxed, as CUDA's are.
#pragma once

#include "launch.h"
#include "sync.h"

namespace tune_cpu {

// Replaces *address by update(old) and gives the old value.
template <class T, class Update>
TUNE_CPU_INLINE T AtomicUpdate(T* address, Update update) {
  T expected;
  __atomic_load(address, &expected, __ATOMIC_RELAXED);
  T desired = update(expected);
  while (!__atomic_compare_exchange(address, &expected, &desired, true, __ATOMIC_RELAXED,
                                    __ATOMIC_RELAXED)) {
    desired = update(expected);
  }
  return expected;
}

}  // namespace tune_cpu

#define TUNE_CPU_ATOMIC_INTEGER(type)                                                            \
  TUNE_CPU_INLINE type atomicAdd(type* address, type value) {                                    \
    return __atomic_fetch_add(address, value, __ATOMIC_RELAXED);                                 \
  }                                                                                              \
  TUNE_CPU_INLINE type atomicSub(type* address, type value) {                                    \
    return __atomic_fetch_sub(address, value, __ATOMIC_RELAXED);                                 \
  }                                                                                              \
  TUNE_CPU_INLINE type atomicAnd(type* address, type value) {                                    \
    return __atomic_fetch_and(address, value, __ATOMIC_RELAXED);                                 \
  }                                                                                              \
  TUNE_CPU_INLINE type atomicOr(type* address, type value) {                                     \
    return __atomic_fetch_or(address, value, __ATOMIC_RELAXED);                                  \
  }                                                                                              \
  TUNE_CPU_INLINE type atomicXor(type* address, type value) {                                    \
    return __atomic_fetch_xor(address, value, __ATOMIC_RELAXED);                                 \
  }                                                                                              \
  TUNE_CPU_INLINE type atomicMin(type* address, type value) {                                    \
    return tune_cpu::AtomicUpdate(address,                                                       \
                                  [value](type old) { return old < value ? old : value; });      \
  }                                                                                              \
  TUNE_CPU_INLINE type atomicMax(type* address, type value) {                                    \
    return tune_cpu::AtomicUpdate(address,                                                       \
                                  [value](type old) { return old > value ? old : value; });      \
  }                                                                                              \
  TUNE_CPU_INLINE type atomicExch(type* address, type value) {                                   \
    return __atomic_exchange_n(address, value, __ATOMIC_RELAXED);                                \
  }                                                                                              \
  TUNE_CPU_INLINE type atomicCAS(type* address, type compare, type value) {                      \
    __atomic_compare_exchange_n(address, &compare, value, false, __ATOMIC_RELAXED,               \
                                __ATOMIC_RELAXED);                                               \
    return compare;                                                                              \
  }
TUNE_CPU_ATOMIC_INTEGER(int)
TUNE_CPU_ATOMIC_INTEGER(unsigned)
TUNE_CPU_ATOMIC_INTEGER(long long)
TUNE_CPU_ATOMIC_INTEGER(unsigned long long)
#undef TUNE_CPU_ATOMIC_INTEGER

TUNE_CPU_INLINE unsigned short atomicCAS(unsigned short* address, unsigned short compare,
                                         unsigned short value) {
  __atomic_compare_exchange_n(address, &compare, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
  return compare;
}
TUNE_CPU_INLINE unsigned atomicInc(unsigned* address, unsigned limit) {
  return tune_cpu::AtomicUpdate(address,
                                [limit](unsigned old) { return old >= limit ? 0u : old + 1u; });
}
TUNE_CPU_INLINE unsigned atomicDec(unsigned* address, unsigned limit) {
  return tune_cpu::AtomicUpdate(
      address, [limit](unsigned old) { return old == 0u || old > limit ? limit : old - 1u; });
}

#define TUNE_CPU_ATOMIC_FLOAT(type)                                                          \
  TUNE_CPU_INLINE type atomicAdd(type* address, type value) {                                \
    return tune_cpu::AtomicUpdate(address, [value](type old) { return old + value; });       \
  }                                                                                          \
  TUNE_CPU_INLINE type atomicExch(type* address, type value) {                               \
    return tune_cpu::AtomicUpdate(address, [value](type) { return value; });                 \
  }
TUNE_CPU_ATOMIC_FLOAT(float)
TUNE_CPU_ATOMIC_FLOAT(double)
#undef TUNE_CPU_ATOMIC_FLOAT

#define atomicAdd_block atomicAdd
#define atomicAdd_system atomicAdd
#define atomicAnd_block atomicAnd
#define atomicAnd_system atomicAnd
#define atomicCAS_block atomicCAS
#define atomicCAS_system atomicCAS
#define atomicExch_block atomicExch
#define atomicExch_system atomicExch
#define atomicMax_block atomicMax
#define atomicMax_system atomicMax
#define atomicMin_block atomicMin
#define atomicMin_system atomicMin
#define atomicOr_block atomicOr
#define atomicOr_system atomicOr
#define atomicSub_block atomicSub
#define atomicSub_system atomicSub
#define atomicXor_block atomicXor
#define atomicXor_system atomicXor
