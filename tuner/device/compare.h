// SPDX-License-Identifier: Apache-2.0
// How far an output is from its reference. One text for every device, as fill.h: it includes
// nothing, compiles as plain C++ and, handed to NVRTC, as device code, and judges each pair of
// values alike in both.
//
// A device loads both values as doubles, asks ErrorOf (or ErrorOfIntegers, where a double would
// round), and adds each element to a CompareResult of its own with AddElement. Merge joins the
// results of threads, blocks and outputs. An element is right if
// |value - reference| <= atol + rtol * |reference|, in double precision, with three rules for what
// this leaves open: NaN is never right, equal infinities are right, and an infinite error is beyond
// every tolerance, an infinite one included.
#pragma once

#if defined(__CUDACC__)
#define TUNE_COMPARE_FUNCTION __device__ __forceinline__
// Contracted on one device only, a bound would differ from the other's in its last bit.
#define TUNE_COMPARE_MUL(a, b) __dmul_rn(a, b)
#define TUNE_COMPARE_ADD(a, b) __dadd_rn(a, b)
#define TUNE_COMPARE_INFINITY __longlong_as_double(0x7ff0000000000000ll)
#else
#define TUNE_COMPARE_FUNCTION [[gnu::always_inline]] inline
#define TUNE_COMPARE_MUL(a, b) ((a) * (b))
#define TUNE_COMPARE_ADD(a, b) ((a) + (b))
#define TUNE_COMPARE_INFINITY __builtin_huge_val()
#endif

namespace tune {

// A sum of squares that neither overflows nor vanishes for any finite doubles: large and small
// numbers are scaled into sums of their own (J. L. Blue, "A Portable Fortran Program to Find the
// Euclidean Norm of a Vector", ACM TOMS 4, 1978).
struct SquareSum {
  static constexpr double kLarge = 0x1p+500;
  static constexpr double kSmall = 0x1p-500;
  static constexpr double kShrink = 0x1p-540;  // factor of the large ones
  static constexpr double kGrow = 0x1p+540;    // factor of the small ones

  double large;
  double medium;
  double small;
};

TUNE_COMPARE_FUNCTION void AddSquare(double value, SquareSum& sum) {
  const double size = value < 0 ? -value : value;
  if (size >= SquareSum::kSmall && size <= SquareSum::kLarge) {
    sum.medium += size * size;
  } else if (size > SquareSum::kLarge) {
    sum.large += (size * SquareSum::kShrink) * (size * SquareSum::kShrink);
  } else {
    sum.small += (size * SquareSum::kGrow) * (size * SquareSum::kGrow);
  }
}

TUNE_COMPARE_FUNCTION void MergeSquares(const SquareSum& more, SquareSum& sum) {
  sum.large += more.large;
  sum.medium += more.medium;
  sum.small += more.small;
}

// All zero bytes: no element was compared.
struct CompareResult {
  unsigned long long count;
  double max_abs;  // infinite where one of a pair is
  double max_rel;  // of references above 1e-30: below, a relative error says nothing
  SquareSum errors;
  SquareSum references;    // without infinite ones, so that these do not hide what the others lack
  unsigned long long bad;  // out of tolerance, NaN included
  unsigned long long nan;  // pairs with a NaN in them: no error can be told
  // The element furthest above its tolerance, or nearest to it if none is; the first of equals.
  double worst_excess;  // infinite for NaN
  unsigned long long worst_index;
  double worst_value;
  double worst_reference;
};

TUNE_COMPARE_FUNCTION double ErrorOf(double value, double reference) {
  if (value == reference) return 0;  // equal infinities, too
  const double error = value - reference;
  return error < 0 ? -error : error;
}

// The error of 64-bit integers. It is at least 1 if they differ, although a double cannot
// distinguish neighbours above 2^53.
TUNE_COMPARE_FUNCTION double ErrorOfUnsigned(unsigned long long value,
                                             unsigned long long reference) {
  return static_cast<double>(value > reference ? value - reference : reference - value);
}
TUNE_COMPARE_FUNCTION double ErrorOfIntegers(long long value, long long reference) {
  // With the sign turned they are in the same order without one.
  constexpr unsigned long long kSign = 1ull << 63;
  return ErrorOfUnsigned(static_cast<unsigned long long>(value) ^ kSign,
                         static_cast<unsigned long long>(reference) ^ kSign);
}

TUNE_COMPARE_FUNCTION bool IsWorse(double excess, unsigned long long index,
                                   const CompareResult& than) {
  return than.count == 0 || excess > than.worst_excess ||
         (excess == than.worst_excess && index < than.worst_index);
}

TUNE_COMPARE_FUNCTION void AddElement(double value, double reference, double error,
                                      unsigned long long index, double rtol, double atol,
                                      CompareResult& sum) {
  const double infinity = TUNE_COMPARE_INFINITY;
  const double size = reference < 0 ? -reference : reference;
  double excess = infinity;
  if (error != error) {
    ++sum.nan;
    ++sum.bad;
  } else {
    if (error < infinity) {
      const double relative = rtol > 0 ? TUNE_COMPARE_MUL(rtol, size) : 0;
      excess = error - TUNE_COMPARE_ADD(atol, relative);
    }
    sum.bad += excess > 0 ? 1 : 0;
    if (error > sum.max_abs) sum.max_abs = error;
    // A division only where the maximum moves.
    if (size > 1e-30 && size < infinity && error > sum.max_rel * size) {
      sum.max_rel = error / size;
    }
    if (error > 0) AddSquare(error, sum.errors);
    if (size < infinity) AddSquare(size, sum.references);
  }
  if (IsWorse(excess, index, sum)) {
    sum.worst_excess = excess;
    sum.worst_index = index;
    sum.worst_value = value;
    sum.worst_reference = reference;
  }
  ++sum.count;
}

// Adds `more`, of other elements of the same arrays, to `sum`.
TUNE_COMPARE_FUNCTION void Merge(const CompareResult& more, CompareResult& sum) {
  if (more.count == 0) return;
  if (IsWorse(more.worst_excess, more.worst_index, sum)) {
    sum.worst_excess = more.worst_excess;
    sum.worst_index = more.worst_index;
    sum.worst_value = more.worst_value;
    sum.worst_reference = more.worst_reference;
  }
  sum.count += more.count;
  sum.max_abs = more.max_abs > sum.max_abs ? more.max_abs : sum.max_abs;
  sum.max_rel = more.max_rel > sum.max_rel ? more.max_rel : sum.max_rel;
  MergeSquares(more.errors, sum.errors);
  MergeSquares(more.references, sum.references);
  sum.bad += more.bad;
  sum.nan += more.nan;
}

}  // namespace tune
