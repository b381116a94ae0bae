// SPDX-License-Identifier: Apache-2.0
// The buffer to which a kernel's checker reports faults. Compiled with every checker, as
// "tune_check.h", and by the code that reads the faults; includes nothing.
#pragma once

// A fault that a checker has found.
struct TuneFaultSlot {
  long long index;
  double value;
  double expected;
  char what[40];  // ends with a NUL
};

struct TuneFaults {
  static constexpr int kKept = 16;
  unsigned long long count;   // of all faults
  unsigned long long unused;  // keeps the slots aligned
  TuneFaultSlot kept[kKept];  // the first that were told
};

#if defined(__CUDACC__) || defined(TUNE_CPU)
// Any thread of the checker may call it, for each element that is wrong.
__device__ inline void TuneFault(TuneFaults* faults, long long index, const char* what,
                                 double value = 0, double expected = 0) {
  const unsigned long long place = atomicAdd(&faults->count, 1ull);
  if (place >= TuneFaults::kKept) return;
  TuneFaultSlot& slot = faults->kept[place];
  slot.index = index;
  slot.value = value;
  slot.expected = expected;
  int end = 0;
  while (what[end] != '\0' && end < static_cast<int>(sizeof(slot.what)) - 1) ++end;
  for (int i = 0; i < end; ++i) slot.what[i] = what[i];
  slot.what[end] = '\0';
}
#endif
