// SPDX-License-Identifier: Apache-2.0
#include "tuner/device/cpu/cpu_compiler.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/catalogue.h"
#include "server/wire/spec.h"
#include "tuner/device/cpu/kernel_facts.h"
#include "tuner/device/cpu/shared_arrays.h"
#include "tuner/kernel/kernel.h"

namespace tune::cpu {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::MatchesRegex;
using testing::Not;

CompilePlan PlanOf(const std::string& text) {
  CompilePlan plan;
  plan.target = "cpu";
  plan.source_name = "sample.cu";
  plan.source_text = text;
  plan.entries = {"sample"};
  return plan;
}

class CpuCompilerTest : public testing::Test {
 protected:
  void SetUp() override {
    absl::StatusOr<std::unique_ptr<Compiler>> compiler = MakeCompiler();
    ASSERT_TRUE(compiler.ok()) << compiler.status();
    compiler_ = *std::move(compiler);
  }
  Artifact Compile(const CompilePlan& plan) {
    absl::StatusOr<Artifact> variant = compiler_->Compile(plan);
    EXPECT_TRUE(variant.ok()) << variant.status();
    return variant.ok() ? *std::move(variant) : Artifact();
  }
  std::unique_ptr<Compiler> compiler_;
};

// A kernel's shared object, loaded.
class Loaded {
 public:
  explicit Loaded(const std::string& binary) {
    std::string path = testing::TempDir() + "/kernel-XXXXXX";
    const int fd = mkstemp(path.data());
    EXPECT_EQ(write(fd, binary.data(), binary.size()), static_cast<ssize_t>(binary.size()));
    close(fd);
    handle_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    EXPECT_NE(handle_, nullptr) << dlerror();
    std::filesystem::remove(path);
  }
  ~Loaded() {
    if (handle_ != nullptr) dlclose(handle_);
  }
  template <class T>
  T Find(const char* name) const {
    void* symbol = handle_ == nullptr ? nullptr : dlsym(handle_, name);
    EXPECT_NE(symbol, nullptr) << name;
    return reinterpret_cast<T>(symbol);
  }

 private:
  void* handle_ = nullptr;
};

TEST_F(CpuCompilerTest, VersionNamesCompilerAndCpu) {
  EXPECT_THAT(compiler_->Version(),
              MatchesRegex("(g|clang)\\+\\+ [0-9.]+ [a-z0-9-]+-[0-9a-f]+( sanitized)?"));
}

TEST_F(CpuCompilerTest, GivesASharedObjectAndItsSize) {
  const Artifact variant =
      Compile(PlanOf("extern \"C\" __global__ void sample(float* x) { x[threadIdx.x] = 1; }"));
  ASSERT_EQ(variant.outcome, Outcome::kOk) << variant.log;
  EXPECT_EQ(variant.binary.substr(1, 3), "ELF");
  EXPECT_EQ(variant.resources.binary_bytes, static_cast<int64_t>(variant.binary.size()));
  EXPECT_EQ(variant.resources.binary_sha256.size(), 64u);
  EXPECT_GT(variant.seconds, 0);
  const Loaded loaded(variant.binary);
  EXPECT_EQ(*loaded.Find<unsigned*>("tune_cpu_parameters_sample"), 1u);
}

TEST_F(CpuCompilerTest, ErrorsNameTheSourceAndItsLine) {
  CompilePlan plan = PlanOf(
      "extern \"C\" __global__ void sample(float* x) {\n"
      "  extern __shared__ __align__(16)\n"
      "      float tile[];\n"
      "  x[0] = tile[0] + lost;\n"
      "}\n");
  const Artifact variant = Compile(plan);
  EXPECT_EQ(variant.outcome, Outcome::kCompileFailed);
  EXPECT_THAT(variant.log, HasSubstr("sample.cu:4:"));
  EXPECT_THAT(variant.log, HasSubstr("lost"));
  EXPECT_THAT(variant.log, Not(HasSubstr("tune-cpu-")));
}

TEST_F(CpuCompilerTest, HeadersOfTheRequestAndDefinesArrive) {
  CompilePlan plan = PlanOf(
      "#include \"parts/first.h\"\n#include <cuda_bf16.h>\n"
      "extern \"C\" __global__ void sample(float* x) {\n"
      "  x[0] = First() + static_cast<T>(WIDTH);\n}\n");
  plan.headers = {{"parts/first.h", "#pragma once\n#include \"second.h\"\n"},
                  {"parts/second.h", "__device__ inline float First() { return 1.0f; }\n"}};
  plan.defines = {{"T", "unsigned long long"}, {"WIDTH", "4 + 4"}, {"EMPTY", ""}};
  EXPECT_EQ(Compile(plan).outcome, Outcome::kOk) << Compile(plan).log;
}

TEST_F(CpuCompilerTest, AnEntryThatIsNoKernelIsNamedWithItsLine) {
  struct Case {
    const char* text;
    const char* message;
  };
  for (const Case& c : std::initializer_list<Case>{
           {"__global__ void other() {}\n",
            "sample.cu: the source has no kernel 'sample'; it has: other"},
           {"\nextern \"C\" void sample(float* x) { x[0] = 1; }\n",
            "sample.cu:2: 'sample' is no kernel: it is not __global__"},
           {"\n\nextern \"C\" __global__ void sample(float* x);\n",
            "sample.cu:3: kernel 'sample' is only declared"},
           {"__device__ float Lost(float x);\n"
            "extern \"C\" __global__ void sample(float* x) { x[0] = Lost(x[1]); }\n",
            "undefined reference to `Lost(float)'"},
           {"#if WIDTH > 8\nextern \"C\" __global__ void sample(float* x) { x[0] = 1; }\n#endif\n",
            "sample.cu:2: 'sample' is not there as a kernel once the source is preprocessed"}}) {
    const Artifact variant = Compile(PlanOf(c.text));
    EXPECT_EQ(variant.outcome, Outcome::kCompileFailed) << c.text;
    EXPECT_THAT(variant.log, HasSubstr(c.message)) << c.text;
  }
}

TEST_F(CpuCompilerTest, TellsTheTypesOfTheParameters) {
  const Artifact variant = Compile(PlanOf(
      "#include <cuda_bf16.h>\nstruct Pair { float a, b; };\nnamespace inner { enum class E {}; }\n"
      "extern \"C\" __global__ void sample(const __nv_bfloat16* __restrict__ x, const float n,\n"
      "                                  long long m, uint4* v, Pair p, inner::E e) {}\n"));
  ASSERT_EQ(variant.outcome, Outcome::kOk) << variant.log;
  ASSERT_EQ(variant.entries.size(), 1u);
  ASSERT_TRUE(variant.entries[0].parameters.has_value());
  std::vector<std::string> facts;
  for (const ParameterFact& fact : *variant.entries[0].parameters) {
    std::string text = fact.type + " " + std::to_string(fact.bytes);
    text.erase(std::remove(text.begin(), text.end(), ' '), text.end());
    facts.push_back(text);
  }
  EXPECT_THAT(facts, testing::ElementsAre("const__nv_bfloat16*8", "float4",
                                          testing::AnyOf("longlongint8", "longlong8"), "uint4*8",
                                          "Pair8", "inner::E4"));
  const Artifact none = Compile(PlanOf("extern \"C\" __global__ void sample() {}\n"));
  ASSERT_TRUE(none.entries.at(0).parameters.has_value());
  EXPECT_TRUE(none.entries[0].parameters->empty());
}

// The reader's own bounds: a stranger's compile may leave anything.
TEST_F(CpuCompilerTest, DamagedSharedObjectsTellNothing) {
  const Artifact variant =
      Compile(PlanOf("extern \"C\" __global__ void sample(float* x) { x[0] = 1; }\n"));
  ASSERT_EQ(variant.outcome, Outcome::kOk) << variant.log;
  EXPECT_TRUE(ReadParameterFacts(variant.binary, "sample").has_value());
  EXPECT_FALSE(ReadParameterFacts(variant.binary, "other").has_value());
  EXPECT_FALSE(ReadParameterFacts("", "sample").has_value());
  EXPECT_FALSE(ReadParameterFacts("\x7f"
                                  "ELF",
                                  "sample")
                   .has_value());
  for (size_t size = 0; size < variant.binary.size(); size += 97) {
    (void)ReadParameterFacts(variant.binary.substr(0, size), "sample");
  }
  for (size_t at = 0; at < variant.binary.size(); at += 61) {
    std::string damaged = variant.binary;
    damaged[at] = static_cast<char>(~damaged[at]);
    (void)ReadParameterFacts(damaged, "sample");
  }
}

// No option reaches the system's compiler, however it is spelt.
TEST_F(CpuCompilerTest, RefusesEveryOption) {
  const std::string left = testing::TempDir() + "/left-behind";
  for (const std::string& option : std::vector<std::string>{"-fplugin=/tmp/evil.so",
                                                            "-wrapper",
                                                            "-B/tmp",
                                                            "-specs=/tmp/specs",
                                                            "@/tmp/file",
                                                            "-include",
                                                            "/etc/passwd",
                                                            "-I/",
                                                            "-isystem/",
                                                            "-iquote/",
                                                            "-imacros",
                                                            "-o" + left,
                                                            "-save-temps=" + left,
                                                            "-dumpbase",
                                                            "-dumpdir",
                                                            "-fdump-tree-all=" + left,
                                                            "-fprofile-use=" + left,
                                                            "-fprofile-generate",
                                                            "--coverage",
                                                            "-Wl,-Map=" + left,
                                                            "-Wa,-a=" + left,
                                                            "-Xlinker",
                                                            "-MF" + left,
                                                            "-MD",
                                                            "-fstack-usage",
                                                            "-ftest-coverage",
                                                            "-L/tmp",
                                                            "-lc",
                                                            "-fuse-ld=/tmp/ld",
                                                            "-E",
                                                            "-x",
                                                            "--sysroot=/",
                                                            "-O2",
                                                            "--use_fast_math"}) {
    CompilePlan plan = PlanOf("extern \"C\" __global__ void sample() {}\n");
    plan.options = {option};
    const Artifact variant = Compile(plan);
    EXPECT_EQ(variant.outcome, Outcome::kInvalidConfig) << option;
    EXPECT_THAT(variant.log, HasSubstr("option '" + option + "' is not allowed"));
    EXPECT_EQ(variant.binary.size(), 0u) << option;
  }
  EXPECT_FALSE(std::filesystem::exists(left));
}

// Options in the source's own text: what a compiler takes of them names no file.
TEST_F(CpuCompilerTest, OptionsInTheSourceWriteAndReadNoFile) {
  const std::string left = testing::TempDir() + "/left-behind";
  for (const std::string& option :
       std::vector<std::string>{"-fdump-tree-all=" + left, "-fplugin=" + left,
                                "-fprofile-use=" + left, "-fdump-rtl-expand=" + left, "-save-temps",
                                "-fopt-info-all=" + left, "-fstack-usage", "-fcallgraph-info"}) {
    for (const std::string& text : {"#pragma GCC optimize(\"" + option + "\")\n",
                                    "__attribute__((optimize(\"" + option + "\"))) void f() {}\n",
                                    "#pragma GCC target(\"" + option + "\")\n"}) {
      Compile(PlanOf(text + "extern \"C\" __global__ void sample() {}\n"));
      EXPECT_FALSE(std::filesystem::exists(left)) << text;
    }
  }
}

TEST_F(CpuCompilerTest, RefusesSourcesThatReadOtherFiles) {
  for (const char* text :
       {"#include \"/etc/passwd\"\n", "#include <../etc/passwd>\n",
        "#pragma GCC dependency \"/etc/passwd\"\n", "const char* x = \".incbin\";\n"}) {
    const Artifact variant = Compile(PlanOf(text));
    EXPECT_EQ(variant.outcome, Outcome::kInvalidConfig) << text << variant.log;
    EXPECT_THAT(variant.log, HasSubstr("sample.cu:1:")) << text;
  }
}

TEST_F(CpuCompilerTest, RefusesAssembly) {
  const Artifact variant =
      Compile(PlanOf("extern \"C\" __global__ void sample() { asm(\"nop\"); }\n"));
  EXPECT_EQ(variant.outcome, Outcome::kCompileFailed);
  EXPECT_THAT(variant.log, HasSubstr("sample.cu:1:"));
}

// The directive is put together where no source shows it.
TEST_F(CpuCompilerTest, RefusesAssemblyHiddenInASectionsName) {
  const std::string secret = testing::TempDir() + "/secret.txt";
  std::ofstream(secret) << "a secret of this host";
  const Artifact variant =
      Compile(PlanOf("#define TEXT(x) TEXT2(x)\n#define TEXT2(x) #x\n#define PASTE(a, b) a##b\n"
                     "__attribute__((section(\".data\\n.\" TEXT(PASTE(inc, bin)) \" \\\"" +
                     secret +
                     "\\\"\\n#\")))\nint stolen = 1;\n"
                     "extern \"C\" __global__ void sample(int* x) { *x = (&stolen)[1]; }\n"));
  std::filesystem::remove(secret);
  EXPECT_EQ(variant.outcome, Outcome::kInvalidConfig) << variant.log;
  EXPECT_THAT(variant.log, HasSubstr("assembler"));
  EXPECT_EQ(variant.binary.find("a secret"), std::string::npos);
  EXPECT_EQ(variant.binary.size(), 0u);
}

// All patterns, and what lies between neighbours, against arithmetic that knows nothing of bits.
TEST_F(CpuCompilerTest, EightBitFloatsConvertExactly) {
  const Artifact variant = Compile(PlanOf(R"(
#include <cuda_fp8.h>
extern "C" __attribute__((visibility("default"))) float From(unsigned char x) {
  __nv_fp8_e4m3 narrow;
  narrow.__x = x;
  return static_cast<float>(narrow);
}
extern "C" __attribute__((visibility("default"))) unsigned char To(float x) {
  return __nv_fp8_e4m3(x).__x;
}
extern "C" __global__ void sample() {}
)"));
  ASSERT_EQ(variant.outcome, Outcome::kOk) << variant.log;
  const Loaded loaded(variant.binary);
  const auto from = loaded.Find<float (*)(uint8_t)>("From");
  const auto to = loaded.Find<uint8_t (*)(float)>("To");
  for (int bits = 0; bits < 127; ++bits) {
    const int exponent = bits >> 3;
    const double value =
        exponent == 0 ? std::ldexp(bits & 7, -9) : std::ldexp(8 + (bits & 7), exponent - 10);
    EXPECT_EQ(from(static_cast<uint8_t>(bits)), value) << bits;
    EXPECT_EQ(from(static_cast<uint8_t>(bits | 0x80)), -value) << bits;
    EXPECT_EQ(to(static_cast<float>(value)), bits);
    if (bits == 126) continue;
    const float next = from(static_cast<uint8_t>(bits + 1));
    const float middle = (static_cast<float>(value) + next) / 2;
    EXPECT_EQ(to(middle), bits + bits % 2) << "a tie goes to the even one";
    EXPECT_EQ(to(-std::nextafter(middle, next)), (bits + 1) | 0x80);
    EXPECT_EQ(to(std::nextafter(middle, 0.0f)), bits);
  }
  EXPECT_EQ(to(1e30f), 0x7e) << "there are no infinities";
  EXPECT_EQ(to(NAN), 0x7f);
  EXPECT_TRUE(std::isnan(from(0x7f)) && std::isnan(from(0xff)));
}

// All patterns, both ways, against arithmetic that knows nothing of bits.
TEST_F(CpuCompilerTest, SixteenBitTypesConvertExactly) {
  const Artifact variant = Compile(PlanOf(R"(
#include <cuda_bf16.h>
#include <cuda_fp16.h>
extern "C" __attribute__((visibility("default"))) float FromHalf(unsigned short x) {
  return __half2float(__ushort_as_half(x));
}
extern "C" __attribute__((visibility("default"))) unsigned short ToHalf(float x) {
  return __half_as_ushort(__float2half(x));
}
extern "C" __attribute__((visibility("default"))) float FromBrain(unsigned short x) {
  return __bfloat162float(__ushort_as_bfloat16(x));
}
extern "C" __attribute__((visibility("default"))) unsigned short ToBrain(float x) {
  return __bfloat16_as_ushort(__float2bfloat16(x));
}
extern "C" __global__ void sample() {}
)"));
  ASSERT_EQ(variant.outcome, Outcome::kOk) << variant.log;
  const Loaded loaded(variant.binary);
  struct Format {
    float (*from)(uint16_t);
    uint16_t (*to)(float);
    int mantissa_bits;
    int bias;
  };
  const Format formats[] = {{loaded.Find<float (*)(uint16_t)>("FromHalf"),
                             loaded.Find<uint16_t (*)(float)>("ToHalf"), 10, 15},
                            {loaded.Find<float (*)(uint16_t)>("FromBrain"),
                             loaded.Find<uint16_t (*)(float)>("ToBrain"), 7, 127}};
  for (const Format& format : formats) {
    const int exponent_max = (1 << (15 - format.mantissa_bits)) - 1;
    auto value_of = [&](int bits) {
      const int exponent = (bits & 0x7fff) >> format.mantissa_bits;
      const int mantissa = bits & ((1 << format.mantissa_bits) - 1);
      const int leading = exponent == 0 ? 0 : 1 << format.mantissa_bits;
      const double size = std::ldexp(leading + mantissa,
                                     std::max(exponent, 1) - format.bias - format.mantissa_bits);
      return (bits & 0x8000) != 0 ? -size : size;
    };
    int wrong = 0;
    for (int bits = 0; bits < 65536; ++bits) {
      const auto pattern = static_cast<uint16_t>(bits);
      const float value = format.from(pattern);
      const int exponent = (bits & 0x7fff) >> format.mantissa_bits;
      const bool nan = exponent == exponent_max && (bits & ((1 << format.mantissa_bits) - 1)) != 0;
      if (nan) {
        wrong += !std::isnan(value) || !std::isnan(format.from(format.to(value)));
        continue;
      }
      wrong += format.to(value) != pattern;
      if (exponent == exponent_max) {
        wrong += !std::isinf(value) || std::signbit(value) != ((bits & 0x8000) != 0);
        continue;
      }
      wrong += value != value_of(bits);
      // Half way to the next one rounds to the even one; a little less or more does not.
      if (exponent == exponent_max - 1 &&
          (bits & ((1 << format.mantissa_bits) - 1)) == (1 << format.mantissa_bits) - 1) {
        continue;
      }
      const double half_way = (value_of(bits) + value_of(bits + 1)) / 2;
      const auto middle = static_cast<float>(half_way);
      if (middle != half_way) continue;  // between two subnormals of float
      wrong += format.to(middle) != ((bits & 1) != 0 ? bits + 1 : bits);
      wrong += format.to(std::nextafter(middle, 0.0f)) != bits;
    }
    EXPECT_EQ(wrong, 0) << format.mantissa_bits << " bits of mantissa";
  }
}

TEST_F(CpuCompilerTest, DynamicSharedMemoryAtNamespaceScopeIsSetPerLaunch) {
  const Artifact variant = Compile(PlanOf(R"(
extern __shared__ __align__(128) unsigned char bytes[];
namespace inner { extern volatile __shared__ float tile[][4]; }
extern "C" __attribute__((visibility("default"))) void* First() { return bytes; }
extern "C" __attribute__((visibility("default"))) void* Second() {
  return (void*)&inner::tile[1][1];
}
extern "C" __global__ void sample() { bytes[0] = 1; inner::tile[0][1] = 2.0f; }
)"));
  ASSERT_EQ(variant.outcome, Outcome::kOk) << variant.log;
  const Loaded loaded(variant.binary);
  unsigned char memory[64];
  loaded.Find<void (*)(unsigned char*)>("tune_cpu_set_shared")(memory);
  EXPECT_EQ(loaded.Find<void* (*)()>("First")(), memory);
  EXPECT_EQ(loaded.Find<void* (*)()>("Second")(), memory + 20);
}

TEST(SharedArraysTest, RewritesDeclarationsOnly) {
  for (const char* text :
       {"// extern __shared__ float a[];\n", "const char* a = \"extern __shared__ float a[];\";\n",
        "auto a = R\"(extern __shared__ float a[];)\";\n", "extern \"C\" void f();\n",
        "extern int a[];\n", "__shared__ float a[4];\n", "extern", "extern __shared__", "R\"("}) {
    EXPECT_EQ(RewriteSharedArrays(text), text);
  }
}

TEST(SharedArraysTest, InsideAFunctionItIsAPointer) {
  EXPECT_EQ(RewriteSharedArrays("extern \"C\" __global__ void f() {\n  extern __shared__\n"
                                "      __align__(16) float a /* b */ [];\n}\n"),
            "extern \"C\" __global__ void f() {\n"
            "  auto* a = ::tune_cpu::DynamicShared<float>()\n;\n}\n");
  // A closing brace for two opening ones.
  EXPECT_EQ(RewriteSharedArrays("#if A\nvoid f() {\n#else\nvoid g() {\n#endif\n"
                                "extern __shared__ int a[][3];\n}\n"),
            "#if A\nvoid f() {\n#else\nvoid g() {\n#endif\n"
            "auto* a = ::tune_cpu::DynamicShared<int[3]>();\n}\n");
}

TEST(SharedArraysTest, AlignmentStandsWhereCppAllowsIt) {
  EXPECT_EQ(RewriteSharedArrays("__shared__ alignas(16) float a[4];\nalignas(8) int b;\n"),
            "__shared__ __align__(16) float a[4];\nalignas(8) int b;\n");
  EXPECT_EQ(RewriteSharedArrays("volatile __shared__\n  alignas(64) int a;"),
            "volatile __shared__\n  __align__(64) int a;");
}

// A compiler whose scratch folders are where the test can look.
class CpuCompilerFolderTest : public CpuCompilerTest {
 protected:
  void SetUp() override {
    path_ = testing::TempDir() + "/compile-XXXXXX";
    ASSERT_NE(mkdtemp(path_.data()), nullptr);
    const char* before = getenv("TMPDIR");
    old_ = before == nullptr ? "/tmp" : before;
    setenv("TMPDIR", path_.c_str(), 1);
    CpuCompilerTest::SetUp();
  }
  void TearDown() override {
    setenv("TMPDIR", old_.c_str(), 1);
    std::filesystem::remove_all(path_);
  }
  // The names of all files below the compiler's folder.
  std::set<std::string> Names() const {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(path_)) {
      names.insert(entry.path().filename().string());
    }
    return names;
  }
  const CompilePlan plan_ = PlanOf(
      "#include <cuda_fp16.h>\n"
      "extern \"C\" __global__ void sample(float* x) {\n"
      "  x[threadIdx.x] = __half2float(__float2half(x[threadIdx.x]));\n}\n");
  std::string path_, old_;
};

TEST_F(CpuCompilerFolderTest, LeavesNothingBehind) {
  Compile(plan_);
  Compile(PlanOf("extern \"C\" __global__ void sample() { oops }\n"));
  EXPECT_THAT(Names(), AllOf(Contains("prelude.h"), Not(Contains("sample.cu"))));
  compiler_ = nullptr;
  EXPECT_THAT(Names(), IsEmpty());
}

TEST_F(CpuCompilerFolderTest, APrecompiledPreludeChangesNoCode) {
  const Artifact first = Compile(plan_);
  EXPECT_THAT(Names(), Not(Contains("prelude.h.gch")));
  for (int i = 0; i < 3; ++i) Compile(plan_);
  if (!testing::Matches(HasSubstr("clang"))(compiler_->Version())) {
    EXPECT_THAT(Names(), Contains("prelude.h.gch"));
    EXPECT_THAT(Names(), Not(Contains("part")));
  }
  EXPECT_EQ(Compile(plan_).binary, first.binary);
  CompilePlan hostile = plan_;
  hostile.source_text += "#define JOIN(a, b) a##b\nvoid F() { JOIN(as, m)(\"nop\"); }\n";
  EXPECT_EQ(Compile(hostile).outcome, Outcome::kCompileFailed);
}

TEST_F(CpuCompilerFolderTest, ADeletedPreludeIsWrittenAgain) {
  Compile(plan_);
  for (const auto& folder : std::filesystem::directory_iterator(path_)) {
    std::filesystem::remove_all(folder.path() / "prelude");
  }
  EXPECT_EQ(Compile(plan_).outcome, Outcome::kOk);
}

TEST_F(CpuCompilerTest, EveryCatalogueKernelCompilesWithItsDefaults) {
  const TargetTraits traits = TargetTraitsFor("cpu").value();
  const std::vector<CatalogueEntry> catalogue = LoadCatalogue().value();
  int compiled_count = 0;
  for (const CatalogueEntry& entry : catalogue) {
    SCOPED_TRACE(entry.name);
    absl::StatusOr<std::shared_ptr<const Kernel>> kernel =
        server::ReadKernel(entry.spec_name, entry.spec_text, entry.files);
    ASSERT_TRUE(kernel.ok()) << kernel.status();
    if (!(*kernel)->RunsOn("cpu")) continue;
    absl::StatusOr<Problem> problem = (*kernel)->MakeProblem({}, "", "cpu");
    ASSERT_TRUE(problem.ok()) << problem.status();
    absl::StatusOr<Config> config = (*kernel)->DefaultConfig(*problem, traits);
    ASSERT_TRUE(config.ok()) << config.status();
    absl::StatusOr<ProgramPlan> variant = (*kernel)->PlanProgram(*problem, traits, *config);
    ASSERT_TRUE(variant.ok()) << variant.status();
    ++compiled_count;
    const Artifact compiled = Compile(variant->compile);
    EXPECT_EQ(compiled.outcome, Outcome::kOk) << compiled.log;
    absl::StatusOr<ProblemPlan> plan = (*kernel)->PlanProblem(*problem, traits);
    ASSERT_TRUE(plan.ok()) << plan.status();
    const Artifact reference = Compile(plan->reference.compile);
    EXPECT_EQ(reference.outcome, Outcome::kOk) << reference.log;
  }
  EXPECT_GE(compiled_count, 3);
}

}  // namespace
}  // namespace tune::cpu
