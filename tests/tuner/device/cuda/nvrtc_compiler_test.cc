// SPDX-License-Identifier: Apache-2.0
#include "tuner/device/cuda/nvrtc_compiler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <memory>
#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "tuner/device/cuda/ptx_parameters.h"

namespace tune::cuda {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class NvrtcCompilerTest : public testing::Test {
 protected:
  void SetUp() override {
    absl::StatusOr<std::unique_ptr<Compiler>> compiler = MakeNvrtcCompiler();
    ASSERT_TRUE(compiler.ok()) << compiler.status();
    compiler_ = std::move(compiler).value();
  }

  Artifact Compile(const CompilePlan& plan) {
    absl::StatusOr<Artifact> variant = compiler_->Compile(plan);
    EXPECT_TRUE(variant.ok()) << variant.status();
    return variant.ok() ? std::move(variant).value() : Artifact();
  }

  std::unique_ptr<Compiler> compiler_;
};

CompilePlan ScalePlan(const std::string& text, const std::string& target = "sm_90a") {
  CompilePlan plan;
  plan.target = target;
  plan.source_name = "scale.cu";
  plan.source_text = text;
  plan.entries = {"scale"};
  return plan;
}

constexpr char kScale[] = R"(
#include <cuda_bf16.h>
extern "C" __global__ void scale(__nv_bfloat16* x, float by) {
  __shared__ float tile[BLOCK];
  tile[threadIdx.x] = float(x[threadIdx.x]);
  __syncthreads();
  x[threadIdx.x] = __float2bfloat16(tile[BLOCK - 1 - threadIdx.x] * by);
}
)";

TEST_F(NvrtcCompilerTest, CompilesForEveryTargetWeShip) {
  EXPECT_THAT(compiler_->Version(), StartsWith("NVRTC 1"));
  for (const char* target : {"sm_80", "sm_90a", "sm_100a"}) {
    ASSERT_THAT(compiler_->Targets(), Contains(target));
    CompilePlan plan = ScalePlan(kScale, target);
    plan.defines = {{"BLOCK", "256"}};
    Artifact variant = Compile(plan);
    EXPECT_EQ(variant.outcome, Outcome::kOk) << variant.log;
    EXPECT_THAT(variant.binary, StartsWith("\x7f"
                                           "ELF"));
    EXPECT_GT(variant.resources.registers, 0);
    EXPECT_EQ(variant.resources.static_shared_bytes, 1024);
    EXPECT_EQ(variant.resources.spill_bytes, 0);
    EXPECT_EQ(variant.resources.binary_bytes, static_cast<int64_t>(variant.binary.size()));
    EXPECT_EQ(variant.resources.binary_sha256.size(), 64u);
    EXPECT_GT(variant.seconds, 0);
  }
}

TEST_F(NvrtcCompilerTest, EqualPlansGiveEqualBinaries) {
  CompilePlan plan = ScalePlan(kScale);
  plan.defines = {{"BLOCK", "128"}};
  std::string first = Compile(plan).resources.binary_sha256;
  EXPECT_EQ(Compile(plan).resources.binary_sha256, first);
  plan.defines = {{"BLOCK", "64"}};
  EXPECT_NE(Compile(plan).resources.binary_sha256, first);
}

TEST_F(NvrtcCompilerTest, CountsSpills) {
  CompilePlan plan = ScalePlan(R"(
extern "C" __global__ void __launch_bounds__(1024, 2) scale(float* x, int n) {
  float a[96];
#pragma unroll
  for (int i = 0; i < 96; ++i) a[i] = x[i * n];
  __syncthreads();
#pragma unroll
  for (int i = 0; i < 96; ++i) x[i * n + 1] = a[i] * a[(i + 1) % 96];
})");
  Artifact variant = Compile(plan);
  ASSERT_EQ(variant.outcome, Outcome::kOk) << variant.log;
  EXPECT_GT(variant.resources.spill_bytes, 0) << variant.log;
  EXPECT_GT(variant.resources.stack_bytes, 0);
  EXPECT_EQ(variant.resources.registers, 32);
}

TEST_F(NvrtcCompilerTest, ErrorsCarryTheCompilersWords) {
  Artifact variant = Compile(ScalePlan("extern \"C\" __global__ void scale() { nothing; }"));
  EXPECT_EQ(variant.outcome, Outcome::kCompileFailed);
  EXPECT_THAT(variant.log, HasSubstr("scale.cu(1)"));
  EXPECT_THAT(variant.log, HasSubstr("nothing"));
  EXPECT_EQ(variant.binary, "");
}

TEST_F(NvrtcCompilerTest, NamesTheKernelsThereAreWhenTheEntryIsMissing) {
  Artifact variant =
      Compile(ScalePlan("#define scale other\n__global__ void scale(int* x) { *x = 1; }"));
  EXPECT_EQ(variant.outcome, Outcome::kCompileFailed);
  EXPECT_THAT(variant.log, HasSubstr("has no kernel 'scale'; it has: _Z5otherPi"));
}

TEST_F(NvrtcCompilerTest, FindsKernelsByTheNamesThatCppGivesThem) {
  CompilePlan plan = ScalePlan(R"(
namespace ops {
template <int kBy, typename T> __global__ void times(T* x) { x[0] *= kBy; }
__global__ void half(float* x) { x[0] /= 2; }
}
__global__ void scale(int* x) { *x = 1; })");
  plan.entries = {"scale", "ops::half", "ops::times<BY, float>", "ops::times<4, double>"};
  plan.defines = {{"BY", "3"}};
  const Artifact variant = Compile(plan);
  ASSERT_EQ(variant.outcome, Outcome::kOk) << variant.log;
  ASSERT_EQ(variant.entries.size(), 4u);
  EXPECT_EQ(variant.entries[0].symbol, "_Z5scalePi");
  EXPECT_EQ(variant.entries[1].symbol, "_ZN3ops4halfEPf");
  EXPECT_EQ(variant.entries[2].symbol, "_ZN3ops5timesILi3EfEEvPT0_");
  EXPECT_EQ(variant.entries[2].name, "ops::times<BY, float>");
  EXPECT_EQ(variant.entries[3].parameters->size(), 1u);
}

TEST_F(NvrtcCompilerTest, AnInstanceThatCannotBeIsNamedWithItsLine) {
  CompilePlan plan =
      ScalePlan("\ntemplate <int kBy> __global__ void scale(float* x) { *x *= kBy; }");
  plan.entries = {"scale<float>"};
  const Artifact variant = Compile(plan);
  EXPECT_EQ(variant.outcome, Outcome::kCompileFailed);
  EXPECT_THAT(variant.log, StartsWith("scale.cu:2: 'scale<float>' is no instance of a kernel"));
}

TEST_F(NvrtcCompilerTest, SymbolsHaveTheirSizesAndNames) {
  CompilePlan plan = ScalePlan(R"(
__constant__ float taps[9];
namespace state { __device__ int count; }
extern "C" __global__ void scale(float* x) { *x *= taps[0] + state::count; })");
  plan.symbols = {{"taps", 36}, {"state::count", 4}};
  const Artifact variant = Compile(plan);
  ASSERT_EQ(variant.outcome, Outcome::kOk) << variant.log;
  ASSERT_EQ(variant.symbols.size(), 2u);
  EXPECT_EQ(variant.symbols[0].symbol, "taps");
  EXPECT_EQ(variant.symbols[1].symbol, "_ZN5state5countE");
  plan.symbols = {{"taps", 32}};
  EXPECT_THAT(Compile(plan).log, HasSubstr("the spec's symbol 'taps' has 32 bytes"));
  plan.symbols = {{"weights", 32}};
  EXPECT_EQ(Compile(plan).outcome, Outcome::kCompileFailed);
}

TEST_F(NvrtcCompilerTest, AHeaderThatIsNotThereIsNamed) {
  const char* kernel = "\nextern \"C\" __global__ void scale(int* x) { *x = 1; }";
  EXPECT_THAT(Compile(ScalePlan(absl::StrCat("#include <helper_cuda.h>", kernel))).log,
              StartsWith("<helper_cuda.h> is not there for GPUs"));
  EXPECT_THAT(Compile(ScalePlan(absl::StrCat("#include <vector>", kernel))).log,
              HasSubstr("<vector> is of the host's library, which no kernel can use"));
  CompilePlan of_host = ScalePlan(absl::StrCat("#include \"mine.h\"", kernel));
  of_host.headers = {{"mine.h", "#pragma once\n#include <string>\n"}};
  EXPECT_THAT(Compile(of_host).log, StartsWith("mine.h:2: <string> is of the host's library"));
  CompilePlan plan = ScalePlan(absl::StrCat("#include <cutlass/cutlass.h>", kernel));
  plan.include_roots = {"cutlass"};
  EXPECT_THAT(Compile(plan).log, HasSubstr("--include-root cutlass=DIR"));
}

// The start of a file that has its launcher beside its kernel.
TEST_F(NvrtcCompilerTest, HostCodeIsAnErrorWithItsLine) {
  const std::string log = Compile(ScalePlan(R"(#include <cooperative_groups.h>
extern "C" __global__ void scale(int* x) { *x = 1; }
void launch(int* x) {
  cudaMalloc(&x, 4);
  scale<<<1, 1>>>(x);
})"))
                              .log;
  EXPECT_THAT(log,
              StartsWith("scale.cu:4: cudaMalloc...: a kernel's source has no code of the host"));
  EXPECT_THAT(log, Not(HasSubstr("warning"))) << "CUDA's own headers have nothing to say";
  EXPECT_THAT(Compile(ScalePlan("\nextern \"C\" __global__ void scale(__nv_bfloat16* x) {}")).log,
              StartsWith("scale.cu:2: __nv_bfloat16: its header is missing: #include "
                         "<cuda_bf16.h>"));
  EXPECT_THAT(Compile(ScalePlan("texture<float, 2> t;\n"
                                "extern \"C\" __global__ void scale(int* x) { *x = 1; }"))
                  .log,
              StartsWith("scale.cu:1: texture: CUDA has no texture references any more"));
}

TEST_F(NvrtcCompilerTest, FindsHeadersOfTheRequest) {
  CompilePlan plan = ScalePlan(
      "#include \"factor.h\"\n"
      "extern \"C\" __global__ void scale(int* x) { *x *= kFactor; }");
  EXPECT_EQ(Compile(plan).outcome, Outcome::kCompileFailed);
  plan.headers = {{"factor.h", "constexpr int kFactor = 3;"}};
  Artifact variant = Compile(plan);
  EXPECT_EQ(variant.outcome, Outcome::kOk) << variant.log;
}

TEST_F(NvrtcCompilerTest, RefusesUnknownTargetsAndBadMacros) {
  CompilePlan plan = ScalePlan(kScale, "sm_35");
  Artifact variant = Compile(plan);
  EXPECT_EQ(variant.outcome, Outcome::kInvalidConfig);
  EXPECT_THAT(variant.log, HasSubstr("sm_80, "));

  plan = ScalePlan(kScale);
  plan.defines = {{"A B", "1"}};
  EXPECT_EQ(Compile(plan).outcome, Outcome::kInvalidConfig);
  plan.defines = {{"BLOCK", "1\n#include \"/etc/passwd\""}};
  EXPECT_EQ(Compile(plan).outcome, Outcome::kInvalidConfig);
}

TEST_F(NvrtcCompilerTest, TakesEveryAllowedOption) {
  for (const char* option :
       {"--use_fast_math", "--ftz=true", "--prec-div=false", "--prec-sqrt=false", "--fmad=false",
        "--std=c++20", "--extra-device-vectorization", "--restrict", "-default-device", "-lineinfo",
        "--minimal", "--generate-line-info", "--maxrregcount=64",
        "--ptxas-options=--register-usage-level=10"}) {
    CompilePlan plan = ScalePlan(kScale);
    plan.defines = {{"BLOCK", "256"}};
    plan.options = {option};
    Artifact variant = Compile(plan);
    EXPECT_EQ(variant.outcome, Outcome::kOk) << option << ": " << variant.log;
    EXPECT_GT(variant.resources.registers, 0) << option;
  }
}

TEST_F(NvrtcCompilerTest, RefusesOptionsThatTouchFiles) {
  for (const char* option : {"--time=/tmp/x", "--create-pch=/tmp/x", "--pch-dir=/tmp", "-I/etc",
                             "--pre-include=/etc/passwd", "-include=/etc/passwd", "-DX", "@file",
                             "--maxrregcount", "--ptxas-options=-o/tmp/x"}) {
    CompilePlan plan = ScalePlan(kScale);
    plan.options = {option};
    Artifact variant = Compile(plan);
    EXPECT_EQ(variant.outcome, Outcome::kInvalidConfig) << option;
    EXPECT_THAT(variant.log, HasSubstr(option));
  }
}

// The number of address space bytes the process uses.
size_t AddressSpaceBytes() {
  std::ifstream file("/proc/self/statm");
  size_t pages = 0;
  file >> pages;
  return pages * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

TEST_F(NvrtcCompilerTest, EndsCleanlyUnderAnAddressSpaceLimit) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "the address sanitizer reserves more address space than the limit";
#endif
  pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    rlimit limit = {1500u << 20, 1500u << 20};
    if (AddressSpaceBytes() > limit.rlim_cur || setrlimit(RLIMIT_AS, &limit) != 0) _exit(2);
    // 2^18 instances of a template: minutes and gigabytes where nothing stops it.
    CompilePlan plan = ScalePlan(
        "template <int N, int D> struct T { static constexpr long v = T<2 * N, D - 1>::v + "
        "T<2 * N + 1, D - 1>::v; };\n"
        "template <int N> struct T<N, 0> { static constexpr long v = N; };\n"
        "extern \"C\" __global__ void scale(long* x) { *x = T<1, 18>::v; }");
    absl::StatusOr<Artifact> variant = compiler_->Compile(plan);
    _exit(variant.ok() && variant->outcome == Outcome::kCompileFailed ? 0 : 1);
  }
  int state = 0;
  ASSERT_EQ(waitpid(child, &state, 0), child);
  ASSERT_TRUE(WIFEXITED(state)) << "ended by signal " << WTERMSIG(state);
  EXPECT_EQ(WEXITSTATUS(state), 0);
}

TEST_F(NvrtcCompilerTest, AnEntryThatIsNoKernelIsNamedWithItsLine) {
  struct Case {
    const char* text;
    const char* message;
  };
  for (const Case& c : std::initializer_list<Case>{
           {"extern \"C\" __device__ void scale(int* x) { *x = 1; }",
            "scale.cu:1: 'scale' is no kernel: it is not __global__"},
           {"\nextern \"C\" __global__ void scale(int* x);", "scale.cu:2: kernel 'scale' is only"},
           {"extern \"C\" __global__ void other(int* x) { *x = 1; }",
            "scale.cu: the source has no kernel 'scale'; it has: other"},
           {"#if 0\nextern \"C\" __global__ void scale(int* x) { *x = 1; }\n#endif",
            "scale.cu:2: the compiled source has no kernel 'scale'; it has: none"}}) {
    const Artifact variant = Compile(ScalePlan(c.text));
    EXPECT_EQ(variant.outcome, Outcome::kCompileFailed) << c.text;
    EXPECT_THAT(variant.log, HasSubstr(c.message)) << c.text;
  }
}

TEST_F(NvrtcCompilerTest, TellsTheParameters) {
  const Artifact variant = Compile(ScalePlan(
      "struct alignas(64) Map { char bytes[128]; };\n"
      "extern \"C\" __global__ void scale(const float* x, int n, float a, double d, long long m,\n"
      "                                 const __grid_constant__ Map map) { }\n"));
  ASSERT_EQ(variant.outcome, Outcome::kOk) << variant.log;
  ASSERT_EQ(variant.entries.size(), 1u);
  ASSERT_TRUE(variant.entries[0].parameters.has_value());
  const std::vector<ParameterFact>& facts = *variant.entries[0].parameters;
  ASSERT_EQ(facts.size(), 6u);
  EXPECT_EQ(facts[0].bytes, 8);
  EXPECT_EQ(facts[1], (ParameterFact{4, ".u32"}));
  EXPECT_EQ(facts[2], (ParameterFact{4, ".f32"}));
  EXPECT_EQ(facts[3], (ParameterFact{8, ".f64"}));
  EXPECT_EQ(facts[4], (ParameterFact{8, ".u64"}));
  EXPECT_EQ(facts[5].bytes, 128);
}

TEST(PtxParametersTest, ReadsPointersAndArrays) {
  const auto facts = ParsePtxParameters(
      ".visible .entry other(\n)\n.visible .entry k(\n\t.param .u64 .ptr .align 1 k_param_0,\n"
      "\t.param .align 8 .b8 k_param_1[24]\n)\n{",
      "k");
  ASSERT_TRUE(facts.has_value());
  EXPECT_EQ(*facts, (std::vector<ParameterFact>{{8, ".ptr"}, {24, ".b8"}}));
  EXPECT_TRUE(ParsePtxParameters(".entry k()", "k")->empty());
  EXPECT_FALSE(ParsePtxParameters(".entry k(", "k").has_value());
  EXPECT_FALSE(ParsePtxParameters(".entry kk()", "k").has_value());
}

// Options that NVRTC 12 and 13 accept and that would read or write files.
TEST_F(NvrtcCompilerTest, RefusesOptionsThatNameFiles) {
  for (const char* option : {"--pch",
                             "--create-pch=/tmp/x.pch",
                             "--use-pch=/tmp/x.pch",
                             "--pch-dir=/tmp",
                             "--pch-dir /tmp",
                             "-I/etc",
                             "--include-path=/etc",
                             "--pre-include=/etc/passwd",
                             "-include=/etc/passwd",
                             "--time=/tmp/x",
                             "--fdevice-time-trace=/tmp/x",
                             "--device-debug",
                             "-G",
                             "--dlto",
                             "--ptxas-options=-o/tmp/x",
                             "-Xptxas=-o",
                             "--keep",
                             "--no-source-include",
                             "--gpu-architecture=sm_70",
                             "-arch=sm_70",
                             "-DX",
                             "@/tmp/x",
                             "--relocatable-device-code=true",
                             "--optimization-info=inline"}) {
    CompilePlan plan = ScalePlan("extern \"C\" __global__ void scale(int* x) { *x = 1; }");
    plan.options = {option};
    const Artifact variant = Compile(plan);
    EXPECT_EQ(variant.outcome, Outcome::kInvalidConfig) << option;
    EXPECT_THAT(variant.log, HasSubstr(absl::StrCat("option '", option, "' is not allowed")));
  }
}

TEST_F(NvrtcCompilerTest, NeverLoadsTheDriver) {
  CompilePlan plan = ScalePlan(kScale);
  plan.defines = {{"BLOCK", "32"}};
  ASSERT_EQ(Compile(plan).outcome, Outcome::kOk);
  std::stringstream maps;
  maps << std::ifstream("/proc/self/maps").rdbuf();
  EXPECT_THAT(maps.str(), HasSubstr("libnvrtc.so"));
  EXPECT_THAT(maps.str(), Not(HasSubstr("libcuda.so")));
}

TEST(ToolkitTest, SaysWhatToInstall) {
  absl::StatusOr<Toolkit> toolkit = FindToolkitIn({"/nonexistent/cuda"});
  ASSERT_EQ(toolkit.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(toolkit.status().message(), HasSubstr("/nonexistent/cuda"));
  EXPECT_THAT(toolkit.status().message(), HasSubstr("pip install nvidia-cuda-nvrtc"));
}

TEST(ToolkitTest, LibrariesMayLieInTheFolderOfArmServers) {
  const std::filesystem::path root = testing::TempDir() + "toolkit_of_arm";
  const std::filesystem::path libraries = root / "targets/sbsa-linux/lib";
  std::filesystem::create_directories(root / "include");
  std::filesystem::create_directories(libraries);
  std::ofstream(root / "include/cuda_bf16.h");
  std::ofstream(libraries / "libnvrtc.so.13");
  absl::StatusOr<Toolkit> toolkit = FindToolkitIn({root.string()});
  std::filesystem::remove_all(root);
  ASSERT_TRUE(toolkit.ok()) << toolkit.status();
  EXPECT_THAT(toolkit->library_dirs, testing::ElementsAre(libraries.string()));
}

TEST(ToolkitTest, AnExplicitPathIsTheOnlyOneSearched) {
  setenv("TUNE_CUDA_PATH", "/nonexistent/toolkit", 1);
  absl::StatusOr<Toolkit> toolkit = FindToolkit();
  unsetenv("TUNE_CUDA_PATH");
  ASSERT_FALSE(toolkit.ok());
  EXPECT_THAT(toolkit.status().message(), Not(HasSubstr("/usr/local/cuda")));
}

}  // namespace
}  // namespace tune::cuda
