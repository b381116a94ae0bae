// SPDX-License-Identifier: Apache-2.0
#include "tuner/device/cpu/cpu_compiler.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/catalogue.h"
#include "tuner/device/cpu/shared_arrays.h"
#include "tuner/kernel.h"

namespace tune::cpu {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::MatchesRegex;
using testing::Not;

CompilePlan PlanOf(const std::string& text) {
  CompilePlan plan;
  plan.target = "cpu";
  plan.source_name = "sample.cu";
  plan.source_text = text;
  plan.entry = "sample";
  return plan;
}

class CpuCompilerTest : public testing::Test {
 protected:
  void SetUp() override {
    absl::StatusOr<std::unique_ptr<Compiler>> compiler = MakeCompiler();
    ASSERT_TRUE(compiler.ok()) << compiler.status();
    compiler_ = *std::move(compiler);
  }
  CompiledVariant Compile(const CompilePlan& plan) {
    absl::StatusOr<CompiledVariant> variant = compiler_->Compile(plan);
    EXPECT_TRUE(variant.ok()) << variant.status();
    return variant.ok() ? *std::move(variant) : CompiledVariant();
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
  EXPECT_THAT(compiler_->Version(), MatchesRegex("(g|clang)\\+\\+ [0-9.]+ [a-z0-9-]+-[0-9a-f]+"));
}

TEST_F(CpuCompilerTest, GivesASharedObjectAndItsSize) {
  const CompiledVariant variant =
      Compile(PlanOf("extern \"C\" __global__ void sample(float* x) { x[threadIdx.x] = 1; }"));
  ASSERT_EQ(variant.outcome, Outcome::kOk) << variant.log;
  EXPECT_EQ(variant.binary.substr(1, 3), "ELF");
  EXPECT_EQ(variant.resources.binary_bytes, static_cast<int64_t>(variant.binary.size()));
  EXPECT_EQ(variant.resources.binary_sha256.size(), 64u);
  EXPECT_GT(variant.seconds, 0);
  const Loaded loaded(variant.binary);
  EXPECT_EQ(*loaded.Find<unsigned*>("tune_cpu_parameter_count"), 1u);
}

TEST_F(CpuCompilerTest, ErrorsNameTheSourceAndItsLine) {
  CompilePlan plan = PlanOf(
      "extern \"C\" __global__ void sample(float* x) {\n"
      "  extern __shared__ __align__(16)\n"
      "      float tile[];\n"
      "  x[0] = tile[0] + lost;\n"
      "}\n");
  const CompiledVariant variant = Compile(plan);
  EXPECT_EQ(variant.outcome, Outcome::kCompileFailed);
  EXPECT_THAT(variant.log, HasSubstr("sample.cu:4:"));
  EXPECT_THAT(variant.log, HasSubstr("lost"));
  EXPECT_THAT(variant.log, Not(HasSubstr("tune-cpu-")));
}

TEST_F(CpuCompilerTest, HeadersOfTheRequestAndDefinesArrive) {
  CompilePlan plan = PlanOf(
      "#include \"parts/first.h\"\n#include <cuda_bf16.h>\n"
      "extern \"C\" __global__ void sample(float* x) { x[0] = First() + T(WIDTH); }\n");
  plan.headers = {{"parts/first.h", "#pragma once\n#include \"second.h\"\n"},
                  {"parts/second.h", "__device__ inline float First() { return 1.0f; }\n"}};
  plan.defines = {{"T", "unsigned long long"}, {"WIDTH", "4 + 4"}, {"EMPTY", ""}};
  EXPECT_EQ(Compile(plan).outcome, Outcome::kOk) << Compile(plan).log;
}

TEST_F(CpuCompilerTest, AMissingKernelIsNamed) {
  const CompiledVariant variant = Compile(PlanOf("__global__ void other() {}\n"));
  EXPECT_EQ(variant.outcome, Outcome::kCompileFailed);
  EXPECT_THAT(variant.log, HasSubstr("kernel sample of sample.cu"));
}

TEST_F(CpuCompilerTest, RefusesWhatReadsOtherFiles) {
  for (const char* text :
       {"#include \"/etc/passwd\"\n", "#include <../etc/passwd>\n",
        "#pragma GCC dependency \"/etc/passwd\"\n", "const char* x = \".incbin\";\n"}) {
    const CompiledVariant variant = Compile(PlanOf(text));
    EXPECT_EQ(variant.outcome, Outcome::kInvalidConfig) << text << variant.log;
    EXPECT_THAT(variant.log, HasSubstr("sample.cu:1:")) << text;
  }
}

TEST_F(CpuCompilerTest, RefusesAssembly) {
  const CompiledVariant variant = Compile(
      PlanOf("extern \"C\" __global__ void sample() { asm(\"nop\"); }\n"));
  EXPECT_EQ(variant.outcome, Outcome::kCompileFailed);
  EXPECT_THAT(variant.log, HasSubstr("sample.cu:1:"));
}

// The directive is put together where no source shows it.
TEST_F(CpuCompilerTest, RefusesAssemblyHiddenInASectionsName) {
  const CompiledVariant variant = Compile(PlanOf(
      "#define TEXT(x) TEXT2(x)\n#define TEXT2(x) #x\n#define PASTE(a, b) a##b\n"
      "__attribute__((section(\".data\\n.\" TEXT(PASTE(inc, bin)) \" \\\"/etc/passwd\\\"\\n#\")))\n"
      "int stolen = 1;\n"
      "extern \"C\" __global__ void sample(int* x) { *x = (&stolen)[1]; }\n"));
  EXPECT_EQ(variant.outcome, Outcome::kInvalidConfig) << variant.log;
  EXPECT_THAT(variant.log, HasSubstr("assembler"));
  EXPECT_THAT(variant.binary, IsEmpty());
}

TEST_F(CpuCompilerTest, LeavesNothingBehind) {
  const std::string folder = testing::TempDir() + "/compile-XXXXXX";
  std::string path = folder;
  ASSERT_NE(mkdtemp(path.data()), nullptr);
  const char* before = getenv("TMPDIR");
  const std::string old = before == nullptr ? "/tmp" : before;
  setenv("TMPDIR", path.c_str(), 1);
  Compile(PlanOf("extern \"C\" __global__ void sample() {}\n"));
  Compile(PlanOf("extern \"C\" __global__ void sample() { oops }\n"));
  setenv("TMPDIR", old.c_str(), 1);
  EXPECT_TRUE(std::filesystem::is_empty(path));
  std::filesystem::remove_all(path);
}

TEST_F(CpuCompilerTest, EveryCatalogueKernelCompilesWithItsDefaults) {
  const TargetTraits traits = TargetTraitsFor("cpu").value();
  for (const CatalogueEntry& entry : LoadCatalogue().value()) {
    SCOPED_TRACE(entry.name);
    absl::StatusOr<std::shared_ptr<const Kernel>> kernel =
        Kernel::Create(entry.spec_name, entry.spec_text, entry.files);
    ASSERT_TRUE(kernel.ok()) << kernel.status();
    if (!(*kernel)->RunsOn("cpu")) continue;
    absl::StatusOr<Problem> problem = (*kernel)->MakeProblem({}, "", "cpu");
    ASSERT_TRUE(problem.ok()) << problem.status();
    absl::StatusOr<Config> config = (*kernel)->DefaultConfig(*problem, traits);
    ASSERT_TRUE(config.ok()) << config.status();
    absl::StatusOr<VariantPlan> variant = (*kernel)->PlanVariant(*problem, traits, *config);
    ASSERT_TRUE(variant.ok()) << variant.status();
    const CompiledVariant compiled = Compile(variant->compile);
    EXPECT_EQ(compiled.outcome, Outcome::kOk) << compiled.log;
    absl::StatusOr<ProblemPlan> plan = (*kernel)->PlanProblem(*problem, traits);
    ASSERT_TRUE(plan.ok()) << plan.status();
    const CompiledVariant reference = Compile(plan->reference_compile);
    EXPECT_EQ(reference.outcome, Outcome::kOk) << reference.log;
  }
}

}  // namespace
}  // namespace tune::cpu
