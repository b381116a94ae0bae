// SPDX-License-Identifier: Apache-2.0
// CUDA's built-in vector types, with the alignment they have there, and loads and stores with a
// cache hint, which on this device are plain.
#pragma once

#include "launch.h"
#include "sync.h"

#define TUNE_CPU_VECTOR1(type, name)                 \
  struct name##1 {                                   \
    type x;                                          \
  };                                                 \
  TUNE_CPU_INLINE name##1 make_##name##1(type x) {   \
    return {x};                                      \
  }
#define TUNE_CPU_VECTOR2(type, name)                         \
  struct alignas(2 * sizeof(type)) name##2 {                 \
    type x, y;                                               \
  };                                                         \
  TUNE_CPU_INLINE name##2 make_##name##2(type x, type y) {   \
    return {x, y};                                           \
  }
#define TUNE_CPU_MAKE3(type, name)                                   \
  TUNE_CPU_INLINE name##3 make_##name##3(type x, type y, type z) {   \
    return {x, y, z};                                                \
  }
#define TUNE_CPU_VECTOR3(type, name) \
  struct name##3 {                   \
    type x, y, z;                    \
  };                                 \
  TUNE_CPU_MAKE3(type, name)
// 16 bytes at most, as on the GPU before 32-byte vectors.
#define TUNE_CPU_VECTOR4(type, name)                                         \
  struct alignas(4 * sizeof(type) < 16 ? 4 * sizeof(type) : 16) name##4 {    \
    type x, y, z, w;                                                         \
  };                                                                         \
  TUNE_CPU_INLINE name##4 make_##name##4(type x, type y, type z, type w) {   \
    return {x, y, z, w};                                                     \
  }
#define TUNE_CPU_VECTORS(type, name) \
  TUNE_CPU_VECTOR1(type, name)       \
  TUNE_CPU_VECTOR2(type, name)       \
  TUNE_CPU_VECTOR3(type, name)       \
  TUNE_CPU_VECTOR4(type, name)

TUNE_CPU_VECTORS(signed char, char)
TUNE_CPU_VECTORS(unsigned char, uchar)
TUNE_CPU_VECTORS(short, short)
TUNE_CPU_VECTORS(unsigned short, ushort)
TUNE_CPU_VECTORS(int, int)
TUNE_CPU_VECTOR1(unsigned, uint)
TUNE_CPU_VECTOR2(unsigned, uint)
TUNE_CPU_MAKE3(unsigned, uint)  // uint3 is the type of threadIdx
TUNE_CPU_VECTOR4(unsigned, uint)
TUNE_CPU_VECTORS(long, long)
TUNE_CPU_VECTORS(unsigned long, ulong)
TUNE_CPU_VECTORS(long long, longlong)
TUNE_CPU_VECTORS(unsigned long long, ulonglong)
TUNE_CPU_VECTORS(float, float)
TUNE_CPU_VECTORS(double, double)

#undef TUNE_CPU_VECTOR1
#undef TUNE_CPU_VECTOR2
#undef TUNE_CPU_VECTOR3
#undef TUNE_CPU_VECTOR4
#undef TUNE_CPU_MAKE3
#undef TUNE_CPU_VECTORS

#define TUNE_CPU_LOAD(name)                   \
  template <class T>                          \
  TUNE_CPU_INLINE T name(const T* address) {  \
    return *address;                          \
  }
#define TUNE_CPU_STORE(name)                                                  \
  template <class T>                                                          \
  TUNE_CPU_INLINE void name(T* address, const std::type_identity_t<T>& value) { \
    *address = value;                                                         \
  }
TUNE_CPU_LOAD(__ldg)
TUNE_CPU_LOAD(__ldca)
TUNE_CPU_LOAD(__ldcg)
TUNE_CPU_LOAD(__ldcs)
TUNE_CPU_LOAD(__ldcv)
TUNE_CPU_LOAD(__ldlu)
TUNE_CPU_STORE(__stwb)
TUNE_CPU_STORE(__stcg)
TUNE_CPU_STORE(__stcs)
TUNE_CPU_STORE(__stwt)
#undef TUNE_CPU_LOAD
#undef TUNE_CPU_STORE

TUNE_CPU_INLINE size_t __cvta_generic_to_shared(const void* pointer) {
  return reinterpret_cast<size_t>(pointer);
}
