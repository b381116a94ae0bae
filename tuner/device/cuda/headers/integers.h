// SPDX-License-Identifier: Apache-2.0
// <cstdint> and <stdint.h> for kernels on GPUs. The types are those of CUDA's own library, so that
// both may be included.
#pragma once

#define TUNE_INTEGERS(bits, type)             \
  using int##bits##_t = signed type;          \
  using uint##bits##_t = unsigned type;       \
  using int_fast##bits##_t = signed type;     \
  using uint_fast##bits##_t = unsigned type;  \
  using int_least##bits##_t = signed type;    \
  using uint_least##bits##_t = unsigned type; \
  namespace std {                             \
  using ::int##bits##_t;                      \
  using ::uint##bits##_t;                     \
  using ::int_fast##bits##_t;                 \
  using ::uint_fast##bits##_t;                \
  using ::int_least##bits##_t;                \
  using ::uint_least##bits##_t;               \
  }
TUNE_INTEGERS(8, char)
TUNE_INTEGERS(16, short)
TUNE_INTEGERS(32, int)
TUNE_INTEGERS(64, long long)
#undef TUNE_INTEGERS
using intptr_t = int64_t;
using uintptr_t = uint64_t;
using intmax_t = int64_t;
using uintmax_t = uint64_t;
namespace std {
using ::intmax_t;
using ::intptr_t;
using ::uintmax_t;
using ::uintptr_t;
}  // namespace std

#ifndef INT8_MAX
#define INT8_MIN (-128)
#define INT8_MAX 127
#define UINT8_MAX 255
#define INT16_MIN (-32768)
#define INT16_MAX 32767
#define UINT16_MAX 65535
#define INT32_MIN (-INT32_MAX - 1)
#define INT32_MAX 2147483647
#define UINT32_MAX 4294967295u
#define INT64_MIN (-INT64_MAX - 1)
#define INT64_MAX 9223372036854775807ll
#define UINT64_MAX 18446744073709551615ull
#define INTPTR_MAX INT64_MAX
#define UINTPTR_MAX UINT64_MAX
#define SIZE_MAX UINT64_MAX
#define INT8_C(value) value
#define UINT8_C(value) value
#define INT16_C(value) value
#define UINT16_C(value) value
#define INT32_C(value) value
#define UINT32_C(value) value##u
#define INT64_C(value) value##ll
#define UINT64_C(value) value##ull
#endif
