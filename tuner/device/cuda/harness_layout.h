// SPDX-License-Identifier: Apache-2.0
// Structs that harness.cu and its host code exchange in device memory. Both compile this file.
#pragma once

#if defined(__CUDACC__)
#include "compare.h"
#else
#include "tuner/device/compare.h"
#endif

namespace tune::cuda {

using Address = unsigned long long;

// Bytes that must not be written, before and after each buffer.
struct GuardRange {
  Address begin;
  unsigned long long bytes;
};

struct GuardResult {
  unsigned long long bad_bytes;
  unsigned long long first_bad;  // offset in the range
};

constexpr int kBuffersMax = 64;
constexpr int kCompareBlocksMax = 2048;
constexpr int kHarnessThreads = 256;  // of every harness block

// All that one check of a launch leaves behind, fetched in one copy.
struct CheckResults {
  CompareResult compare[kBuffersMax];
  GuardResult guards[2 * kBuffersMax];
  unsigned long long hashes[kBuffersMax];
};

}  // namespace tune::cuda
