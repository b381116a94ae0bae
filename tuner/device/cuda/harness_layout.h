// SPDX-License-Identifier: Apache-2.0
// What harness.cu and its host code exchange in device memory. Compiled by both; includes nothing.
#pragma once

namespace tune::cuda {

using Address = unsigned long long;

// Bytes that nobody may write, before and after each buffer.
struct GuardRange {
  Address begin;
  unsigned long long bytes;
};

struct GuardResult {
  unsigned long long bad_bytes;
  unsigned long long first_bad;  // offset in the range
};

// How far an output is from its reference. NaN differences are counted, not measured.
struct CompareResult {
  double max_abs;
  double max_rel;
  double error_squares;
  double reference_squares;
  unsigned long long bad;  // out of tolerance, NaN included
  unsigned long long nan;
  // The element furthest above its tolerance (or nearest to it, if none is).
  double worst_excess;
  unsigned long long worst_index;
  double worst_value;
  double worst_reference;
};

constexpr int kBuffersMax = 64;
constexpr int kCompareBlocksMax = 2048;
constexpr int kHarnessThreads = 256;  // of every harness block

// All that one check of a launch leaves behind, fetched in one copy.
struct CheckResults {
  CompareResult compare[kBuffersMax];
  GuardResult guards[2 * kBuffersMax];
  unsigned long long hashes[2 * kBuffersMax];
};

}  // namespace tune::cuda
