// SPDX-License-Identifier: Apache-2.0
// Entries that are instances, symbols, units, fills, files and tolerances: what a spec may say of
// them, and what a config becomes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "server/wire/spec.h"
#include "tuner/device/structured_fill.h"
#include "tuner/kernel/data_file.h"
#include "tuner/kernel/kernel.h"

namespace tune {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kSpec[] = R"spec(name: "sum"
source: "sum.cu"
headers: ["more.cu", "data.npy"]
dims { name: "n" default_value: 8 min: 1 }
dims { name: "vocab" default_value: 100 min: 1 }
dtypes: "f32"
params { name: "B" values: "[32, 64]" default_value: "32" }
params { name: "HOW" values: "['fast', 'slow']" default_value: "'fast'" }
args { name: "taps" symbol { dtype: "f32" shape: "4" variable: "ops::taps" } }
args { name: "x" buffer { dtype: "i32" shape: "n" role: ROLE_INPUT
                          fill { kind: UNIFORM high_expression: "vocab" } } }
args { name: "y" buffer { dtype: "f32" shape: "n" role: ROLE_OUTPUT } }
args { name: "part" buffer { dtype: "f32" shape: "B" role: ROLE_SCRATCH } }
STEPS
REFERENCE
tolerances { arg: "y" relative_norm: 0.01 mismatches: 0.5 }
)spec";
constexpr char kDataSteps[] = R"spec(
steps { entry: "ops::{HOW}<B, DTYPE>" launch { grid: "1" block: "B" } }
steps { entry: "last" source: "more.cu"
        launch { grid: "1" block: "B" programmatic_dependent_launch: true resident: true } }
)spec";
constexpr char kReference[] = R"spec(
reference { entry: "plain" launch { grid: "1" block: "1" } }
)spec";

std::map<std::string, std::string> Files() {
  return {{"sum.cu", "namespace ops { __constant__ float taps[4]; }"},
          {"more.cu", "// nothing"},
          {"data.npy", "1"}};
}

absl::StatusOr<std::shared_ptr<const Kernel>> Make(
    const std::vector<std::pair<std::string, std::string>>& edits = {},
    std::map<std::string, std::string> files = Files()) {
  std::string text = absl::StrReplaceAll(kSpec, {{"STEPS", kDataSteps}, {"REFERENCE", kReference}});
  for (const auto& [from, to] : edits) {
    EXPECT_NE(text.find(from), std::string::npos) << from;
    text = absl::StrReplaceAll(text, {{from, to}});
  }
  return server::ReadKernel("sum.textproto", text, files);
}

class KernelDataTest : public testing::Test {
 protected:
  const TargetTraits traits_ = TargetTraitsFor("sm_90a").value();

  ProgramPlan Program(const Kernel& kernel, const std::string& target = "sm_90a") {
    const TargetTraits traits = TargetTraitsFor(target).value();
    const Problem problem = kernel.MakeProblem({}, "", target).value();
    const Config config = kernel.DefaultConfig(problem, traits).value();
    return kernel.PlanProgram(problem, traits, config).value();
  }
  absl::StatusOr<ProblemPlan> ProblemOf(const Kernel& kernel) {
    return kernel.PlanProblem(kernel.MakeProblem({}, "", "sm_90a").value(), traits_);
  }
};

TEST_F(KernelDataTest, ParamsChooseTheEntryAndItsArguments) {
  const ProgramPlan plan = Program(**Make());
  EXPECT_EQ(plan.steps[0].launch.entry, "ops::fast<32, float>");
  EXPECT_THAT(plan.compile.entries, ElementsAre("ops::fast<32, float>"));
  EXPECT_EQ(Program(**Make({{"ops::{HOW}<B, DTYPE>", "f<{B * 2 + 1}, sizeof(int)>"}}))
                .steps[0]
                .launch.entry,
            "f<65, sizeof(int)>");
}

TEST_F(KernelDataTest, ParamsUseLetsThatNeedNone) {
  const std::string lets =
      "lets { name: \"wide\" value: \"half > 40\" }\n"
      "lets { name: \"both\" value: \"B * half\" }\n";
  const std::string half = "lets { name: \"half\" value: \"vocab // 2\" }\n";
  const auto with = [&](const std::string& values, const std::string& lets) {
    return Make({{"values: \"[32, 64]\" default_value: \"32\"", values},
                 {"dims { name: \"vocab\"", absl::StrCat(lets, "dims { name: \"vocab\"")}});
  };
  const std::string by_let = "values: \"[32, 64]\" default_value: \"64 if wide else 32\"";
  const auto kernel = with(by_let, absl::StrCat(half, lets));
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  EXPECT_EQ(Program(**kernel).steps[0].launch.block[0], 64);
  EXPECT_THAT(
      with("values: \"[32, 64]\" default_value: \"min(both, 32)\"", absl::StrCat(half, lets))
          .status()
          .message(),
      AllOf(HasSubstr("default_value: unknown name 'both'"),
            HasSubstr("let 'both' needs a param")));
  EXPECT_THAT(with(by_let, absl::StrCat(lets, half)).status().message(),
              HasSubstr("unknown name 'wide'"))
      << "a let uses those before it";
}

TEST_F(KernelDataTest, StepsOverlapWhereTheTargetCan) {
  const auto kernel = Make().value();
  EXPECT_TRUE(Program(*kernel, "sm_90a").steps[1].launch.programmatic_dependent_launch);
  EXPECT_TRUE(Program(*kernel, "sm_120").steps[1].launch.programmatic_dependent_launch);
  EXPECT_FALSE(Program(*kernel, "sm_80").steps[1].launch.programmatic_dependent_launch);
  EXPECT_FALSE(Program(*kernel, "cpu").steps[1].launch.programmatic_dependent_launch);
}

TEST_F(KernelDataTest, AStepOfAnotherFileIsAUnitOfItsOwn) {
  const ProgramPlan plan = Program(**Make());
  ASSERT_EQ(plan.compile.more.size(), 1u);
  EXPECT_EQ(plan.compile.more[0].source_name, "more.cu");
  EXPECT_THAT(plan.compile.more[0].entries, ElementsAre("last"));
  EXPECT_EQ(plan.steps[0].launch.unit, 0);
  EXPECT_EQ(plan.steps[1].launch.unit, 1);
  EXPECT_TRUE(plan.steps[1].launch.programmatic_dependent_launch);
  EXPECT_FALSE(plan.steps[0].launch.resident);
  EXPECT_TRUE(plan.steps[1].launch.resident);
  const CompilePlan unit = PlanOfUnit(plan.compile, 1);
  EXPECT_EQ(unit.source_name, "more.cu");
  EXPECT_THAT(unit.more, IsEmpty());
  EXPECT_EQ(unit.defines, plan.compile.defines);
}

TEST_F(KernelDataTest, UnitsThatMentionASymbolHaveIt) {
  ProgramPlan plan = Program(**Make());
  ASSERT_EQ(plan.symbols.size(), 1u);
  EXPECT_EQ(plan.symbols[0].variable, "ops::taps");
  EXPECT_EQ(plan.compile.symbols[0].bytes, 16);
  EXPECT_THAT(plan.compile.more[0].symbols, IsEmpty());
  std::map<std::string, std::string> files = Files();
  files["more.cu"] = "namespace ops { __device__ float taps[4]; }";
  plan = Program(**Make({}, files));
  ASSERT_EQ(plan.symbols.size(), 2u);
  EXPECT_EQ(plan.symbols[1].unit, 1);
  const ProblemPlan problem = ProblemOf(**Make()).value();
  EXPECT_EQ(problem.buffers[0].name, "taps");
  EXPECT_EQ(problem.reference.symbols.size(), 1u);
  // It is no argument.
  EXPECT_EQ(problem.reference.steps[0].args.size(), 3u);
}

TEST_F(KernelDataTest, BoundsOfFillsAndSizesOfScratchAreExpressions) {
  const std::shared_ptr<const Kernel> kernel = *Make();
  const ProblemPlan plan = ProblemOf(*kernel).value();
  EXPECT_EQ(plan.buffers[1].fill.kind, Fill::Kind::kUniform);
  EXPECT_EQ(plan.buffers[1].fill.high, 100);
  EXPECT_EQ(std::get<BufferPlan>(Program(*kernel).steps[0].args[2]).count, 32);
  ASSERT_EQ(plan.buffer_tolerances.size(), 1u);
  EXPECT_EQ(plan.buffer_tolerances[0].second.relative_norm, 0.01);
  EXPECT_EQ(plan.buffer_tolerances[0].second.mismatches, 0.5);
  EXPECT_TRUE(std::isinf(plan.buffer_tolerances[0].second.atol));
}

TEST_F(KernelDataTest, ErrorsHaveTheirPlace) {
  const struct {
    std::vector<std::pair<std::string, std::string>> edits;
    const char* message;
  } kCases[] = {
      {{{"variable: \"ops::taps\"", "variable: \"ops::weights\""}},
       "no file of the kernel has a variable 'ops::weights'"},
      {{{"source: \"more.cu\"", "source: \"less.cu\""}},
       "steps[1].source: 'less.cu' is neither the source nor a header: add it to headers"},
      {{{"high_expression: \"vocab\"", "high: \"vocab\""}},
       "an expression goes into low_expression or high_expression"},
      {{{"high_expression: \"vocab\"", "high_expression: \"vocab\" high: 3"}}, "give one"},
      {{{"block: \"B\" } }", "block: \"B\" programmatic_dependent_launch: true } }"}},
       "there is no step before it to overlap with"},
      {{{"block: \"B\" } }", "block: \"B\" cluster: \"1\" cluster: \"1\" resident: true } }"}},
       "blocks that walk over the work have a grid, and a cluster, of one axis"},
      {{{"arg: \"y\"", "arg: \"x\""}}, "no OUTPUT or INOUT buffer is called 'x'"},
      {{{"mismatches: 0.5", "mismatches: 5"}}, "mismatches: a share of elements"},
      {{{kReference, ""}}, "as `expected`"},
      {{{"kind: UNIFORM high_expression: \"vocab\"", "kind: CSR_COLUMNS columns: \"n\""}},
       "has the fill CSR_OFFSETS"},
      {{{"kind: UNIFORM high_expression: \"vocab\"", "kind: LOWER_TRIANGULAR"}},
       "the last two dimensions"},
      {{{"kind: UNIFORM high_expression: \"vocab\"", "kind: OFFSETS"}},
       "lengths: an expression is needed"},
      {{{"kind: UNIFORM high_expression: \"vocab\"", "kind: IOTA lengths: \"[n]\""}},
       "only the fill OFFSETS takes it"},
  };
  for (const auto& c : kCases) {
    EXPECT_THAT(std::string(Make(c.edits).status().message()), HasSubstr(c.message));
  }
}

TEST_F(KernelDataTest, OffsetsAreOfPiecesWhoseLengthsAreExpressions) {
  const auto make = [](const std::string& lengths) {
    return Make({{"kind: UNIFORM high_expression: \"vocab\"",
                  absl::StrCat("kind: OFFSETS lengths: \"", lengths, "\"")}});
  };
  const ProblemPlan plan = ProblemOf(**make("[vocab, 2 * n]")).value();
  EXPECT_EQ(plan.buffers[1].fill.kind, Fill::Kind::kOffsets);
  EXPECT_THAT(plan.buffers[1].fill.lengths, ElementsAre(100, 16));
  const auto mistake = [&](const std::string& lengths) {
    return std::string(ProblemOf(**make(lengths)).status().message());
  };
  EXPECT_THAT(mistake("[n, -1]"), HasSubstr("x.fill.lengths: -1 is no length"));
  EXPECT_THAT(mistake("[n / 3]"), HasSubstr("is no length"));
  EXPECT_THAT(mistake("n"), HasSubstr("a list"));
  EXPECT_THAT(mistake("[]"), HasSubstr("the list is empty"));
}

// The bytes that numpy.save writes.
std::string Npy(const std::string& type, const std::string& shape, const std::string& bytes) {
  std::string header =
      absl::StrCat("{'descr': '", type, "', 'fortran_order': False, 'shape': ", shape, ", }");
  header.resize(118 - 1, ' ');
  header += '\n';
  return absl::StrCat("\x93NUMPY", std::string("\x01\x00\x76\x00", 4), header, bytes);
}

TEST(DataFileTest, ReadsArraysAndBytes) {
  const std::string bytes(24, 'x');
  EXPECT_EQ(ReadDataFile("a", bytes, DType::kI32, {2, 3}, false)->elements, bytes);
  const std::string array = Npy("<i4", "(2, 3)", bytes);
  EXPECT_EQ(ReadDataFile("a.npy", array, DType::kI32, {2, 3}, false)->elements, bytes);
  EXPECT_EQ(ReadDataFile("a.npy", Npy("<f4", "(6,)", bytes), DType::kF16, {6}, true)->dtype,
            DType::kF32);
  EXPECT_EQ(ReadDataFile("a.npy", Npy("|V1", "(24,)", bytes), DType::kE4M3, {24}, false)->elements,
            bytes);
  const auto error = [](const std::string& file, bool wider) {
    return std::string(ReadDataFile("a.npy", file, DType::kF16, {6}, wider).status().message());
  };
  EXPECT_THAT(error(Npy("<f4", "(6,)", bytes), false), HasSubstr("its elements are f32, not f16"));
  EXPECT_THAT(error(Npy("<f2", "(2, 3)", std::string(12, 'x')), false),
              HasSubstr("its shape is (2, 3), not (6)"));
  EXPECT_THAT(error(Npy("<c8", "(6,)", bytes), false), HasSubstr("its type is '<c8'"));
  EXPECT_THAT(error(Npy("<f2", "(6,)", "x"), false), HasSubstr("1 bytes"));
  EXPECT_THAT(error(Npy("<f2", "(6,)", "x").substr(0, 20), false), HasSubstr("is cut"));
  EXPECT_THAT(error("xyz", false), HasSubstr("3 bytes of elements; (6) of f16 are 12"));
}

template <typename T>
std::vector<T> ElementsOf(const BufferPlan& buffer) {
  const std::string bytes = StructuredElements(buffer, /*key=*/5);
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  EXPECT_EQ(values.size(), static_cast<size_t>(buffer.count));
  return values;
}

TEST(StructuredFillTest, HaveTheirStructure) {
  BufferPlan buffer = {.name = "x", .dtype = DType::kI32, .count = 1000};
  buffer.fill = {.kind = Fill::Kind::kPermutation};
  std::vector<int32_t> values = ElementsOf<int32_t>(buffer);
  EXPECT_FALSE(std::is_sorted(values.begin(), values.end()));
  std::sort(values.begin(), values.end());
  for (int32_t i = 0; i < 1000; ++i) ASSERT_EQ(values[i], i);

  buffer.fill = {.kind = Fill::Kind::kSorted, .low = -5, .high = 50};
  values = ElementsOf<int32_t>(buffer);
  EXPECT_TRUE(std::is_sorted(values.begin(), values.end()));
  EXPECT_EQ(values.front(), -5);
  EXPECT_EQ(values.back(), 49);

  buffer.fill = {.kind = Fill::Kind::kOneHot, .rows = 100, .columns = 10};
  values = ElementsOf<int32_t>(buffer);
  for (int row = 0; row < 100; ++row) {
    EXPECT_EQ(std::count(values.begin() + 10 * row, values.begin() + 10 * row + 10, 1), 1);
    EXPECT_EQ(std::count(values.begin() + 10 * row, values.begin() + 10 * row + 10, 0), 9);
  }

  buffer.dtype = DType::kF32;
  buffer.fill = {.kind = Fill::Kind::kLowerTriangular, .rows = 10, .columns = 10};
  const std::vector<float> matrix = ElementsOf<float>(buffer);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(matrix[i] != 0, i % 10 <= i / 10 % 10) << i;
}

TEST(StructuredFillTest, OffsetsBeginTheirListAgain) {
  const BufferPlan buffer = {.name = "first",
                             .dtype = DType::kI64,
                             .count = 6,
                             .fill = {.kind = Fill::Kind::kOffsets, .lengths = {5, 0, 7}}};
  EXPECT_THAT(ElementsOf<int64_t>(buffer), ElementsAre(0, 5, 5, 12, 17, 17));
}

TEST(StructuredFillTest, TheColumnsOfASparseMatrixFitItsOffsets) {
  for (const int64_t nonzeros : {1, 37, 600, 1000}) {
    const Fill fill = {.kind = Fill::Kind::kCsrOffsets,
                       .high = static_cast<double>(nonzeros),
                       .rows = 50,
                       .columns = 20,
                       .key = "offsets"};
    const std::vector<int32_t> offsets =
        ElementsOf<int32_t>({.name = "offsets", .dtype = DType::kI32, .count = 51, .fill = fill});
    EXPECT_EQ(offsets.front(), 0);
    EXPECT_EQ(offsets.back(), nonzeros);
    BufferPlan columns = {.name = "columns", .dtype = DType::kI64, .count = nonzeros, .fill = fill};
    columns.fill.kind = Fill::Kind::kCsrColumns;
    const std::vector<int64_t> column_of = ElementsOf<int64_t>(columns);
    for (int row = 0; row < 50; ++row) {
      ASSERT_LE(offsets[row], offsets[row + 1]);
      for (int32_t i = offsets[row]; i < offsets[row + 1]; ++i) {
        EXPECT_LT(column_of[i], 20);
        EXPECT_GE(column_of[i], 0);
        if (i > offsets[row]) EXPECT_LT(column_of[i - 1], column_of[i]);
      }
    }
  }
}

}  // namespace
}  // namespace tune
