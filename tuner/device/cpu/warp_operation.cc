// SPDX-License-Identifier: Apache-2.0
#include "tuner/device/cpu/warp_operation.h"

#include <algorithm>

namespace tune::cpu {
namespace {

using tune_cpu::kWarpSize;
using tune_cpu::WarpKind;

unsigned Combine(WarpKind kind, unsigned a, unsigned b) {
  switch (kind) {
    case WarpKind::kReduceAdd:
      return a + b;
    case WarpKind::kReduceMinSigned:
      return static_cast<unsigned>(std::min(static_cast<int>(a), static_cast<int>(b)));
    case WarpKind::kReduceMaxSigned:
      return static_cast<unsigned>(std::max(static_cast<int>(a), static_cast<int>(b)));
    case WarpKind::kReduceMinUnsigned:
      return std::min(a, b);
    case WarpKind::kReduceMaxUnsigned:
      return std::max(a, b);
    case WarpKind::kReduceAnd:
      return a & b;
    case WarpKind::kReduceOr:
      return a | b;
    default:
      return a ^ b;
  }
}

unsigned LanesWithValue(unsigned arrived, const WarpValues& values, unsigned long long value) {
  unsigned lanes = 0;
  for (unsigned left = arrived; left != 0; left &= left - 1) {
    const int lane = __builtin_ctz(left);
    if (values.value[lane] == value) lanes |= 1u << lane;
  }
  return lanes;
}

// The result that all lanes share.
unsigned CommonResult(WarpKind kind, unsigned arrived, const WarpValues& values) {
  const int first = __builtin_ctz(arrived);
  if (kind == WarpKind::kBallot) return arrived & ~LanesWithValue(arrived, values, 0);
  if (kind == WarpKind::kMatchAll) {
    return LanesWithValue(arrived, values, values.value[first]) == arrived ? arrived : 0;
  }
  unsigned result = static_cast<unsigned>(values.value[first]);
  for (unsigned left = arrived & (arrived - 1); left != 0; left &= left - 1) {
    result = Combine(kind, result, static_cast<unsigned>(values.value[__builtin_ctz(left)]));
  }
  return result;
}

}  // namespace

void Resolve(WarpKind kind, unsigned arrived, WarpValues& values) {
  if (kind == WarpKind::kSync) return;
  if (kind == WarpKind::kShuffle) {
    for (unsigned lane = 0; lane < kWarpSize; ++lane) {
      const unsigned source = values.source[lane] % kWarpSize;
      const bool there = ((arrived >> source) & 1u) != 0;
      values.result[lane] = values.value[there ? source : lane];
    }
    return;
  }
  if (kind == WarpKind::kMatchAny) {
    for (unsigned left = arrived; left != 0; left &= left - 1) {
      const int lane = __builtin_ctz(left);
      values.result[lane] = LanesWithValue(arrived, values, values.value[lane]);
    }
    return;
  }
  values.result.fill(CommonResult(kind, arrived, values));
}

}  // namespace tune::cpu
