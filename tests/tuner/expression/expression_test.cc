// SPDX-License-Identifier: Apache-2.0
#include "tuner/expression/expression.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "tests/docs_table.h"

namespace tune {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Scope TestScope() {
  Scope scope;
  scope.Set("a", int64_t{7});
  scope.Set("b", int64_t{-2});
  scope.Set("x", 0.5);
  scope.Set("dtype", std::string("bf16"));
  scope.Set("causal", true);
  scope.Set("zero", int64_t{0});
  return scope;
}

// The value as text, or the error.
std::string Eval(const std::string& text) {
  absl::StatusOr<Expression> expression = Expression::Parse(text);
  if (!expression.ok()) return std::string(expression.status().message());
  absl::StatusOr<Value> value = expression->Evaluate(TestScope());
  return value.ok() ? ToText(*value) : std::string(value.status().message());
}

std::vector<Value> EvalList(const std::string& text) {
  absl::StatusOr<std::vector<Value>> values =
      Expression::Parse(text).value().EvaluateList(TestScope());
  return values.ok() ? *values : std::vector<Value>{std::string(values.status().message())};
}

struct Case {
  const char* text;
  const char* result;
};

// Every expected value is what Python 3 prints for the same expression and names.
TEST(Expression, AgreesWithPython) {
  const Case cases[] = {
      {"1 + 2 * 3", "7"},
      {"(1 + 2) * 3", "9"},
      {"7 / 2", "3.5"},
      {"8 / 2", "4.0"},
      {"a // b", "-4"},
      {"-7 // 2", "-4"},
      {"a % b", "-1"},
      {"-7 % 3", "2"},
      {"7.5 // 2", "3.0"},
      {"-7.5 % 2", "0.5"},
      {"1.0 // 0.1", "9.0"},
      {"2 ** 10", "1024"},
      {"2 ** -1", "0.5"},
      {"-2 ** 2", "-4"},
      {"2 ** 3 ** 2", "512"},
      {"(-2) ** 3", "-8"},
      {"10 - 4 - 3", "3"},
      {"100 // 7 // 2", "7"},
      {"1 < 2 < 3", "True"},
      {"1 < 2 > 3", "False"},
      {"3 > 2 == True", "False"},
      {"1 == 1.0", "True"},
      {"True + True", "2"},
      {"9007199254740993 == 9007199254740992.0", "False"},
      {"9007199254740993 > 9007199254740992.0", "True"},
      {"0 or 5", "5"},
      {"0 and 5", "0"},
      {"3 and 5", "5"},
      {"not 3", "False"},
      {"not a == 7", "False"},
      {"not 1 in [1]", "False"},
      {"2 not in [1, 3]", "True"},
      {"'16' in dtype", "True"},
      {"dtype in ['f32', \"bf16\"]", "True"},
      {"1 if causal else 2", "1"},
      {"1 if zero else 2 if zero else 3", "3"},
      {"'tensor_' + dtype", "tensor_bf16"},
      {"'f32' == 32", "False"},
      {"'abc' < 'abd'", "True"},
      {"min(3, a, 5)", "3"},
      {"max([1, 9, 4])", "9"},
      {"abs(b)", "2"},
      {"abs(-0.5)", "0.5"},
      {"log2(8)", "3.0"},
      {"ceil_div(7, 2)", "4"},
      {"ceil_div(-7, 2)", "-3"},
      {"1e3", "1000.0"},
      {".5 + 1.", "1.5"},
      {"0.1 + 0.2", "0.30000000000000004"},
      {"[1, 2] == [1, 2]", "True"},
      {"x * 4", "2.0"},
      {"+a - -b", "5"},
      {"9223372036854775807", "9223372036854775807"},
  };
  for (const Case& c : cases) EXPECT_EQ(Eval(c.text), c.result) << c.text;
}

TEST(Expression, KnowsPythonsTuplesBitsAndRounding) {
  const Case cases[] = {
      {"a in (1, 7)", "True"},
      {"a in (7,)", "True"},
      {"(1, 2) == [1, 2]", "True"},
      {"a & (a - 1) == 0", "False"},
      {"(8 & (8 - 1)) == 0", "True"},
      {"1 | 6 ^ 2 & 3", "5"},
      {"1 + 2 << 3", "24"},
      {"-9 >> 1", "-5"},
      {"1 << 4 < 17", "True"},
      {"~a", "-8"},
      {"int(-3.9) + int(7 / 2)", "0"},
      {"round(2.5) + round(3.5)", "6"},
      {"math.ceil(7 / 2) + math.floor(-0.5)", "3"},
      {"float(a)", "7.0"},
      {"sqrt(16)", "4.0"},
      {"by_limit(a, [6, 7, 9], [1, 2, 3, 4])", "2"},
      {"by_limit(a, [6], ['few', 'many'])", "many"},
      {"by_limit(a, [7.5, 6], [1, 2, 3])", "1"},
      {"by_limit(a, [], [5])", "5"},
  };
  for (const Case& c : cases) EXPECT_EQ(Eval(c.text), c.result) << c.text;
}

// The page that says where this language is not Python's.
TEST(Expression, AgreesWithTheTableOfItsPage) {
  const std::vector<std::vector<std::string>> rows = TableRows("docs/expressions.md");
  EXPECT_GE(rows.size(), 20u);
  for (const std::vector<std::string>& row : rows) {
    ASSERT_EQ(row.size(), 3u) << row[0];
    absl::string_view wanted = row[2];
    const std::string result = Eval(row[0]);
    if (absl::ConsumePrefix(&wanted, "error: ")) {
      EXPECT_THAT(result, HasSubstr(std::string(wanted))) << row[0];
      EXPECT_THAT(result, HasSubstr(" at column ")) << row[0];
    } else {
      EXPECT_EQ(result, row[2]) << row[0];
    }
  }
}

TEST(Expression, NamesTheColumnOfWhatIsWrong) {
  const Case cases[] = {
      {"a * (b))", "unexpected ')' at column 8 of 'a * (b))'"},
      {"a + ", "unexpected end at column 5 of 'a + '"},
      {"", "unexpected end at column 1 of ''"},
      {"a b", "unexpected 'b' at column 3 of 'a b'"},
      {"a && b", "unexpected '&&' at column 3 of 'a && b'; write 'and'"},
      {"a || b", "unexpected '||' at column 3 of 'a || b'; write 'or'"},
      {"!a", "unexpected '!' at column 1 of '!a'; write 'not'"},
      {"a AND b", "unexpected 'AND' at column 3 of 'a AND b'; write 'and'"},
      {"a = 2", "unexpected '=' at column 3 of 'a = 2'; write '=='"},
      {"1 if 2", "unexpected end at column 7 of '1 if 2'"},
      {"'abc", "string has no closing quote at column 1 of ''abc'"},
      {"12ab", "'12ab' is not a number at column 1 of '12ab'"},
      {"99999999999999999999",
       "number '99999999999999999999' is out of range; integers end at 9223372036854775807 at "
       "column 1 of '99999999999999999999'"},
      {"foo(1)",
       "unknown function 'foo' (known: ceil_div, min, max, abs, log2, pow2, range, int, float, "
       "round, floor, ceil, sqrt, by_limit) at column 1 of 'foo(1)'"},
      {"ceil_div(1)", "ceil_div takes 2 arguments, not 1 at column 1 of 'ceil_div(1)'"},
      {"range(1)", "range takes 2 to 3 arguments, not 1 at column 1 of 'range(1)'"},
      {"row * 2",
       "unknown name 'row' at column 1 of 'row * 2'; in scope: a, b, causal, dtype, x, zero"},
      {"a / zero", "division by zero at column 3 of 'a / zero'"},
      {"a // 0.0", "division by zero at column 3 of 'a // 0.0'"},
      {"a + 1 % zero", "division by zero at column 7 of 'a + 1 % zero'"},
      {"0 ** -1", "division by zero at column 3 of '0 ** -1'"},
      {"9223372036854775807 + 1", "integer overflow at column 21 of '9223372036854775807 + 1'"},
      {"2 ** 63", "integer overflow at column 3 of '2 ** 63'"},
      {"3 ** 1000000000000", "integer overflow at column 3 of '3 ** 1000000000000'"},
      {"1e308 * 10", "result is not a finite number at column 7 of '1e308 * 10'"},
      {"(-8) ** 0.5", "result is not a finite number at column 6 of '(-8) ** 0.5'"},
      {"a * dtype", "'*' does not work on an integer and a string at column 3 of 'a * dtype'"},
      {"a < dtype", "'<' cannot compare an integer with a string at column 3 of 'a < dtype'"},
      {"a in 7", "'in' needs a list on its right, not an integer at column 3 of 'a in 7'"},
      {"-dtype", "a number is needed, not a string at column 1 of '-dtype'"},
      {"log2(0)", "log2 takes a number above zero at column 1 of 'log2(0)'"},
      {"pow2(3, 8)", "pow2 takes powers of two, not 3 at column 1 of 'pow2(3, 8)'"},
      {"range(0, 10, 0)", "the step of a range is zero at column 1 of 'range(0, 10, 0)'"},
      {"range(0, 10 ** 9)", "a list has more than 4096 items at column 1 of 'range(0, 10 ** 9)'"},
      {"[1, [2]]", "a list cannot hold a list at column 1 of '[1, [2]]'"},
      {"[1, 2]", "a single value is needed, not a list at column 1 of '[1, 2]'"},
      {"x & 1", "'&' does not work on a float and an integer at column 3 of 'x & 1'"},
      {"1 << -1", "negative shift count at column 3 of '1 << -1'"},
      {"1 << 63", "integer overflow at column 3 of '1 << 63'"},
      {"int(dtype)", "a number is needed, not a string at column 1 of 'int(dtype)'"},
      {"sqrt(-1)", "sqrt takes no negative number at column 1 of 'sqrt(-1)'"},
      {"int(1e300)", "integer overflow at column 1 of 'int(1e300)'"},
      {"()", "unexpected ')' at column 2 of '()'"},
      {"by_limit(1, [2], [3])",
       "by_limit needs one value more than limits, not 1 for 1 at column 1 of 'by_limit(1, [2], "
       "[3])'"},
      {"by_limit(1, 2, [3])",
       "by_limit takes lists of limits and of values, not an integer at column 1 of 'by_limit(1, "
       "2, [3])'"},
      {"by_limit(1, [dtype], [3, 4])",
       "'>' cannot compare an integer with a string at column 1 of 'by_limit(1, [dtype], [3, "
       "4])'"},
      {"min([])", "the list is empty at column 1 of 'min([])'"},
  };
  for (const Case& c : cases) EXPECT_EQ(Eval(c.text), c.result) << c.text;
}

TEST(Expression, EvaluatesOnlyWhatIsNeeded) {
  EXPECT_EQ(Eval("zero != 0 and a % zero == 0"), "False");
  EXPECT_EQ(Eval("1 if zero == 0 else a // zero"), "1");
  EXPECT_EQ(Eval("True or nothing_of_that_name"), "True");
  EXPECT_EQ(Eval("1 > 2 > nothing_of_that_name // 0"), "False");
}

TEST(Expression, MakesLists) {
  EXPECT_THAT(EvalList("pow2(32, 256)"), ElementsAre(Value(int64_t{32}), Value(int64_t{64}),
                                                     Value(int64_t{128}), Value(int64_t{256})));
  EXPECT_THAT(EvalList("range(64, 257, 64)"),
              ElementsAre(Value(int64_t{64}), Value(int64_t{128}), Value(int64_t{192}),
                          Value(int64_t{256})));
  EXPECT_THAT(EvalList("range(3, 0, -2)"), ElementsAre(Value(int64_t{3}), Value(int64_t{1})));
  EXPECT_THAT(EvalList("[1] + [a, 'smem', True, 0.5,]"),
              ElementsAre(Value(int64_t{1}), Value(int64_t{7}), Value(std::string("smem")),
                          Value(true), Value(0.5)));
  EXPECT_THAT(EvalList("[1] if causal else [2]"), ElementsAre(Value(int64_t{1})));
  EXPECT_THAT(EvalList("a"),
              ElementsAre(Value(std::string("a list is needed, not 7 at column 1 of 'a'"))));
  EXPECT_THAT(
      EvalList("range(9223372036854775800, 9223372036854775807, 5)"),
      ElementsAre(Value(int64_t{9223372036854775800}), Value(int64_t{9223372036854775805})));
}

TEST(Expression, ConvertsToTheTypeAskedFor) {
  const Scope scope = TestScope();
  auto parse = [](const char* text) { return Expression::Parse(text).value(); };
  EXPECT_EQ(*parse("8 / 2").EvaluateInteger(scope), 4);
  EXPECT_EQ(parse("a / 2").EvaluateInteger(scope).status().message(),
            "a whole number is needed, not 3.5 at column 3 of 'a / 2'");
  EXPECT_EQ(parse("dtype").EvaluateNumber(scope).status().message(),
            "a number is needed, not 'bf16' at column 1 of 'dtype'");
  EXPECT_EQ(*parse("a").EvaluateNumber(scope), 7.0);
  EXPECT_EQ(*parse("a - 7").EvaluateBoolean(scope), false);
  EXPECT_EQ(*parse("dtype").EvaluateText(scope), "bf16");
  EXPECT_EQ(parse("a").EvaluateText(scope).status().message(),
            "a string is needed, not 7 at column 1 of 'a'");
}

TEST(Expression, ListsItsNames) {
  EXPECT_THAT(Expression::Parse("b * a + min(a, c) if d in [e] else 'f'").value().names(),
              ElementsAre("a", "b", "c", "d", "e"));
}

TEST(Expression, HasLimits) {
  const std::string deep_ok = std::string(63, '(') + "1" + std::string(63, ')');
  const std::string deep = std::string(64, '(') + "1" + std::string(64, ')');
  EXPECT_EQ(Eval(deep_ok), "1");
  EXPECT_THAT(Eval(deep), HasSubstr("more than 64 levels of nesting at column 65"));
  EXPECT_THAT(Eval(std::string(100, '-') + "1"), HasSubstr("more than 64 levels of nesting"));
  std::string not_deep = "1";
  while (not_deep.size() < 4000) not_deep += "+1";
  EXPECT_EQ(Eval(not_deep), "2001");
  EXPECT_EQ(Eval(std::string(5000, '1')), "expression has 5000 characters; the most is 4096");
}

// A spec may hold many long constant lists; their values are not all kept.
TEST(Expression, KeepsFewConstants) {
  std::string text = "1 in range(0, 4096)";
  while (text.size() < 4000) text += " and 1 in range(0, 4096)";
  EXPECT_EQ(Eval(text), "True");
  EXPECT_EQ(Eval("4095 in range(0, 4096) + [1]"),
            "a list has more than 4096 items at column 24 of '4095 in range(0, 4096) + [1]'");
}

TEST(Expression, ClipsALongTextRoundTheColumn) {
  const std::string text = std::string(300, ' ') + "1 / zero";
  const std::string error = Eval(text);
  EXPECT_THAT(error, HasSubstr("division by zero at column 303 of '..."));
  EXPECT_THAT(error, HasSubstr("1 / zero'"));
  EXPECT_LT(error.size(), 250);
}

}  // namespace
}  // namespace tune
