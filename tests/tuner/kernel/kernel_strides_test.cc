// SPDX-License-Identifier: Apache-2.0
// Buffers that are strided: the names of their strides, and what the daemon launches.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_replace.h"
#include "server/wire/spec.h"
#include "tests/tuner/kernel/problems.h"

namespace tune {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kHeads[] = R"spec(name: "heads"
source: "heads.cu"
entry: "heads"
dims { name: "batch" default_value: 3 min: 1 }
dims { name: "seq" default_value: 5 min: 1 }
dims { name: "width" default_value: 64 min: 1 }
dtypes: "f32"
params { name: "BLOCK" values: "[32, 64]" default_value: "32" }
lets { name: "wide" value: "BLOCK * 2" }
lets { name: "row_bytes" value: "width * dtype_bytes" }
args { name: "skip" scalar { dtype: "i32" value: "x_stride_1 * dtype_bytes - row_bytes" } }
args { name: "x" buffer {
  dtype: "dtype" shape: ["batch", "seq", "width"] role: ROLE_INPUT strided: true
} }
args { name: "y" buffer {
  dtype: "dtype" shape: ["batch", "seq", "width"] role: ROLE_OUTPUT strided: true
} }
args { name: "x_stride_0" scalar { dtype: "i64" value: "x_stride_0" } }
args { name: "y_stride_1" scalar { dtype: "i64" value: "y_stride_1" } }
args { name: "x_map" tensor_map {
  buffer: "x" dims: ["width", "seq", "batch"]
  strides: ["x_stride_1 * dtype_bytes", "x_stride_0 * dtype_bytes"] box: ["BLOCK", "1", "1"]
} }
launch { grid: "batch * seq" block: "BLOCK" }
reference { entry: "heads" dtype: "f32" launch { grid: "1" block: "1" } }
)spec";

absl::StatusOr<std::shared_ptr<const Kernel>> MakeHeads(
    const std::vector<std::pair<std::string, std::string>>& changes = {}) {
  const std::string text = absl::StrReplaceAll(kHeads, changes);
  return server::ReadKernel("heads.textproto", text, {{"heads.cu", "void heads() {}"}});
}

std::string HeadsErrorOf(const std::vector<std::pair<std::string, std::string>>& changes) {
  return std::string(MakeHeads(changes).status().message());
}

TEST(KernelStrides, AreThoseOfContiguousBuffersWhereNoCallGivesOthers) {
  const auto kernel = MakeHeads();
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  const Problem problem = MakeProblem(**kernel, {}, "", "sm_90a");
  const TargetTraits traits = Traits("sm_90a");
  const Config config = (*kernel)->DefaultConfig(problem, traits).value();
  const auto plan = (*kernel)->PlanProgram(problem, traits, config);
  ASSERT_TRUE(plan.ok()) << plan.status();
  const std::vector<ArgPlan>& args = plan->steps[0].args;
  EXPECT_EQ(Arg<ScalarPlan>(args, 0).value, Value(int64_t{0}));
  EXPECT_EQ(Arg<ScalarPlan>(args, 3).value, Value(int64_t{320}));
  EXPECT_EQ(Arg<ScalarPlan>(args, 4).value, Value(int64_t{64}));
  EXPECT_THAT(Arg<TensorMapPlan>(args, 5).strides_bytes, ElementsAre(256, 1280));
}

TEST(KernelStrides, AreInScopeOfScalarsAndTensorMapsAlone) {
  const std::string unknown = "unknown name 'x_stride_0'";
  EXPECT_THAT(HeadsErrorOf({{"grid: \"batch * seq\"", "grid: \"x_stride_0\""}}),
              HasSubstr(unknown));
  EXPECT_THAT(HeadsErrorOf({{"\"[32, 64]\"", "\"[x_stride_0]\""}}), HasSubstr(unknown));
  EXPECT_THAT(HeadsErrorOf({{"\"BLOCK * 2\"", "\"x_stride_0\""}}), HasSubstr(unknown));
  EXPECT_THAT(HeadsErrorOf({{"box: [\"BLOCK\"", "box: [\"x_stride_0\""}}), HasSubstr(unknown));
  EXPECT_THAT(HeadsErrorOf({{"args { name: \"skip\"",
                             "constraints { expression: \"x_stride_0 > 1\" }\n"
                             "args { name: \"skip\""}}),
              HasSubstr(unknown));
  EXPECT_THAT(HeadsErrorOf({{"shape: [\"batch\", \"seq\", \"width\"] role: ROLE_OUTPUT",
                             "shape: [\"x_stride_0\", \"seq\"] role: ROLE_OUTPUT"}}),
              HasSubstr(unknown));
  EXPECT_THAT(HeadsErrorOf({{"value: \"x_stride_0\"", "value: \"x_stride_2\""}}),
              HasSubstr("unknown name 'x_stride_2'"))
      << "the last axis has none";
  EXPECT_THAT(HeadsErrorOf({{"role: ROLE_INPUT strided: true", "role: ROLE_INPUT"}}),
              HasSubstr("args[0].scalar.value: unknown name 'x_stride_1'"));
}

TEST(KernelStrides, MistakesHaveTheirPlace) {
  EXPECT_EQ(HeadsErrorOf({{"name: \"wide\"", "name: \"y_stride_0\""}}),
            "heads.textproto:16:69: args[2].buffer.strided: a dim, param or let has the name "
            "'y_stride_0', which is that of a stride");
  EXPECT_THAT(
      HeadsErrorOf({{"value: \"y_stride_1\"", "value: \"y_stride_1 + wide\""}}),
      HasSubstr("args[4].scalar.value: an expression with strides uses no params, as 'wide' "
                "is or needs one"));
  EXPECT_THAT(
      HeadsErrorOf({{"\"x_stride_1 * dtype_bytes\"", "\"x_stride_1 * BLOCK\""}}),
      HasSubstr("args[5].tensor_map.strides[0]: an expression with strides uses no params"));
  EXPECT_THAT(HeadsErrorOf({{"\"i64\" value: \"y_stride_1\"", "\"f32\" value: \"y_stride_1\""}}),
              HasSubstr("args[4].scalar.dtype: strides are integers"));
  EXPECT_THAT(HeadsErrorOf({{"shape: [\"batch\", \"seq\", \"width\"] role: ROLE_OUTPUT",
                             "shape: \"batch * seq * width\" role: ROLE_OUTPUT"}}),
              HasSubstr("args[2].buffer.strided: a buffer of one axis has no stride but 1"));
  EXPECT_THAT(
      HeadsErrorOf({{"args { name: \"x_map\"",
                     "args { name: \"s\" buffer { dtype: \"f32\" shape: [\"2\", \"2\"] role: "
                     "ROLE_SCRATCH strided: true } }\nargs { name: \"x_map\""}}),
      HasSubstr("args[5].buffer.strided: scratch is contiguous"));
}

TEST(KernelStrides, WhereABufferIsUsedIsAnExpressionOfTheProblem) {
  const auto used_if = [](const std::string& text) {
    return HeadsErrorOf({{"role: ROLE_INPUT strided: true",
                          absl::StrCat("role: ROLE_INPUT strided: true used_if: \"", text, "\"")}});
  };
  EXPECT_EQ(used_if("batch > 1 or dtype == 'f32'"), "");
  EXPECT_THAT(used_if("BLOCK > 1"), HasSubstr("buffer.used_if: unknown name 'BLOCK'"));
  EXPECT_THAT(HeadsErrorOf({{"role: ROLE_OUTPUT", "role: ROLE_OUTPUT used_if: \"batch > 1\""}}),
              HasSubstr("buffer.used_if: of a ROLE_INPUT or ROLE_INOUT"));
}

TEST(KernelStrides, AScalarThatUsesThemIsNoHintForTriton) {
  const auto kernel = server::ReadKernel(
      "rows.textproto", R"spec(name: "rows" language: TRITON source: "rows.py" entry: "rows"
dims { name: "rows" default_value: 4 min: 1 }
dims { name: "cols" default_value: 64 min: 1 }
dtypes: "f32"
args { name: "x" buffer { dtype: "dtype" shape: ["rows", "cols"] role: ROLE_INPUT strided: true } }
args { name: "y" buffer { dtype: "dtype" shape: ["rows", "cols"] role: ROLE_OUTPUT } }
args { name: "cols" scalar { dtype: "i32" value: "cols" } }
args { name: "stride" scalar { dtype: "i32" value: "x_stride_0" } }
launch { grid: "rows" }
reference { entry: "rows" launch { grid: "rows" } }
)spec",
      {{"rows.py", "def rows(x, y, cols, stride): pass"}});
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  const Problem problem = MakeProblem(**kernel, {}, "", "sm_90a");
  const auto plan = (*kernel)->PlanProgram(problem, Traits("sm_90a"), Config());
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->compile.arguments.at(2).divisor, 16);
  EXPECT_EQ(plan->compile.arguments.at(3).divisor, 1);
}

TEST(KernelStrides, TheExpressionsThatUseThemAreFound) {
  const std::shared_ptr<const Kernel> kernel = MakeHeads().value();
  const KernelSpec& spec = kernel->spec();
  EXPECT_TRUE(UsesStrides(spec, "x_stride_1 * 2"));
  EXPECT_FALSE(UsesStrides(spec, "x_stride_2"));
  EXPECT_FALSE(UsesStrides(spec, "width"));
  EXPECT_FALSE(UsesStrides(spec, "1 +"));
}

}  // namespace
}  // namespace tune
