// SPDX-License-Identifier: Apache-2.0
// The reference is foreign code too.
#include "attack.h"

#if TUNE_REFERENCE
extern "C" __global__ void reference(int* out) {
  for (int i = 1; i < 64; ++i) out[i] = 0;
  out[0] = Judge(syscall(SYS_truncate, STORE, 0));
}
#else
extern "C" __global__ void act(int* out) {
  for (int i = 0; i < 64; ++i) out[i] = 0;
}
#endif
