// SPDX-License-Identifier: Apache-2.0
#include "tuner/expression/python_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace tune {
namespace {

using ::testing::HasSubstr;

// "1 2 x", or the error.
std::string Read(const std::string& text) {
  const absl::StatusOr<std::vector<Value>> values = ParsePythonList(text);
  if (!values.ok()) return std::string(values.status().message());
  return absl::StrJoin(*values, " ", [](std::string* out, const Value& value) {
    absl::StrAppend(out, ToText(value));
  });
}

TEST(PythonList, ListsAndComprehensionsHavePythonsValues) {
  EXPECT_EQ(Read("[32 * i for i in range(1, 5)]"), "32 64 96 128");
  EXPECT_EQ(Read("[1] + list(range(2, 9, 2))"), "1 2 4 6 8");
  EXPECT_EQ(Read("[2**i for i in range(4)]"), "1 2 4 8");
  EXPECT_EQ(Read("list(range(3))"), "0 1 2");
  EXPECT_EQ(Read(" ( [1, 2] + [3] ) "), "1 2 3");
  EXPECT_EQ(Read("[i * j for i in [1, 2] for j in range(1, 4) if i != j]"), "2 3 2 6");
  EXPECT_EQ(Read("[i for i in range(10) if i % 2 == 0 if i > 2]"), "4 6 8");
  EXPECT_EQ(Read("list(2 * i for i in range(3))"), "0 2 4");
  EXPECT_EQ(Read("sorted(set([4, 1, 4]))"), "1 4");
  EXPECT_EQ(Read("tuple([True, 0.5, 'a for b + c'])"), "True 0.5 a for b + c");
  EXPECT_EQ(Read("[1, 2]"), "1 2");
}

TEST(PythonList, RefusesOtherExpressions) {
  EXPECT_THAT(Read("[f(i) for i in range(4)]"), HasSubstr("unknown function 'f'"));
  EXPECT_THAT(Read("[i for i, j in [1]]"), HasSubstr("'for NAME in LIST'"));
  EXPECT_THAT(Read("__import__('os').listdir('/')"), HasSubstr("column"));
  EXPECT_THAT(Read("[i for i in range(70000)]"), HasSubstr("more than 4096 items"));
  EXPECT_THAT(Read("[i for a in range(1000) for b in range(1000) for i in []]"),
              ::testing::Not(::testing::IsEmpty()));
  EXPECT_THAT(Read(std::string(20, '(') + "[1]" + std::string(20, ')')), HasSubstr("deeply"));
  EXPECT_THAT(Read(""), HasSubstr("column"));
}

}  // namespace
}  // namespace tune
