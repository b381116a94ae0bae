// SPDX-License-Identifier: Apache-2.0
// Compiles the shipped kernels in Triton for GPUs of three generations, in every dtype: the default
// config and others at random, as many as TUNE_TEST_VARIANTS says, at the default problem and at an
// odd one.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kernels/catalogue.h"
#include "server/wire/spec.h"
#include "tuner/device/compile_request.h"
#include "tuner/device/program_checks.h"
#include "tuner/device/triton/installation.h"
#include "tuner/device/triton/triton_compiler.h"
#include "tuner/kernel/kernel.h"
#include "tuner/strategies/strategy.h"

namespace tune {
namespace {

size_t VariantsMax() {
  const char* text = getenv("TUNE_TEST_VARIANTS");
  return text == nullptr ? 2 : strtoul(text, nullptr, 10);
}

// The smallest problem that a spec allows, but for rows and sequences of some odd length.
std::map<std::string, int64_t> OddDims(const Kernel& kernel) {
  std::map<std::string, int64_t> dims;
  for (const DimSpec& dim : kernel.spec().dims) {
    if (dim.name == "cols") dims["cols"] = 129;
    if (dim.name == "head_dim") dims["head_dim"] = 66;
    if (dim.name == "interleaved") dims["interleaved"] = 1;
    if (dim.name == "rows" || dim.name == "seq") dims[dim.name] = 5;
  }
  return dims;
}

class CatalogueTritonTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "tune-triton-XXXXXX";
    ASSERT_NE(mkdtemp(folder_.data()), nullptr);
    absl::StatusOr<triton::Installation> found = triton::FindTriton();
    if (!found.ok() && getenv("TUNE_TRITON_REQUIRED") != nullptr) FAIL() << found.status();
    if (!found.ok()) GTEST_SKIP() << found.status();
    front_ = triton::MakeFrontEnd(*found, folder_);
    back_ = triton::MakeTtirCompiler(*found, folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::vector<Config> ConfigsOf(const Kernel& kernel, const Problem& problem,
                                const TargetTraits& traits) {
    const absl::StatusOr<Space> space = kernel.MakeSpace(problem, traits);
    EXPECT_TRUE(space.ok()) << space.status();
    const absl::StatusOr<Config> first = kernel.DefaultConfig(problem, traits);
    EXPECT_TRUE(first.ok()) << first.status();
    if (!space.ok() || !first.ok()) return {};
    auto strategy = MakeStrategy("random", *space, {.seed = 1, .first = space->IndexOf(*first)});
    EXPECT_TRUE(strategy.ok()) << strategy.status();
    std::vector<Config> configs;
    for (auto index = (*strategy)->Ask(); index && configs.size() < VariantsMax();
         index = (*strategy)->Ask()) {
      configs.push_back(space->At(*index));
    }
    return configs;
  }

  void CompileAll(const Kernel& kernel, const Problem& problem, const std::string& target) {
    const TargetTraits traits = TargetTraitsFor(target).value();
    for (const Config& config : ConfigsOf(kernel, problem, traits)) {
      SCOPED_TRACE(ToText(config));
      ProgramPlan program = kernel.PlanProgram(problem, traits, config).value();
      Artifact front = front_->Compile(program.compile).value();
      ASSERT_EQ(front.outcome, Outcome::kOk) << front.log;
      const CompilePlan next = Lowered(program.compile, Language::kTtir, std::move(front)).value();
      const Artifact artifact = back_->Compile(next).value();
      ASSERT_EQ(artifact.outcome, Outcome::kOk) << artifact.log;
      const absl::Status fits = FitSteps(artifact, program);
      EXPECT_TRUE(fits.ok()) << fits;
      EXPECT_LE(program.steps[0].launch.shared_bytes, traits.max_shared_bytes);
    }
  }

  std::string folder_;
  std::unique_ptr<Compiler> front_;
  std::unique_ptr<Compiler> back_;
};

TEST_F(CatalogueTritonTest, EveryKernelCompilesForEveryGeneration) {
  int kernels = 0;
  const std::vector<CatalogueEntry> entries = LoadCatalogue().value();
  for (const CatalogueEntry& entry : entries) {
    const auto kernel = server::ReadKernel(entry.spec_name, entry.spec_text, entry.files);
    ASSERT_TRUE(kernel.ok()) << kernel.status();
    if ((*kernel)->language() != Language::kTriton) continue;
    ++kernels;
    for (const std::string target : {"sm_80", "sm_90", "sm_100"}) {
      for (const std::string& dtype : (*kernel)->spec().dtypes) {
        for (const auto& dims : {std::map<std::string, int64_t>(), OddDims(**kernel)}) {
          const Problem problem = (*kernel)->MakeProblem(dims, dtype, target).value();
          SCOPED_TRACE(entry.name + " " + ToText(problem) + " " + target);
          CompileAll(**kernel, problem, target);
        }
      }
    }
  }
  EXPECT_GE(kernels, 2);
}

}  // namespace
}  // namespace tune
