// SPDX-License-Identifier: Apache-2.0
// Cubins as sources, as far as they go without a GPU: NVRTC makes some, which are read.
#include "tuner/device/cuda/cubin_compiler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "tuner/device/cubin.h"
#include "tuner/device/cuda/nvrtc_compiler.h"

namespace tune::cuda {
namespace {

using ::testing::HasSubstr;

constexpr char kSource[] = R"(
__constant__ float taps[4];
extern "C" __global__ void __launch_bounds__(128) first(const float* x, int n, double by) {}
extern "C" __global__ void second(float* y, char c) { y[0] = taps[c]; })";

std::string Cubin(const std::string& target) {
  CompilePlan plan;
  plan.target = target;
  plan.source_name = "two.cu";
  plan.source_text = kSource;
  plan.entries = {"first", "second"};
  return MakeNvrtcCompiler().value()->Compile(plan).value().binary;
}

CompilePlan PlanFor(const std::string& cubin, const std::string& target) {
  CompilePlan plan;
  plan.language = Language::kCubin;
  plan.target = target;
  plan.source_name = "two.cubin";
  plan.source_text = cubin;
  plan.entries = {"second", "first"};
  plan.symbols = {{"taps", 16}};
  return plan;
}

class CubinCompilerTest : public testing::Test {
 protected:
  const std::unique_ptr<Compiler> compiler_ = MakeCubinCompiler().value();
};

TEST_F(CubinCompilerTest, TellsEntriesOfEveryGeneration) {
  for (const char* target : {"sm_80", "sm_90a", "sm_100"}) {
    const std::string cubin = Cubin(target);
    const Artifact artifact = compiler_->Compile(PlanFor(cubin, target)).value();
    ASSERT_EQ(artifact.outcome, Outcome::kOk) << artifact.log;
    EXPECT_EQ(artifact.binary, cubin);
    ASSERT_EQ(artifact.entries.size(), 2u);
    const EntryFacts& second = artifact.entries[0];
    EXPECT_EQ(second.name, "second");
    ASSERT_EQ(second.parameters->size(), 2u);
    EXPECT_EQ((*second.parameters)[0].bytes, 8);
    EXPECT_EQ((*second.parameters)[1].bytes, 1);
    const EntryFacts& first = artifact.entries[1];
    ASSERT_EQ(first.parameters->size(), 3u);
    EXPECT_EQ((*first.parameters)[1].bytes, 4);
    EXPECT_EQ(first.threads_max, 128);
    ASSERT_EQ(artifact.symbols.size(), 1u);
    EXPECT_EQ(artifact.symbols[0].symbol, "taps");
  }
}

TEST_F(CubinCompilerTest, SaysWhyItDoesNotRun) {
  const std::string cubin = Cubin("sm_80");
  EXPECT_EQ(compiler_->Compile(PlanFor(cubin, "sm_86"))->outcome, Outcome::kOk);
  EXPECT_THAT(compiler_->Compile(PlanFor(cubin, "sm_90"))->log,
              HasSubstr("two.cubin: a cubin for sm_80 does not run on sm_90"));
  CompilePlan plan = PlanFor(cubin, "sm_80");
  plan.entries = {"third"};
  EXPECT_THAT(compiler_->Compile(plan)->log, HasSubstr("no kernel 'third'; it has: first, second"));
  EXPECT_THAT(compiler_->Compile(PlanFor("text", "sm_80"))->log, HasSubstr("this is no cubin"));
}

TEST_F(CubinCompilerTest, ACubinThatIsCutOrChangedNeverReadsBeyondItsEnd) {
  const std::string cubin = Cubin("sm_90");
  for (size_t size = 0; size < cubin.size(); size += 7) {
    (void)ReadCubin("cut", cubin.substr(0, size));
  }
  for (size_t at = 0; at < cubin.size(); ++at) {
    std::string changed = cubin;
    changed[at] = static_cast<char>(0xff);
    (void)ReadCubin("changed", changed);
  }
}

}  // namespace
}  // namespace tune::cuda
