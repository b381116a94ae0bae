// SPDX-License-Identifier: Apache-2.0
// The harness's own device code compiles for every architecture we run on, without a GPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "tuner/device/cuda/harness.h"
#include "tuner/device/cuda/nvrtc_compiler.h"
#include "tuner/device/cuda/probe.h"
#include "tuner/device/cuda/probe_bench.h"

namespace tune::cuda {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class DeviceCodeTest : public testing::TestWithParam<const char*> {
 protected:
  Artifact Compile(const CompilePlan& plan) {
    absl::StatusOr<std::unique_ptr<Compiler>> compiler = MakeNvrtcCompiler();
    EXPECT_TRUE(compiler.ok()) << compiler.status();
    if (!compiler.ok()) return {};
    absl::StatusOr<Artifact> variant = (*compiler)->Compile(plan);
    EXPECT_TRUE(variant.ok()) << variant.status();
    return variant.ok() ? *variant : Artifact();
  }
};

TEST_P(DeviceCodeTest, HarnessCompiles) {
  Artifact variant = Compile(HarnessCompilePlan(GetParam()));
  EXPECT_EQ(variant.outcome, Outcome::kOk) << variant.log;
  EXPECT_THAT(variant.log, Not(HasSubstr("warning"))) << variant.log;
}

class CeilingsCodeTest : public DeviceCodeTest {
 protected:
  // Compiles, and has every kernel that a probe names.
  Artifact CompileFor(const std::vector<Probe>& probes, bool suite) {
    Artifact variant = Compile(CeilingsCompilePlan(GetParam(), suite));
    EXPECT_EQ(variant.outcome, Outcome::kOk) << variant.log;
    for (const Probe& probe : probes) {
      if (probe.kernel == "driver") continue;
      EXPECT_THAT(variant.binary, HasSubstr("tune_harness_ceiling_" + probe.kernel + '\0'))
          << probe.kernel;
    }
    return variant;
  }
  int sm() const { return std::atoi(GetParam() + 3); }
};

TEST_P(CeilingsCodeTest, CompileWithoutSpillsOrSerialisedTensorCores) {
  std::vector<Probe> probes = ProbesFor(sm(), /*suite=*/true);
  for (const Probe& probe : CountedProbesFor(sm())) probes.push_back(probe);
  const Artifact variant = CompileFor(probes, /*suite=*/true);
  EXPECT_THAT(variant.log, Not(HasSubstr("warning"))) << variant.log;
  EXPECT_THAT(variant.log, Not(HasSubstr("(C75"))) << variant.log;
  for (size_t at = variant.log.find("bytes spill stores"); at != std::string::npos;
       at = variant.log.find("bytes spill stores", at + 1)) {
    EXPECT_EQ(variant.log.substr(at - 3, 3), " 0 ") << variant.log;
  }
}

TEST_P(CeilingsCodeTest, TheQuickPartCompilesAlone) {
  CompileFor(ProbesFor(sm(), /*suite=*/false), /*suite=*/false);
}

INSTANTIATE_TEST_SUITE_P(Targets, CeilingsCodeTest,
                         testing::Values("sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_120a"),
                         [](const auto& info) { return std::string(info.param); });

INSTANTIATE_TEST_SUITE_P(Targets, DeviceCodeTest,
                         testing::Values("sm_80", "sm_86", "sm_90a", "sm_100a", "sm_120a"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace tune::cuda
