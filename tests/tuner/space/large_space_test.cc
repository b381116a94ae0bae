// SPDX-License-Identifier: Apache-2.0
// Spaces that nobody could list: what can be counted is, exactly; what cannot is estimated, sampled
// and searched all the same.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <set>

#include "absl/strings/str_cat.h"
#include "tuner/space/space.h"

namespace tune {
namespace {

SpaceParam Numbers(const std::string& name, int64_t first, int64_t last) {
  SpaceParam param = {name, {}};
  for (int64_t i = first; i <= last; ++i) param.values.push_back(i);
  return param;
}

SpaceConstraint ConstraintOf(const std::string& text) {
  return {Expression::Parse(text).value(), absl::StrCat("'", text, "'")};
}

// Choose(n, k), exactly.
uint64_t Choose(uint64_t n, uint64_t k) {
  uint64_t result = 1;
  for (uint64_t i = 1; i <= k; ++i) result = result * (n - k + i) / i;
  return result;
}

TEST(LargeSpace, IsCountedExactlyWhereAssignmentsGoOnAlike) {
  // Fifteen numbers from 0 to 9 that add up to 30 at most: 10^15 combinations.
  SpaceDefinition definition;
  std::string sum = "0";
  for (int i = 0; i < 15; ++i) {
    definition.params.push_back(Numbers(absl::StrCat("P", i), 0, 9));
    absl::StrAppend(&sum, " + P", i);
  }
  definition.constraints.push_back(ConstraintOf(absl::StrCat(sum, " == 30")));
  const Space space = Space::Build(definition).value();
  // By inclusion and exclusion over the numbers that are 10 or more.
  const uint64_t expected =
      Choose(44, 14) - 15 * Choose(34, 14) + 105 * Choose(24, 14) - 455 * Choose(14, 14);
  EXPECT_TRUE(space.exact());
  EXPECT_EQ(space.size(), expected);
  EXPECT_LT(space.bytes(), 100000);
  std::mt19937_64 random(1);
  for (int i = 0; i < 1000; ++i) {
    const uint64_t index = space.Sample([&] { return random(); });
    const std::vector<uint16_t> digits = space.DigitsAt(index);
    int total = 0;
    for (uint16_t digit : digits) total += digit;
    ASSERT_EQ(total, 30);
    ASSERT_EQ(space.IndexOfDigits(digits), index);
  }
}

TEST(LargeSpace, SamplesEveryConfigAlikeOften) {
  const Space space =
      Space::Build({.params = {Numbers("A", 1, 8), Numbers("B", 1, 8), Numbers("C", 1, 3)},
                    .constraints = {ConstraintOf("A % B == 0")}})
          .value();
  ASSERT_EQ(space.size(), 20 * 3);
  std::mt19937_64 random(7);
  std::vector<int> hits(space.size(), 0);
  constexpr int kEach = 500;
  for (uint64_t i = 0; i < space.size() * kEach; ++i)
    ++hits[space.Sample([&] { return random(); })];
  double chi_squared = 0;
  for (int hit : hits) chi_squared += (hit - kEach) * (hit - kEach) / double{kEach};
  EXPECT_LT(chi_squared, 59 + 5 * std::sqrt(2 * 59));  // mean 59, five standard deviations
}

// A constraint under which no two assignments go on alike, over 16^10 combinations.
SpaceDefinition Scrambled(int64_t modulus = 1000003, const std::string& condition = "% 8 == 0") {
  SpaceDefinition definition;
  std::string mixed = "1";
  for (int i = 0; i < 10; ++i) {
    definition.params.push_back(Numbers(absl::StrCat("P", i), 1, 16));
    mixed = absl::StrCat("(", mixed, " * 40503 + P", i, " * 7919) % ", modulus);
  }
  definition.constraints.push_back(ConstraintOf(absl::StrCat(mixed, " ", condition)));
  definition.constraints.push_back(ConstraintOf("P0 % 2 == 0"));
  return definition;
}

TEST(LargeSpace, IsEstimatedSampledAndSearchedWhereItCannotBeCounted) {
  const Space space = Space::Build(Scrambled()).value();
  EXPECT_FALSE(space.exact());
  const double expected = std::pow(16.0, 10) / 2 / 8;
  EXPECT_GT(space.valid_count_error(), 0);
  EXPECT_LT(space.valid_count_error(), 0.05);
  EXPECT_NEAR(space.valid_count() / expected, 1, 5 * space.valid_count_error());
  std::mt19937_64 random(1);
  std::vector<uint64_t> neighbours;
  std::set<uint64_t> seen;
  for (int i = 0; i < 20; ++i) {
    const uint64_t index = space.Sample([&] { return random(); });
    EXPECT_TRUE(seen.insert(index).second);
    ASSERT_TRUE(space.Contains(index));
    ASSERT_EQ(space.IndexOf(space.At(index)), index);
    space.Neighbours(index, Neighbourhood::kHamming, neighbours);
    for (uint64_t neighbour : neighbours) ASSERT_TRUE(space.Contains(neighbour));
  }
  // About seven of eight indices are no config.
  int contained = 0;
  for (uint64_t index = 0; index < 1000; ++index) {
    contained += space.Contains(index) ? 1 : 0;
    if (!space.Contains(index)) {
      EXPECT_EQ(space.IndexOfDigits(space.DigitsAt(index)), std::nullopt);
    }
  }
  EXPECT_NEAR(contained, 125, 60);
}

TEST(LargeSpace, HasAConfigThatIsValid) {
  const Space space = Space::Build(Scrambled(1000003, "% 64 == 5")).value();
  ASSERT_FALSE(space.exact());
  ASSERT_FALSE(space.Contains(0)) << "or the test tells nothing";
  EXPECT_TRUE(space.Contains(space.SomeValid()));
  const Space exact = Space::Build({.params = {Numbers("A", 1, 8)}}).value();
  EXPECT_EQ(exact.SomeValid(), 0u);
}

TEST(LargeSpace, IsNotFoundWithASmallEffort) {
  const SpaceEffort small = {.size = SpaceEffort::Size::kSmall};
  EXPECT_TRUE(absl::IsAborted(Space::Build(Scrambled(), small).status()));
  const SpaceDefinition few = {.params = {Numbers("A", 1, 8), Numbers("B", 1, 8)},
                               .constraints = {ConstraintOf("A % B == 0")}};
  EXPECT_EQ(Space::Build(few, small)->size(), 20u);
  // Why nothing is left may take long to find out.
  const SpaceDefinition none = {.params = {Numbers("A", 1, 8)},
                                .constraints = {ConstraintOf("A > 8")}};
  EXPECT_TRUE(absl::IsAborted(Space::Build(none, small).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(Space::Build(none).status()));
}

// Many values, and constraints that leave much: the most that a diagram may take.
SpaceDefinition Wide(int params, int64_t values, const std::string& constraint) {
  SpaceDefinition definition;
  for (int i = 0; i < params; ++i) {
    definition.params.push_back(Numbers(absl::StrCat("P", i), 1, values));
  }
  definition.constraints.push_back(ConstraintOf(constraint));
  return definition;
}

TEST(LargeSpace, AsksOftenWhetherToStop) {
  const SpaceDefinition definitions[] = {
      Scrambled(), Wide(8, 300, "P0 + P1 + P2 + P3 + P4 + P5 + P6 + P7 < 600")};
  for (const SpaceDefinition& definition : definitions) {
    int asked = 0;
    const auto count = [&] {
      ++asked;
      return false;
    };
    (void)Space::Build(definition, {.stopped = count});
    EXPECT_GT(asked, 50);
    // Wherever it is stopped, it stops there.
    for (const int last : {1, asked / 2, asked - 1}) {
      int again = 0;
      const absl::Status status =
          Space::Build(definition, {.stopped = [&] { return ++again >= last; }}).status();
      EXPECT_TRUE(absl::IsCancelled(status)) << last << " of " << asked << ": " << status;
      EXPECT_LE(again, last + 8) << "of " << asked;
    }
  }
}

TEST(LargeSpace, FailsIfNoValidConfigIsFound) {
  const absl::Status status = Space::Build(Scrambled(1'000'000'007, "== 1")).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()),
              ::testing::StartsWith("the space is too large to be searched, and none of "));
}

}  // namespace
}  // namespace tune
