// SPDX-License-Identifier: Apache-2.0
// The types of A and B, and of all else.
#pragma once

#ifdef DTYPE_F16
#include <cuda_fp16.h>
#else
#include <cuda_bf16.h>
#endif

#ifdef DTYPE_E4M3
static_assert(!TRANSPOSE_A && TRANSPOSE_B, "rows of A and of B are contiguous in k");

// An e4m3 by its bits: CUDA's own type brings a header that takes longer to compile than
// this kernel.
struct E4m3 {
  unsigned char bits;

  __device__ __forceinline__ operator float() const {
    const unsigned size = bits & 0x7f;
    // Moves the exponent by 120 exactly, and makes subnormal numbers normal.
    const unsigned finite = __float_as_uint(__uint_as_float(size << 20) * 0x1p120f);
    const unsigned value = size == 0x7f ? 0x7fc00000u : finite;
    return __uint_as_float(value | (bits & 0x80u) << 24);
  }
};
using Input = E4m3;             // of A and B
using Element = __nv_bfloat16;  // of all else
#else
using Input = DTYPE;
using Element = DTYPE;
#endif
constexpr int kInputBytes = sizeof(Input);
