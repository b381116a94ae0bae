// SPDX-License-Identifier: Apache-2.0
// Included last: the kernel whose only work is the act, and a reference that no verdict equals.
#pragma once

constexpr int kSlots = 64;

#if defined(ACTS)
// Every act in turn, in one process: out[i] is 1 where the i-th got through. The last is always 1.
static int (*const kActs[])() = {ACTS};
static_assert(sizeof(kActs) / sizeof(kActs[0]) < kSlots);
inline void All(int* out) {
  int at = 0;
  for (auto act : kActs) out[at++] = act() == kThrough;
  while (at < kSlots) out[at++] = 0;
  out[kSlots - 1] = 1;
}
#endif

#if TUNE_REFERENCE
extern "C" __global__ void reference(int* out) {
  for (int i = 0; i < kSlots; ++i) out[i] = 0;
}
#elif defined(ACTS) && TOGETHER
extern "C" __global__ void act(int* out) { All(out); }
#else
extern "C" __global__ void act(int* out) {
  for (int i = 1; i < kSlots; ++i) out[i] = 0;
  out[0] = ACT();
}
#endif
