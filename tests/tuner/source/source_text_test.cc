// SPDX-License-Identifier: Apache-2.0
// Facts from the source's own text: functions, redefined macros, whether a spec's args fit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tuner/device/parameters.h"
#include "tuner/source/source_functions.h"
#include "tuner/source/source_macros.h"

namespace tune {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

CompilePlan PlanOfText(const std::string& text, const std::string& target = "cpu") {
  CompilePlan plan;
  plan.target = target;
  plan.source_name = "k.cu";
  plan.source_text = text;
  plan.entries = {"k"};
  plan.defines = {{"BLOCK", "128"}, {"TILE", "4"}, {"DTYPE", "float"}};
  return plan;
}

TEST(SourceFunctions, FindsDeclarationsAndNoCalls) {
  const CompilePlan plan = PlanOfText(R"(
#define KERNEL extern "C" __global__
template <int N = 2, class T = float>
__device__ T Twice(T x) { return k(x) * Twice<N>(x); }
namespace inner {
extern "C" {
__global__ void __launch_bounds__(BLOCK, 2)
    k(const float* __restrict__ x, unsigned long long n, Tile<int, 4> t, float (&a)[2]) noexcept {
  if (n) { k(x); }
}
}
}
const int table[] = {1, 2, k(3)};
int started = k(4);
KERNEL void late(void);
)");
  const std::vector<SourceFunction> functions = FunctionsOf(plan);
  ASSERT_EQ(functions.size(), 3u);
  EXPECT_EQ(functions[0].name, "Twice");
  EXPECT_FALSE(functions[0].global);
  EXPECT_EQ(functions[1].name, "k");
  EXPECT_EQ(functions[1].line, 8);
  EXPECT_TRUE(functions[1].global);
  EXPECT_TRUE(functions[1].defined);
  EXPECT_THAT(functions[1].parameters, ElementsAre("const float* x", "unsigned long long n",
                                                   "Tile<int,4> t", "float(& a)[2]"));
  EXPECT_EQ(functions[2].name, "late");
  EXPECT_TRUE(functions[2].global);
  EXPECT_FALSE(functions[2].defined);
  EXPECT_THAT(functions[2].parameters, IsEmpty());
}

TEST(SourceFunctions, SaysWhyAnEntryIsNoKernel) {
  EXPECT_EQ(WhyNoKernel(PlanOfText("\nextern \"C\" __device__ void k(int* x) {}\n"
                                   "__global__ void other() {}\n")),
            "k.cu:2: 'k' is no kernel: it is not __global__; it has: other");
  EXPECT_EQ(WhyNoKernel(PlanOfText("extern \"C\" __global__ void k(int* x);\n")),
            "k.cu:1: kernel 'k' is only declared: none of the kernel's files has its body");
  EXPECT_EQ(WhyNoKernel(PlanOfText("__device__ int kk() { return 1; }\n")),
            "k.cu: the source has no kernel 'k'; it has no kernel");
  CompilePlan header = PlanOfText("#include \"body.h\"\n__global__ void k(int* x);\n");
  header.headers = {{"body.h", "__global__ void k(int* x) {}\n"}};
  EXPECT_EQ(WhyNoKernel(header), "");
}

TEST(SourceFunctions, SaysNothingWhereTheTextCannotTell) {
  for (const char* text :
       {"extern \"C\" __global__ void k(int* x) {}\n",
        "__global__ void k(int* x);\nvoid k(int* x) {}\n",
        "#define KERNEL(name) extern \"C\" __global__ void name(int* x)\nKERNEL(k) {}\n",
        "#define MAKE(a) __global__ void a##k(int* x) {}\nMAKE()\n",
        "#define ALL __global__ void k(int* x) {}\nALL\n",
        "#define ATTRIBUTES __global__ __launch_bounds__(BLOCK)\nATTRIBUTES void k(int* x) {}\n",
        "#if A\nvoid f() {\n#else\nvoid g() {\n#endif\n}\n__global__ void k(int* x) {}\n",
        "/* a comment that does not end\n"}) {
    EXPECT_EQ(WhyNoKernel(PlanOfText(text)), "") << text;
  }
  CompilePlan by_spec = PlanOfText("ENTRY void k(int* x) {}\n");
  by_spec.defines.emplace_back("ENTRY", "__global__");
  EXPECT_EQ(WhyNoKernel(by_spec), "");
}

std::vector<std::string> Redefined(const std::string& text, const std::string& target = "cpu") {
  std::vector<std::string> found;
  for (const Redefinition& each : FindRedefinitions(PlanOfText(text, target))) {
    found.push_back(each.file + ":" + std::to_string(each.line) + " " + each.macro +
                    (each.certain ? "" : "?") + (each.only_undefined ? " undefined" : ""));
  }
  return found;
}

TEST(SourceMacros, FindsWhatHidesTheSpecsValue) {
  EXPECT_THAT(Redefined("int a;\n#define BLOCK 64\n"), ElementsAre("k.cu:2 BLOCK"));
  EXPECT_THAT(Redefined("#  undef TILE\n#define TILE 8\n"),
              ElementsAre("k.cu:1 TILE undefined", "k.cu:2 TILE"));
  EXPECT_THAT(Redefined("#ifdef BLOCK\n#define TILE 8\n#endif\n"), ElementsAre("k.cu:2 TILE"));
  EXPECT_THAT(Redefined("#if !defined(TUNE_REFERENCE)\n#define TILE 8\n#endif\n"),
              ElementsAre("k.cu:2 TILE"));
  EXPECT_THAT(Redefined("#if TILE > 2\n#define BLOCK 8\n#endif\n"), ElementsAre("k.cu:2 BLOCK?"));
  EXPECT_THAT(Redefined("#ifdef TUNE_CPU\n#define BLOCK 8\n#endif\n"), ElementsAre("k.cu:2 BLOCK"));
  EXPECT_THAT(Redefined("#ifdef OTHER\n#else\n#define DTYPE int\n#endif\n"),
              ElementsAre("k.cu:3 DTYPE?"));
  CompilePlan plan = PlanOfText("#include \"h.h\"\n");
  plan.headers = {{"h.h", "#ifndef H_H\n#define H_H\n#define BLOCK(x) x\n#endif\n"}};
  const std::vector<Redefinition> found = FindRedefinitions(plan);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_TRUE(found[0].certain) << "an include guard is no condition";
  EXPECT_EQ(found[0].file, "h.h");
  EXPECT_THAT(ToText(found[0]), HasSubstr("the source redefines BLOCK"));
}

TEST(SourceMacros, LeavesDefaultsAndOtherTargetsAlone) {
  EXPECT_THAT(Redefined("#ifndef BLOCK\n#define BLOCK 64\n#endif\n"), IsEmpty());
  EXPECT_THAT(Redefined("#if !defined(BLOCK)\n#define BLOCK 64\n#endif\n"), IsEmpty());
  EXPECT_THAT(Redefined("#if defined BLOCK\n#else\n#define BLOCK 64\n#endif\n"), IsEmpty());
  EXPECT_THAT(Redefined("#if TUNE_REFERENCE\n#define BLOCK 64\n#endif\n"), IsEmpty());
  EXPECT_THAT(Redefined("#if 0\n#define BLOCK 64\n#endif\n// #define BLOCK 3\n"), IsEmpty());
  EXPECT_THAT(Redefined("#ifdef TUNE_CPU\n#define BLOCK 8\n#endif\n", "sm_90a"), IsEmpty());
  EXPECT_THAT(Redefined("#define BLOCKS (BLOCK * 2)\n#undef OTHER\n"), IsEmpty());
}

BufferPlan Buffer(const std::string& name, DType dtype, Role role = Role::kInput) {
  return {.name = name, .dtype = dtype, .count = 8, .role = role};
}
ScalarPlan Scalar(const std::string& name, DType dtype) { return {.name = name, .dtype = dtype}; }

constexpr char kText[] = "\nextern \"C\" __global__ void k(const float* x, float* out, int n) {}\n";

// Asks about the program's only entry.
std::string WhyNot(const CompilePlan& plan, const std::string& entry,
                   const std::vector<ArgPlan>& args, const std::vector<ParameterFact>& parameters) {
  return WhyArgsDoNotFit(plan, entry, args, parameters, /*alone=*/true);
}

TEST(Parameters, MatchingParametersGiveNoMessage) {
  const std::vector<ArgPlan> args = {Buffer("x", DType::kF32),
                                     Buffer("out", DType::kF32, Role::kOutput),
                                     Scalar("n", DType::kI32)};
  EXPECT_EQ(WhyNot(PlanOfText(kText), "k", args, {{8, "const float*"}, {8, "float*"}, {4, "int"}}),
            "");
  EXPECT_EQ(WhyNot(PlanOfText(kText), "k", args, {{8, ".u64"}, {8, ".ptr"}, {4, ".u32"}}), "");
  EXPECT_EQ(WhyOrderIsDoubtful(PlanOfText(kText), "k", args), "");
}

TEST(Parameters, ATypeThatDoesNotFitIsNamedWithTheSourcesWords) {
  const std::vector<ArgPlan> args = {Scalar("n", DType::kI32), Buffer("x", DType::kF32),
                                     Buffer("out", DType::kF32, Role::kOutput)};
  const std::string why =
      WhyNot(PlanOfText(kText), "k", args, {{8, "const float*"}, {8, "float*"}, {4, "int"}});
  EXPECT_EQ(
      why,
      "k.cu:2: arg 1 'n' is a scalar i32 in the spec; parameter 1 of 'k' is 'const float* x'; "
      "parameter 3 is called 'n'\n"
      "k.cu:2: arg 3 'out' is a buffer of f32 (an output) in the spec; parameter 3 of 'k' is "
      "'int n'; parameter 2 is called 'out'");
  EXPECT_THAT(WhyNot(PlanOfText(kText), "k", args, {{8, ".u64"}, {8, ".u64"}, {4, ".u32"}}),
              HasSubstr("arg 1 'n' is a scalar i32 in the spec"));
}

TEST(Parameters, ADifferentCountIsAnError) {
  EXPECT_EQ(WhyNot(PlanOfText(kText), "k", {Buffer("x", DType::kF32)},
                   {{8, "const float*"}, {8, "float*"}, {4, "int"}}),
            "k.cu:2: 'k' takes 3 parameters; the spec has 1 args: no arg is left for parameter 2, "
            "'float* out'");
  EXPECT_THAT(WhyNot(PlanOfText("__global__ void k(float* x) {}"), "k",
                     {Buffer("x", DType::kF32), Scalar("n", DType::kI32)}, {{8, ".u64"}}),
              HasSubstr("no parameter is left for arg 2 'n'"));
}

struct TypeCase {
  ArgPlan arg;
  ParameterFact parameter;
  bool fits;
};

TEST(Parameters, TypesFitAsKernelsUseThem) {
  const std::vector<TypeCase> cases = {
      {Buffer("x", DType::kF32), {8, "const double*"}, false},
      {Buffer("x", DType::kF64), {8, "const float *"}, false},
      {Buffer("x", DType::kBF16), {8, "const __nv_bfloat16*"}, true},
      {Buffer("x", DType::kBF16), {8, "const __half*"}, false},
      {Buffer("x", DType::kBF16), {8, "short unsigned int*"}, true},
      {Buffer("x", DType::kBF16), {8, "const uint4*"}, true},
      {Buffer("x", DType::kE4M3), {8, "const __nv_fp8_e4m3*"}, true},
      {Buffer("x", DType::kE4M3), {8, "const unsigned char*"}, true},
      {Buffer("x", DType::kE4M3), {8, "const __half*"}, false},
      {Buffer("x", DType::kF32), {8, "int*"}, false},
      {Buffer("x", DType::kI32), {8, "const float*"}, false},
      {Buffer("x", DType::kI32), {8, "unsigned int*"}, true},
      {Buffer("x", DType::kI64), {8, "int*"}, false},
      {Buffer("x", DType::kI64), {8, "long int*"}, true},
      {Buffer("x", DType::kI64), {8, "const long long*"}, true},
      {Buffer("x", DType::kI8), {8, "const int*"}, true},
      {Buffer("x", DType::kU8), {8, "const float*"}, true},
      {Buffer("x", DType::kU8), {8, "const void*"}, true},
      {Buffer("x", DType::kF32), {8, "long long int"}, false},
      {Buffer("x", DType::kF32), {8, "double"}, false},
      {Buffer("x", DType::kF32), {8, "Wrapped"}, true},
      {Buffer("x", DType::kF32), {8, ".f64"}, false},
      {Buffer("x", DType::kF32, Role::kOutput), {8, "const float*"}, false},
      {Buffer("x", DType::kF32, Role::kInOut), {8, "float*"}, true},
      {Scalar("n", DType::kI32), {4, "unsigned int"}, true},
      {Scalar("n", DType::kI32), {8, "long int"}, false},
      {Scalar("n", DType::kI64), {8, "float*"}, false},
      {Scalar("n", DType::kI64), {8, ".u64"}, true},
      {Scalar("n", DType::kI64), {8, ".ptr"}, false},
      {Scalar("n", DType::kF32), {4, "float"}, true},
      {Scalar("n", DType::kF32), {4, "int"}, false},
      {Scalar("n", DType::kF32), {4, ".u32"}, false},
      {Scalar("n", DType::kI32), {4, ".f32"}, false},
      {Scalar("n", DType::kF64), {8, ".f64"}, true},
      {TensorMapPlan{.name = "m"}, {128, ".b8"}, true},
      {TensorMapPlan{.name = "m"}, {8, ".u64"}, false},
  };
  for (const TypeCase& c : cases) {
    const std::string why = WhyNot(PlanOfText(kText), "k", {c.arg}, {c.parameter});
    EXPECT_EQ(why.empty(), c.fits) << c.parameter.type << ": " << why;
  }
}

TEST(Parameters, AnOutputMayBeConstOnlyInOneOfSeveralEntries) {
  const std::vector<ArgPlan> args = {Buffer("x", DType::kF32, Role::kOutput)};
  const CompilePlan plan = PlanOfText(kText);
  EXPECT_THAT(WhyArgsDoNotFit(plan, "k", args, {{8, "const float*"}}, /*alone=*/true),
              HasSubstr("it is const, and the spec has the kernel write to it"));
  EXPECT_EQ(WhyArgsDoNotFit(plan, "k", args, {{8, "const float*"}}, /*alone=*/false), "");
}

TEST(Parameters, ASwappedOrderOfEqualTypesIsDoubted) {
  const std::string text = "__global__ void k(float* out, float* x, int n) {}\n";
  const std::vector<ArgPlan> args = {Buffer("x", DType::kF32),
                                     Buffer("out", DType::kF32, Role::kOutput),
                                     Scalar("n", DType::kI32)};
  EXPECT_EQ(WhyOrderIsDoubtful(PlanOfText(text), "k", args),
            "k.cu:1: the order may be wrong: arg 1 'x' of the spec goes to parameter 1 of 'k', "
            "which is 'float* out'; parameter 2 is called 'x'");
  const CompilePlan other = PlanOfText("__global__ void k(float* a, float* b, int c) {}\n");
  EXPECT_EQ(WhyOrderIsDoubtful(other, "k", args), "");
}

TEST(MacroInTheWay, NamesTheMacroThatAHeaderHasAsItsOwnName) {
  CompilePlan plan;
  plan.source_name = "k.cu";
  plan.defines = {{"DTYPE", "float"}, {"T", "32"}};
  const auto note = [&](const std::string& log) { return MacroInTheWay(plan, log); };
  EXPECT_EQ(note("__nv_header.h(3379): error: expected an identifier\n  template<typename T>\n"),
            "T is a macro of the spec (here 32), and __nv_header.h has a name of its own that is "
            "called so: rename the param or define, such as to T_SIZE\n");
  EXPECT_THAT(
      note("In file included from k.cu:1:\n/usr/include/c++/12/cmath:47:20: error: expected "
           "identifier before numeric constant\n   47 | template<typename T>\n"),
      testing::StartsWith("T is a macro of the spec (here 32), and /usr/include/"));
  EXPECT_THAT(note("k.cu(3): error: expected an identifier\n  template <typename T>\n"),
              testing::StartsWith("T is a macro"));
  EXPECT_EQ(note("k.cu(3): error: identifier \"y\" is undefined\n  y[T] = 1;\n"), "");
  EXPECT_EQ(note("__nv_header.h(3): error: expected an identifier\n  template<typename TT>\n"), "");
  EXPECT_EQ(note("ld: error: none"), "");
  EXPECT_EQ(note(""), "");
}

}  // namespace
}  // namespace tune
