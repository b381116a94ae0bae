// SPDX-License-Identifier: Apache-2.0
#include "tuner/space/space.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "absl/strings/str_cat.h"

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
       "no config is valid: constraint 'A + B > 6' rejects every one"},
      {{"A > 1", "B < 3", "A + B > 5", "A > 7"},
       "no config is valid: constraints 'B < 3' and 'A + B > 5' reject every one together"},
      {{"A < B", "B < C", "C < A"},
       "no config is valid: constraints 'A < B', 'B < C' and 'C < A' reject every one together"},
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

TEST(Space, RefusesInvalidDefinitionsWithTheReason) {
  SpaceDefinition definition = {.params = {Integers("A", {1, 2}), Integers("A", {1})}};
  EXPECT_EQ(Space::Build(definition).status().message(), "two params are called 'A'");
  EXPECT_EQ(Space::Build({.params = {Integers("E", {})}}).status().message(),
            "param 'E' has 0 values; 1 to 65536 will do");
  definition.params.clear();
  for (int i = 0; i < 64; ++i) definition.params.push_back(Integers(absl::StrCat("P", i), {1, 2}));
  EXPECT_EQ(Space::Build(definition).status().message(),
            "there are more than 2^62 valid configs: give the params fewer values");
}

TEST(Space, IsMadeOfRows) {
  const std::vector<SpaceParam> params = {Integers("A", {4, 2}), Integers("B", {1, 2, 3})};
  const Space space = Space::FromRows(params, {0, 0, 0, 2, 1, 0, 1, 1}).value();
  EXPECT_THAT(Texts(space), ElementsAre("A=4 B=1", "A=4 B=3", "A=2 B=1", "A=2 B=2"));
  for (uint64_t i = 0; i < space.size(); ++i) EXPECT_EQ(space.IndexOf(space.At(i)), i);
  EXPECT_EQ(space.IndexOfDigits({0, 1}), std::nullopt);
  EXPECT_EQ(Space::FromRows(params, {0, 0, 0, 0}).status().message(),
            "row 1 is not after the one before it");
  EXPECT_EQ(Space::FromRows(params, {0, 3}).status().message(), "param 'B' has no digit 3");
  EXPECT_EQ(Space::FromRows(params, {0}).status().message(), "1 digits are no rows of 2 params");
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

// Do two configs differ in one param only, and if `adjacent`, by one step?
bool AreNeighbours(const std::vector<uint16_t>& a, const std::vector<uint16_t>& b, bool adjacent) {
  int different = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    different += a[i] != b[i] ? 1 : 0;
    if (adjacent && std::abs(a[i] - b[i]) > 1) return false;
  }
  return different == 1;
}

// Everything a space says, against the texts of its configs and what follows from the digits.
void CheckAgainst(std::vector<std::string> expected, const Space& space) {
  ASSERT_EQ(space.size(), expected.size());
  std::vector<std::string> texts = Texts(space);
  std::sort(texts.begin(), texts.end());
  std::sort(expected.begin(), expected.end());
  ASSERT_EQ(texts, expected);
  const size_t width = space.params().size();
  std::vector<uint16_t> rows(space.size() * width);
  space.DigitsOf(0, space.size(), absl::MakeSpan(rows));
  std::vector<std::vector<uint16_t>> digits;
  std::vector<std::vector<uint64_t>> counts(width);
  for (size_t i = 0; i < width; ++i) counts[i].resize(space.radix(i));
  for (uint64_t i = 0; i < space.size(); ++i) {
    digits.push_back(space.DigitsAt(i));
    ASSERT_TRUE(std::equal(digits[i].begin(), digits[i].end(), rows.begin() + i * width));
    ASSERT_EQ(space.IndexOfDigits(digits[i]), i);
    ASSERT_EQ(space.IndexOf(space.At(i)), i);
    for (size_t j = 0; j < width; ++j) ++counts[j][digits[i][j]];
  }
  for (size_t i = 0; i < width; ++i) ASSERT_EQ(space.ValueCounts(i), counts[i]);
  for (uint64_t i = 0; i < space.size(); i += 1 + space.size() / 8) {
    for (Neighbourhood kind : {Neighbourhood::kHamming, Neighbourhood::kAdjacent}) {
      std::vector<uint64_t> neighbours;
      space.Neighbours(i, kind, neighbours);
      std::sort(neighbours.begin(), neighbours.end());
      std::vector<uint64_t> all;
      for (uint64_t j = 0; j < space.size(); ++j) {
        if (AreNeighbours(digits[i], digits[j], kind == Neighbourhood::kAdjacent)) all.push_back(j);
      }
      ASSERT_EQ(neighbours, all);
    }
  }
}

// Random small spaces with random constraints against plain enumeration of the product.
class RandomSpace {
 public:
  explicit RandomSpace(uint32_t seed) : random_(seed) {
    const int param_count = Pick(1, 6);
    for (int i = 0; i < param_count; ++i) {
      SpaceParam param = {absl::StrCat("P", i), {}};
      const int value_count = Pick(1, 5);
      const int kind = Pick(0, 9);
      for (int j = 0; j < value_count; ++j) {
        const int64_t integer = j * 4 + Pick(0, 3) - (kind == 8 ? 6 : 0);
        const bool is_real = kind == 9 || (kind == 7 && j % 2 == 1);
        param.values.push_back(is_real ? Value(static_cast<double>(integer) / 2) : Value(integer));
      }
      if (kind == 6) param.values = {true, false};
      definition_.params.push_back(param);
    }
    // Adds a param of text, and one that terms cannot represent.
    if (Pick(0, 3) == 0) definition_.params.push_back({"T", {std::string("x"), std::string("y")}});
    if (Pick(0, 5) == 0) definition_.params.push_back({"M", {std::string("x"), int64_t{2}}});
    definition_.constants.Set("K", int64_t{Pick(0, 6)});
    const int let_count = Pick(0, 2);
    for (int i = 0; i < let_count; ++i) {
      definition_.lets.push_back({absl::StrCat("L", i), Parse(Number(2))});
      ++known_lets_;
    }
    const int constraint_count = Pick(0, 5);
    for (int i = 0; i < constraint_count; ++i) {
      definition_.constraints.push_back(Constraint(Condition(2)));
    }
  }

  const SpaceDefinition& definition() const { return definition_; }

  // Returns nullopt if a constraint fails to evaluate on a config that no constraint rejects.
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
    const int kind = Pick(0, depth > 0 ? 11 : 2);
    if (kind == 0) return absl::StrCat(Pick(0, 6));
    if (kind == 1 && known_lets_ > 0) return absl::StrCat("L", Pick(0, known_lets_ - 1));
    if (kind == 1) return "K";
    if (kind == 2)
      return definition_.params[Pick(0, static_cast<int>(definition_.params.size()) - 1)].name;
    const char* const kFunctions[] = {"min(", "max(", "ceil_div("};
    const char* const kOfOne[] = {"abs(", "int(", "round(", "floor(", "-("};
    if (kind == 3) {
      return absl::StrCat(kFunctions[Pick(0, 2)], Number(depth - 1), ", ", Number(depth - 1), ")");
    }
    if (kind == 4) return absl::StrCat(kOfOne[Pick(0, 4)], Number(depth - 1), ")");
    if (kind == 5) {
      return absl::StrCat("(", Number(depth - 1), " if ", Condition(0), " else ", Number(depth - 1),
                          ")");
    }
    const char* const kOps[] = {" + ", " - ", " * ",   " * ",  " // ", " % ",
                                " / ", " + ", " and ", " or ", " & ",  " ** "};
    return absl::StrCat("(", Number(depth - 1), kOps[Pick(0, 11)], Number(depth - 1), ")");
  }

  std::string Condition(int depth) {
    const int kind = Pick(0, depth > 0 ? 7 : 2);
    if (kind == 7 && definition_.params.back().name == "T") return "T == 'x'";
    if (kind == 7 && definition_.params.back().name == "M") return "M != 2";
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
  for (uint32_t seed = 0; seed < 300; ++seed) {
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
                  ::testing::StartsWith("no config is valid: constraint"))
          << seed;
      continue;
    }
    ASSERT_TRUE(space.ok()) << seed << ": " << space.status();
    ASSERT_NO_FATAL_FAILURE(CheckAgainst(*expected, *space)) << seed;
    ++compared;
  }
  EXPECT_GT(compared, 75);
  EXPECT_GT(empty, 20);
  EXPECT_GT(failed, 10);
}

}  // namespace
}  // namespace tune
