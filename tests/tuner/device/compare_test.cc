// SPDX-License-Identifier: Apache-2.0
// Each pair of special values under each kind of tolerance, against the rule written out in long
// doubles. The GPU's own test holds its results against these functions.
#include "tuner/device/compare.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <vector>

#include "tuner/device/problem_checks.h"

namespace tune {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
const double kNan = std::nan("");
constexpr double kLargest = std::numeric_limits<double>::max();
constexpr double kDenormal = std::numeric_limits<double>::denorm_min();

const std::vector<double>& Specials() {
  static const auto* const kValues =
      new std::vector<double>{0.0,      -0.0,      1.0,       -1.0,       1.0 + 1e-9, 5.0,
                              1e200,    -1e200,    1e-200,    kDenormal,  -kDenormal, 7 * kDenormal,
                              kLargest, -kLargest, kInfinity, -kInfinity, kNan};
  return *kValues;
}

struct Pair {
  double value;
  double reference;
};

CompareResult CompareAll(const std::vector<Pair>& pairs, const TolerancePlan& tolerance) {
  CompareResult sum = {};
  for (size_t i = 0; i < pairs.size(); ++i) {
    AddElement(pairs[i].value, pairs[i].reference, ErrorOf(pairs[i].value, pairs[i].reference), i,
               tolerance.rtol, tolerance.atol, sum);
  }
  return sum;
}

Verdict Judge(const std::vector<Pair>& pairs, const TolerancePlan& tolerance) {
  Verdict verdict;
  OutputJudge judge;
  judge.Add({.name = "y", .dtype = DType::kF64, .count = static_cast<int64_t>(pairs.size())},
            tolerance, CompareAll(pairs, tolerance), verdict);
  return verdict;
}

bool IsRight(const Pair& pair, const TolerancePlan& tolerance) {
  if (std::isnan(pair.value) || std::isnan(pair.reference)) return false;
  if (pair.value == pair.reference) return true;
  if (std::isinf(pair.value) || std::isinf(pair.reference)) return false;
  const long double error =
      fabsl(static_cast<long double>(pair.value) - static_cast<long double>(pair.reference));
  if (error > kLargest) return false;
  return error <= tolerance.atol + static_cast<long double>(tolerance.rtol) *
                                       fabsl(static_cast<long double>(pair.reference));
}

// Not a number if no norm can be told.
long double NormOf(const std::vector<Pair>& pairs) {
  long double errors = 0;
  long double references = 0;
  for (const Pair& pair : pairs) {
    if (std::isnan(pair.value) || std::isnan(pair.reference)) continue;
    if (!std::isinf(pair.reference)) references += powl(pair.reference, 2);
    if (pair.value == pair.reference) continue;
    const double error = pair.value - pair.reference;
    errors += powl(error, 2);
  }
  if (errors == 0) return 0;
  return references == 0 ? kInfinity : sqrtl(errors) / sqrtl(references);
}

TEST(Compare, EveryPairOfSpecialValuesIsJudgedByTheRule) {
  const TolerancePlan kTolerances[] = {
      {}, {.rtol = 1e-6}, {.atol = 1e-300}, {.rtol = 1, .atol = 1e-3}};
  for (const TolerancePlan& tolerance : kTolerances) {
    for (const double value : Specials()) {
      for (const double reference : Specials()) {
        const Pair pair = {value, reference};
        const bool right = IsRight(pair, tolerance);
        const CompareResult result = CompareAll({{2, 2}, pair, {3, 3}}, tolerance);
        EXPECT_EQ(result.bad == 0, right) << value << " beside " << reference;
        EXPECT_EQ(result.nan, std::isnan(value) || std::isnan(reference) ? 1u : 0u);
        EXPECT_EQ(Judge({{2, 2}, pair, {3, 3}}, tolerance).right, right)
            << value << " beside " << reference << ", rtol " << tolerance.rtol;
        if (right) continue;
        EXPECT_EQ(result.worst_index, 1u) << value << " beside " << reference;
        EXPECT_FALSE(std::isnan(result.worst_excess));
        EXPECT_FALSE(std::isnan(result.max_abs) || std::isnan(result.max_rel));
      }
    }
  }
}

TEST(Compare, EveryPairOfSpecialValuesIsJudgedByTheNorm) {
  // A tolerance of a norm alone leaves each element as far away as it is.
  const TolerancePlan tolerance = {.atol = kInfinity, .relative_norm = 1e-3};
  for (const double value : Specials()) {
    for (const double reference : Specials()) {
      for (const double scale : {0.0, 1e-200, 1.0, 1e150, 1e300}) {
        const std::vector<Pair> pairs = {{scale, scale}, {value, reference}, {-scale, -scale}};
        const bool infinite = value != reference && (std::isinf(value) || std::isinf(reference));
        const bool right = !std::isnan(value) && !std::isnan(reference) && !infinite &&
                           NormOf(pairs) <= tolerance.relative_norm;
        const double norm = RelativeNorm(CompareAll(pairs, tolerance));
        EXPECT_EQ(Judge(pairs, tolerance).right, right)
            << value << " beside " << reference << " among " << scale << ": norm " << norm
            << ", by long doubles " << NormOf(pairs);
        EXPECT_FALSE(std::isnan(norm));
      }
    }
  }
}

TEST(Compare, AnEqualInfinityDoesNotHideOtherErrorsFromTheNorm) {
  const TolerancePlan tolerance = {.atol = kInfinity, .relative_norm = 1e-3};
  EXPECT_TRUE(Judge({{-kInfinity, -kInfinity}, {1, 1}}, tolerance).right);
  EXPECT_FALSE(Judge({{-kInfinity, -kInfinity}, {2, 1}}, tolerance).right);
}

TEST(Compare, AShareOfMismatchesTakesWrongInfinitiesButNoNan) {
  const TolerancePlan tolerance = {.atol = 0.1, .mismatches = 0.5};
  EXPECT_TRUE(Judge({{5, -kInfinity}, {1, 1}}, tolerance).right);
  EXPECT_FALSE(Judge({{5, -kInfinity}, {5, 1}}, tolerance).right);
  EXPECT_FALSE(Judge({{kNan, 1}, {1, 1}, {1, 1}}, tolerance).right);
}

TEST(Compare, IntegersDifferExactlyBeyondDoubles) {
  constexpr int64_t kLarge = (int64_t{1} << 53) + 1;
  EXPECT_EQ(ErrorOfIntegers(kLarge, kLarge), 0);
  EXPECT_EQ(ErrorOfIntegers(kLarge, kLarge - 1), 1);
  EXPECT_EQ(
      ErrorOfIntegers(std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()),
      0x1p64);
}

TEST(Compare, MergingPartsIsComparingTheWhole) {
  const TolerancePlan tolerance = {.rtol = 1e-3};
  std::vector<Pair> pairs;
  for (int i = 0; i < 64; ++i) pairs.push_back({i + (i % 7 == 0 ? 0.5 : 0), 1.0 * i});
  const CompareResult whole = CompareAll(pairs, tolerance);
  CompareResult merged = {};
  for (size_t i = pairs.size(); i-- > 0;) {
    CompareResult part = {};
    AddElement(pairs[i].value, pairs[i].reference, ErrorOf(pairs[i].value, pairs[i].reference), i,
               tolerance.rtol, tolerance.atol, part);
    Merge(part, merged);
  }
  EXPECT_EQ(merged.bad, whole.bad);
  EXPECT_EQ(merged.max_abs, whole.max_abs);
  EXPECT_EQ(merged.worst_index, whole.worst_index);
  EXPECT_DOUBLE_EQ(RelativeNorm(merged), RelativeNorm(whole));
}

}  // namespace
}  // namespace tune
