// SPDX-License-Identifier: Apache-2.0
#include "tuner/space/space.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "absl/strings/str_cat.h"
#include "tuner/space/solver.h"

namespace tune {
namespace {

using ::testing::ElementsAre;

Expression Parse(const std::string& text) { return Expression::Parse(text).value(); }

SpaceParam Integers(const std::string& name, std::vector<int64_t> values) {
  return {name, std::vector<Value>(values.begin(), values.end())};
}

SpaceConstraint Constraint(const std::string& text) {
  return {Parse(text), absl::StrCat("'", text, "'")};
}

std::vector<std::string> Texts(const Space& space) {
  std::vector<std::string> texts;
  for (uint64_t i = 0; i < space.size(); ++i) texts.push_back(ToText(space.At(i)));
  return texts;
}

TEST(Space, ListsConfigsInOrderLastParamFastest) {
  const Space space =
      Space::Build({.params = {Integers("A", {4, 2}),
                               Integers("B", {1, 2, 3}),
                               {"C", {std::string("x"), true}}},
                    .constraints = {Constraint("A % B == 0 and (C == 'x' or A == 2)")}})
          .value();
  EXPECT_THAT(Texts(space), ElementsAre("A=4 B=1 C=x", "A=4 B=2 C=x", "A=2 B=1 C=x",
                                        "A=2 B=1 C=True", "A=2 B=2 C=x", "A=2 B=2 C=True"));
  EXPECT_THAT(space.DigitsAt(3), ElementsAre(1, 0, 1));
  EXPECT_EQ(space.radix(1), 3);
  EXPECT_EQ(space.IndexOfDigits({1, 0, 1}), 3);
  EXPECT_EQ(space.IndexOfDigits({0, 0, 1}), std::nullopt);
  EXPECT_EQ(space.IndexOfDigits({0, 0, 2}), std::nullopt);
  EXPECT_EQ(space.IndexOfDigits({0, 0}), std::nullopt);
  EXPECT_EQ(space.IndexOf(space.At(4)), 4);
  std::vector<uint64_t> neighbours = {99};
  space.Neighbours(0, Neighbourhood::kHamming, neighbours);
  EXPECT_THAT(neighbours, ElementsAre(2, 1));
  space.Neighbours(2, Neighbourhood::kAdjacent, neighbours);
  EXPECT_THAT(neighbours, ElementsAre(0, 4, 3));
  Config other = space.At(0);
  other.entries[1].second = int64_t{3};  // 4 % 3 != 0
  EXPECT_EQ(space.IndexOf(other), std::nullopt);
  other.entries[1].second = int64_t{99};
  EXPECT_EQ(space.IndexOf(other), std::nullopt);
  other.entries.pop_back();
  EXPECT_EQ(space.IndexOf(other), std::nullopt);
}

TEST(Space, HasOneConfigWithoutParams) {
  const Space space = Space::Build({}).value();
  EXPECT_EQ(space.size(), 1);
  EXPECT_EQ(ToText(space.At(0)), "");
  EXPECT_EQ(space.IndexOf(Config()), 0);
}

TEST(Space, UsesLetsAndConstants) {
  Scope constants;
  constants.Set("cols", int64_t{48});
  const Space space =
      Space::Build({.params = {Integers("T", {1, 2, 4, 5, 8})},
                    .lets = {{"chunks", Parse("cols // T")},
                             {"name", Parse("'n' + ('big' if chunks > 10 else 's')")},
                             {"limit", Parse("cols - 40")}},
                    .constraints = {Constraint("chunks * T == cols"), Constraint("name != 'nbig'"),
                                    Constraint("T <= limit")},
                    .constants = constants})
          .value();
  EXPECT_THAT(Texts(space), ElementsAre("T=8"));
}

TEST(Space, AConstraintThatFailsWhereAnotherRejectsIsNoError) {
  // With B = 0 the division fails, but those configs are rejected anyway, whatever the order.
  for (const auto& texts :
       std::vector<std::vector<std::string>>{{"A % B == 0", "B != 0"},
                                             {"B != 0", "A % B == 0"},
                                             {"B != 0 and A % B == 0"},
                                             {"q * B == A", "B != 0"},
                                             {"A // B > 0", "A > B", "B > 0", "A % B == 0"}}) {
    SpaceDefinition definition = {.params = {Integers("A", {3, 4}), Integers("B", {0, 1, 2})},
                                  .lets = {{"q", Parse("A // B")}}};
    for (const std::string& text : texts) definition.constraints.push_back(Constraint(text));
    const absl::StatusOr<Space> space = Space::Build(definition);
    ASSERT_TRUE(space.ok()) << space.status();
    EXPECT_THAT(Texts(*space), ElementsAre("A=3 B=1", "A=4 B=1", "A=4 B=2"));
  }
}

struct ErrorCase {
  std::vector<std::string> constraints;
  const char* message;
};

TEST(Space, NamesTheConstraintAtFault) {
  const ErrorCase cases[] = {
      {{"A > 5"}, "no config is valid: constraint 'A > 5' rejects every one"},
      {{"1 > 2", "A > 5"}, "no config is valid: constraint '1 > 2' rejects every one"},
      {{"A > 1", "B < 3", "A + B > 6", "A > 7"},
       "no config is valid: constraint 'A + B > 6' rejects every one that the constraints before "
       "it allow"},
      {{"A < B", "B < C", "C < A"},
       "no config is valid: constraint 'C < A' rejects every one that the constraints before it "
       "allow"},
      {{"A % (B - 2) == 0"},
       "constraint 'A % (B - 2) == 0' cannot be evaluated for A=1 B=2: division by zero at column "
       "3 of 'A % (B - 2) == 0'"},
      {{"half < 2"},
       "constraint 'half < 2' cannot be evaluated for B=2: division by zero at column 3 of "
       "'1 / (B - 2)'"},
      {{"A > D"}, "unknown name 'D' in 'A > D'"},
  };
  for (const ErrorCase& c : cases) {
    SpaceDefinition definition = {
        .params = {Integers("A", {1, 2, 3}), Integers("B", {2, 3, 1}), Integers("C", {1, 2, 3})},
        .lets = {{"half", Parse("1 / (B - 2)")}}};
    for (const std::string& text : c.constraints)
      definition.constraints.push_back(Constraint(text));
    const absl::Status status = Space::Build(definition).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(std::string(status.message()), c.message);
  }
}

TEST(Space, HasLimits) {
  SpaceDefinition definition;
  for (int i = 0; i < 5; ++i) {
    definition.params.push_back(Integers(absl::StrCat("P", i), {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  }
  EXPECT_EQ(Space::Build(definition, 100000)->size(), 100000);
  EXPECT_EQ(
      Space::Build(definition, 99999).status().message(),
      "there are more than 99999 valid configs: add constraints or give the params fewer values");
  definition.constraints.push_back(Constraint("P0 + P1 + P2 + P3 + P4 > 0"));
  EXPECT_EQ(Space::Build(definition, 99999)->size(), 99999);
  EXPECT_EQ(Space::Build(definition, 10000).status().code(), absl::StatusCode::kResourceExhausted);
  definition.params.push_back(Integers("P0", {1}));
  EXPECT_EQ(Space::Build(definition).status().message(), "two params are called 'P0'");
  EXPECT_EQ(Space::Build({.params = {Integers("E", {})}}).status().message(),
            "param 'E' has 0 values; 1 to 65536 will do");
}

TEST(Solve, StopsWhenItTakesTooLong) {
  SpaceDefinition definition;
  for (int i = 0; i < 4; ++i) {
    definition.params.push_back(Integers(absl::StrCat("P", i), {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  }
  definition.constraints.push_back(Constraint("P0 + P1 + P2 + P3 == 36"));
  const CompiledSpace compiled = CompileSpace(definition).value();
  EXPECT_EQ(std::string(Solve(compiled, 1, {.rows = 10, .steps = 10000}).status().message()),
            "finding the valid configs takes more than 10000 steps: give the params fewer values, "
            "or add constraints over fewer params each");
  EXPECT_EQ(Solve(compiled, 1, {.rows = 10, .steps = 1000000})->at(0).count, 1);
}

// 4e12 combinations, few of them valid: nobody could enumerate the product in a test.
TEST(Space, FindsTheFewValidConfigsOfAHugeProduct) {
  SpaceDefinition definition;
  std::vector<int64_t> values;
  for (int64_t i = 1; i <= 128; ++i) values.push_back(i);
  for (const char* name : {"A", "B", "C", "D", "E", "F"}) {
    definition.params.push_back(Integers(name, values));
  }
  for (const char* text :
       {"A * F == 127", "B == 2 * A", "C == B + D and D == A + 1", "E % 64 == F % 64"}) {
    definition.constraints.push_back(Constraint(text));
  }
  const Space space = Space::Build(definition).value();
  EXPECT_THAT(Texts(space),
              ElementsAre("A=1 B=2 C=4 D=2 E=63 F=127", "A=1 B=2 C=4 D=2 E=127 F=127"));
}

// Random small spaces with random constraints against plain enumeration of the product.
class RandomSpace {
 public:
  explicit RandomSpace(uint32_t seed) : random_(seed) {
    const int param_count = Pick(1, 5);
    for (int i = 0; i < param_count; ++i) {
      SpaceParam param = {absl::StrCat("P", i), {}};
      const int value_count = Pick(1, 5);
      for (int j = 0; j < value_count; ++j) param.values.push_back(int64_t{j * Pick(1, 3) + j});
      definition_.params.push_back(param);
    }
    definition_.constants.Set("K", int64_t{Pick(0, 6)});
    const int let_count = Pick(0, 2);
    for (int i = 0; i < let_count; ++i) {
      definition_.lets.push_back({absl::StrCat("L", i), Parse(Number(2))});
      ++known_lets_;
    }
    const int constraint_count = Pick(0, 4);
    for (int i = 0; i < constraint_count; ++i) {
      definition_.constraints.push_back(Constraint(Condition(2)));
    }
  }

  const SpaceDefinition& definition() const { return definition_; }

  // Nothing if a config that no constraint rejects has one that cannot be evaluated.
  std::optional<std::vector<std::string>> BruteForce() const {
    std::vector<std::string> valid;
    std::vector<size_t> digits(definition_.params.size(), 0);
    while (true) {
      Scope scope = definition_.constants;
      Config config;
      for (size_t i = 0; i < digits.size(); ++i) {
        const SpaceParam& param = definition_.params[i];
        config.entries.emplace_back(param.name, param.values[digits[i]]);
        scope.Set(param.name, param.values[digits[i]]);
      }
      const std::optional<bool> holds = Holds(scope);
      if (!holds.has_value()) return std::nullopt;
      if (*holds) valid.push_back(ToText(config));
      size_t at = digits.size();
      while (at > 0 && ++digits[at - 1] == definition_.params[at - 1].values.size()) {
        digits[--at] = 0;
      }
      if (at == 0) return valid;
    }
  }

 private:
  int Pick(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }

  std::string Number(int depth) {
    const int kind = Pick(0, depth > 0 ? 7 : 2);
    if (kind == 0) return absl::StrCat(Pick(0, 6));
    if (kind == 1 && known_lets_ > 0) return absl::StrCat("L", Pick(0, known_lets_ - 1));
    if (kind == 1) return "K";
    if (kind == 2) return definition_.params[Pick(0, definition_.params.size() - 1)].name;
    if (kind == 3) return absl::StrCat("min(", Number(depth - 1), ", ", Number(depth - 1), ")");
    const char* const kOps[] = {" + ", " - ", " * ", " // ", " % ", " / "};
    return absl::StrCat("(", Number(depth - 1), kOps[Pick(0, 5)], Number(depth - 1), ")");
  }

  std::string Condition(int depth) {
    const int kind = Pick(0, depth > 0 ? 6 : 2);
    const char* const kOps[] = {" < ", " <= ", " != ", " >= ", " == "};
    if (kind == 0) {
      return absl::StrCat(Number(0), kOps[Pick(0, 2)], Number(2), kOps[Pick(0, 2)], Number(1));
    }
    if (kind == 1) return absl::StrCat(Number(2), " in [", Number(0), ", 1, ", Number(1), "]");
    if (kind == 2) return absl::StrCat(Number(2), kOps[Pick(0, 4)], Number(1));
    if (kind == 3) return absl::StrCat("not (", Condition(depth - 1), ")");
    return absl::StrCat("(", Condition(depth - 1), kind == 4 ? " or " : " and ",
                        Condition(depth - 1), ")");
  }

  // Conjuncts are constraints of their own: `x != 0 and 1 / x > y` is false for x == 0 either way.
  std::optional<bool> Holds(Scope& scope) const {
    for (const SpaceLet& let : definition_.lets) {
      const absl::StatusOr<Value> value = let.expression.Evaluate(scope);
      if (value.ok()) scope.Set(let.name, *value);
    }
    bool failed = false;
    for (const SpaceConstraint& constraint : definition_.constraints) {
      const absl::StatusOr<bool> holds = constraint.expression.EvaluateBoolean(scope);
      if (!holds.ok()) {
        failed = true;
      } else if (!*holds) {
        return false;
      }
    }
    if (failed) return std::nullopt;
    return true;
  }

  std::mt19937 random_;
  SpaceDefinition definition_;
  int known_lets_ = 0;
};

TEST(Space, AgreesWithEnumeration) {
  int compared = 0;
  int empty = 0;
  int failed = 0;
  for (uint32_t seed = 0; seed < 600; ++seed) {
    const RandomSpace random(seed);
    const std::optional<std::vector<std::string>> expected = random.BruteForce();
    const absl::StatusOr<Space> space = Space::Build(random.definition());
    if (!expected.has_value()) {
      // A failing conjunct may stand beside a false one, which brute force does not split.
      failed += space.ok() ? 0 : 1;
      continue;
    }
    if (expected->empty()) {
      ++empty;
      ASSERT_FALSE(space.ok()) << seed;
      ASSERT_THAT(std::string(space.status().message()),
                  ::testing::StartsWith("no config is valid: constraint '"))
          << seed;
      continue;
    }
    ASSERT_TRUE(space.ok()) << seed << ": " << space.status();
    ASSERT_EQ(Texts(*space), *expected) << seed;
    ++compared;
  }
  EXPECT_GT(compared, 150);
  EXPECT_GT(empty, 50);
  EXPECT_GT(failed, 10);
}

}  // namespace
}  // namespace tune
