// SPDX-License-Identifier: Apache-2.0
#include "server/wire/spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "google/protobuf/text_format.h"
#include "google/protobuf/util/message_differencer.h"
#include "kernels/catalogue.h"
#include "tests/tuner/test_kernel.h"

namespace tune::server {
namespace {

using google::protobuf::TextFormat;
using google::protobuf::util::MessageDifferencer;

std::string MessageOf(const std::string& text) {
  const absl::Status status = ReadSpec("s", text).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
  return std::string(status.message());
}

TEST(SpecTest, EveryFieldOfTheCataloguesSpecsSurvives) {
  std::vector<std::string> texts = {TestSpecText()};
  const std::vector<CatalogueEntry> catalogue = LoadCatalogue().value();
  for (const CatalogueEntry& entry : catalogue) texts.push_back(entry.spec_text);
  for (const std::string& text : texts) {
    v1::KernelSpec proto;
    ASSERT_TRUE(TextFormat::ParseFromString(text, &proto)) << text;
    const absl::StatusOr<WrittenSpec> written = ReadSpec("s", text);
    ASSERT_TRUE(written.ok()) << written.status();
    const v1::KernelSpec sent = ToProto(written->spec);
    EXPECT_TRUE(MessageDifferencer::Equals(sent, proto)) << sent.DebugString();
    std::string canonical;
    TextFormat::PrintToString(proto, &canonical);
    EXPECT_EQ(written->text.canonical, canonical) << "the hashes of all records stand on it";
  }
}

template <typename Spec, typename Proto>
void ExpectAllFields() {
  const google::protobuf::Descriptor& message = *Proto::descriptor();
  int fields = 0;
  UseFieldsOf(static_cast<Spec*>(nullptr),
              [&](const auto&... field) { fields = sizeof...(field); });
  EXPECT_EQ(fields, message.field_count()) << message.full_name();
}

TEST(SpecTest, TheTunersSpecHasEveryFieldOfTheMessage) {
  ExpectAllFields<KernelSpec, v1::KernelSpec>();
  ExpectAllFields<DimSpec, v1::Dim>();
  ExpectAllFields<DimOnTarget, v1::DimOn>();
  ExpectAllFields<ParamSpec, v1::Param>();
  ExpectAllFields<ParamOnTarget, v1::ParamOn>();
  ExpectAllFields<LetSpec, v1::Let>();
  ExpectAllFields<ConstraintSpec, v1::Constraint>();
  ExpectAllFields<DefineSpec, v1::Define>();
  ExpectAllFields<ArgSpec, v1::Arg>();
  ExpectAllFields<BufferSpec, v1::Buffer>();
  ExpectAllFields<FillSpec, v1::Fill>();
  ExpectAllFields<TensorDescriptorSpec, v1::TensorDescriptor>();
  ExpectAllFields<ScalarSpec, v1::Scalar>();
  ExpectAllFields<TensorMapSpec, v1::TensorMap>();
  ExpectAllFields<SymbolSpec, v1::Symbol>();
  ExpectAllFields<LaunchSpec, v1::Launch>();
  ExpectAllFields<StepSpec, v1::Step>();
  ExpectAllFields<WorkSpec, v1::Work>();
  ExpectAllFields<ReferenceSpec, v1::Reference>();
  ExpectAllFields<CheckerSpec, v1::Checker>();
  ExpectAllFields<ToleranceSpec, v1::Tolerance>();
  ExpectAllFields<CheckProblem, v1::CheckProblem>();
}

TEST(SpecTest, TextThatIsNoSpecIsRefusedWithItsPlace) {
  EXPECT_EQ(MessageOf("\nsumary: \"x\""),
            "s:2:7: Message type \"tune.v1.KernelSpec\" has no field named \"sumary\"; did you "
            "mean 'summary'?");
  EXPECT_EQ(MessageOf("dims { default_value: many }"), "s:1:23: Expected integer, got: many");
  EXPECT_EQ(
      MessageOf("dims { default_valu: 3 }"),
      "s:1:20: Message type \"tune.v1.Dim\" has no field named \"default_valu\"; did you mean "
      "'default_value'?");
  EXPECT_THAT(MessageOf("dims { default: 3 }"),
              testing::HasSubstr("; did you mean 'default_value'?"));
  EXPECT_EQ(MessageOf("name: \"k\"\nparams { name: \"B\" values: [32, [64]] }"),
            "s:2:28: Expected string, got: [; write it in quotes: values: \"[32, [64]]\"");
  EXPECT_EQ(MessageOf("work { bytes:8 }"),
            "s:1:14: Expected string, got: 8; write it in quotes: bytes: \"8\"");
  EXPECT_EQ(MessageOf("params { values: [\"a\", 2] }"),
            "s:1:18: Expected string, got: [; write it in quotes");
  EXPECT_EQ(MessageOf("name:"), "s:1:6: Expected string, got: ; write it in quotes");
  EXPECT_EQ(MessageOf("args { buffer { role: \"output\" } }"),
            "s:1:23: Expected integer or identifier, got: \"output\"; write ROLE_OUTPUT without "
            "quotes");
  EXPECT_EQ(MessageOf("dims { name = \"n\" }"),
            "s:1:13: Expected \":\", found \"=\"; write 'field: value'");
  EXPECT_EQ(MessageOf("summary: \"\\377\""), "s:1:1: a string is not UTF-8");
  EXPECT_EQ(MessageOf("name: \"a\" name: \"b\""),
            "s:1:15: Non-repeated field \"name\" is specified multiple times");
  EXPECT_EQ(MessageOf("name: \"" + std::string(1 << 20, 'a') + "\""),
            "s: the spec has 1048584 bytes; the most is 1048576");
}

TEST(SpecTest, ANumberThatIsNoValueOfAnEnumIsRefusedWithItsPlace) {
  EXPECT_EQ(MessageOf("args { name: \"x\" }\nargs { buffer { role: 7 } }"),
            "s:2:17: args[1].buffer.role: it cannot be 7; it takes ROLE_INPUT, ROLE_OUTPUT, "
            "ROLE_INOUT, ROLE_SCRATCH");
  EXPECT_THAT(MessageOf("language: 99"),
              testing::HasSubstr("s:1:1: language: it cannot be 99; it takes CUDA, PTX, "));
}

TEST(SpecTest, PositionsOfFieldsAreByTheirPaths) {
  const WrittenSpec written =
      ReadSpec("s", "dims { name: \"a\"\n  values: [1, 2] }\ndims { name: \"b\" }").value();
  const auto& positions = written.text.positions;
  ASSERT_TRUE(positions.contains("dims[1].name"));
  EXPECT_EQ(positions.at("dims[1].name").line, 2);
  EXPECT_EQ(positions.at("dims[1].name").column, 7);
  EXPECT_TRUE(positions.contains("dims[0].values[0]"));
  EXPECT_FALSE(positions.contains("dims[0].values[1]")) << "the list stands where it begins";
}

}  // namespace
}  // namespace tune::server
