// SPDX-License-Identifier: Apache-2.0
#include "tuner/space/definition_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace tune {
namespace {

using ::testing::ElementsAre;

std::string Message(std::string_view json) {
  return std::string(ParseSpaceDefinition(json).status().message());
}

TEST(ParseSpaceDefinition, ReadsParamsOfEveryKindInOrder) {
  const SpaceDefinition definition = ParseSpaceDefinition(R"json({
    "name": "x", "valid_count": 7,
    "parameters": [{"name": "Z", "values": [16, -2]}, {"name": "mode", "values": ["a b", "c"]},
                   {"name": "A", "values": [true, 0.5]}, {"name": "R", "values": "range(1, 4)"}],
    "constraints": [{"expr": "Z*2 <= 32 and A", "params": ["Z"]}, "mode in ('c', 'd')"]})json")
                                         .value();
  ASSERT_EQ(definition.params.size(), 4);
  EXPECT_EQ(definition.params[0].name, "Z");
  EXPECT_THAT(definition.params[0].values, ElementsAre(Value(int64_t{16}), Value(int64_t{-2})));
  EXPECT_THAT(definition.params[1].values,
              ElementsAre(Value(std::string("a b")), Value(std::string("c"))));
  EXPECT_THAT(definition.params[2].values, ElementsAre(Value(true), Value(0.5)));
  EXPECT_EQ(definition.params[3].values.size(), 3);
  ASSERT_EQ(definition.constraints.size(), 2);
  EXPECT_EQ(definition.constraints[0].text, "'Z*2 <= 32 and A'");
  EXPECT_EQ(Space::Build(definition)->size(), 12);
}

TEST(ParseSpaceDefinition, ReadsKernelTunersFormsAndT1) {
  for (const char* json : {R"json({"tune_params": {"BX": [1, 2, 4], "BY": [1, 2]},
            "restrictions": "BX * BY <= 4"})json",
                           R"json({"parameters": {"BX": [1, 2, 4], "BY": [1, 2]},
            "restrictions": ["BX * BY <= 4"]})json",
                           R"json({"ConfigurationSpace": {
             "TuningParameters": [{"Name": "BX", "Type": "int", "Values": "[1, 2, 4]"},
                                  {"Name": "BY", "Type": "int", "Values": [1, 2]}],
             "Conditions": [{"Expression": "BX * BY <= 4", "Parameters": ["BX", "BY"]}]}})json"}) {
    const absl::StatusOr<SpaceDefinition> definition = ParseSpaceDefinition(json);
    ASSERT_TRUE(definition.ok()) << definition.status();
    EXPECT_EQ(definition->params[0].name, "BX");
    EXPECT_EQ(Space::Build(*definition)->size(), 5);
  }
}

TEST(ParseSpaceDefinition, SaysWhatIsWrong) {
  EXPECT_EQ(Message("{"), "space definition: not JSON");
  EXPECT_EQ(Message("[]"), "space definition: a JSON object is needed");
  EXPECT_EQ(Message("{}"),
            "space definition: no params: a member 'parameters' or 'tune_params' is needed, a list "
            "of {\"name\": ..., \"values\": [...]} or an object of lists");
  EXPECT_EQ(Message(R"json({"tune_params": {"A": []}})json"),
            "parameter 'A': 0 values; 1 to 65536 will do");
  EXPECT_EQ(Message(R"json({"tune_params": {"A": [1, 1]}})json"),
            "parameter 'A': the value 1 is there twice");
  EXPECT_EQ(Message(R"json({"tune_params": {"A": [null]}})json"),
            "parameter 'A': a value is a number, a boolean or a string, not null");
  EXPECT_EQ(Message(R"json({"tune_params": {"A": [18446744073709551615]}})json"),
            "parameter 'A': 18446744073709551615 does not fit 64 bits");
  EXPECT_EQ(Message(R"json({"tune_params": {"if": [1]}})json"),
            "parameter 'if': not a name: letters, digits and '_', and no word of the language");
  EXPECT_EQ(Message(R"json({"parameters": [{"values": [1]}]})json"),
            "parameter 1: it has no 'name'");
  EXPECT_EQ(Message(R"json({"tune_params": {"A": [1]}, "restrictions": ["A > 0", "A >"]})json"),
            "constraint 2: unexpected end at column 4 of 'A >'");
  EXPECT_EQ(Message(R"json({"tune_params": {"A": [1]}, "restrictions": ["B > 0"]})json"),
            "constraint 1: unknown name 'B' at column 1 of 'B > 0'; in scope: A");
  EXPECT_EQ(
      Message(R"json({"tune_params": {"A": [1]}, "restrictions": [" lambda p: p['A'] > 0"]})json"),
      "constraint 1: ' lambda p: p['A'] > 0' is a Python lambda: write it as an expression "
      "over the params, \"BX * BY <= 1024\"");
}

}  // namespace
}  // namespace tune
