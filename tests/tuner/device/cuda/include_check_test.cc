// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "tuner/device/cuda/nvrtc_compiler.h"
#include "tuner/source/source_check.h"

namespace tune::cuda {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

CompilePlan TextPlan(const std::string& text) {
  CompilePlan plan;
  plan.target = "sm_80";
  plan.source_name = "kernel.cu";
  plan.source_text = text;
  plan.entries = {"kernel"};
  return plan;
}

// Each of these made NVRTC 13.0 open /etc/hostname, or asks it whether a file exists.
class EscapeTest : public testing::TestWithParam<const char*> {};

TEST_P(EscapeTest, IsRefusedWithoutReadingTheFile) {
  const CompilePlan plan = TextPlan(GetParam());
  EXPECT_EQ(CheckIncludes(plan).code(), absl::StatusCode::kInvalidArgument);
  absl::StatusOr<std::unique_ptr<Compiler>> compiler = MakeNvrtcCompiler();
  ASSERT_TRUE(compiler.ok()) << compiler.status();
  absl::StatusOr<Artifact> variant = (*compiler)->Compile(plan);
  ASSERT_TRUE(variant.ok()) << variant.status();
  EXPECT_EQ(variant->outcome, Outcome::kInvalidConfig);
  EXPECT_THAT(variant->log, HasSubstr("kernel.cu"));
}

INSTANTIATE_TEST_SUITE_P(
    All, EscapeTest,
    testing::Values("#include \"/etc/hostname\"", "#include </etc/hostname>",
                    "#include \"../../etc/hostname\"", "#include \"x/../../etc/hostname\"",
                    "  #  include \"/etc/hostname\"", "%:include \"/etc/hostname\"",
                    "#inc\\\nlude \"/etc/hostname\"", "#inc\\\r\nlude \"/etc/hostname\"",
                    "#include \"/etc/host\\\nname\"", "# /* \n */ include \"/etc/hostname\"",
                    "#include /* */ \"/etc/hostname\"", "/* \n */ /**/ #include \"/etc/hostname\"",
                    "const char* a = \"/*\";\n#include \"/etc/hostname\"\nconst char* b = \"*/\";",
                    "#define F \"/etc/hostname\"\n#include F", "#include_next \"/etc/hostname\"",
                    "#if __has_include(\"/etc/hostname\")\n#endif",
                    "#define H __has_include\n#if H(\"/etc/hostname\")\n#endif",
                    "#define F \"/etc/hostname\"\n#if __has_include(F)\n#endif"));

TEST(CheckIncludesTest, AcceptsOrdinarySources) {
  const absl::Status status = CheckIncludes(TextPlan(R"(
// Needs nothing but a header of its own; see what we #include below.
#include <cuda_bf16.h>
#include "tile.h"  // ours
#include "layout/swizzle.h"
#ifdef __has_include
#if __has_include(<cuda_fp8.h>)
#include <cuda_fp8.h>
#endif
#endif
#if defined(__has_include) && __has_include("tile.h")
#endif
#define TEXT(x) #x
#pragma unroll
)"));
  EXPECT_TRUE(status.ok()) << status;
}

TEST(CheckIncludesTest, LooksIntoHeadersToo) {
  CompilePlan plan = TextPlan("#include \"a.h\"");
  plan.headers = {{"a.h", "#include \"/etc/hostname\""}};
  const absl::Status status = CheckIncludes(plan);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("a.h:1: \"/etc/hostname\""));
}

TEST(CheckIncludesTest, NamesReachNothingBesideTheRequest) {
  absl::StatusOr<std::unique_ptr<Compiler>> compiler = MakeNvrtcCompiler();
  ASSERT_TRUE(compiler.ok()) << compiler.status();
  // The working directory holds this test's build files.
  absl::StatusOr<Artifact> variant = (*compiler)->Compile(
      TextPlan("#include \"CTestTestfile.cmake\"\nextern \"C\" __global__ void kernel() {}\n"));
  ASSERT_TRUE(variant.ok()) << variant.status();
  EXPECT_EQ(variant->outcome, Outcome::kCompileFailed);
  EXPECT_THAT(variant->log, HasSubstr("open source file"));
  EXPECT_THAT(variant->log, Not(HasSubstr("add_test")));
}

}  // namespace
}  // namespace tune::cuda
