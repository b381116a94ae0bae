// SPDX-License-Identifier: Apache-2.0
// The loss of logits that lie far from zero together: a form that takes the log of the sum first
// loses the digits that the logits differ in.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tests/kernels/kernel_on_cpu.h"

namespace tune {
namespace {

constexpr int64_t kCols = 40;

float Logit(int64_t column, float offset) {
  return offset + 0.25f * static_cast<float>(column % 7);
}

class LargeLogits : public KernelOnCpu {
 protected:
  void SetUp() override { Load("cross_entropy"); }

  // The loss of one row whose target is the first column.
  double LossOf(const ProgramPlan& plan, const std::string& binary, float offset) {
    std::map<std::string, std::vector<double>> arrays;  // doubles, for their alignment
    Launch(plan, binary, [&](const BufferPlan& buffer) {
      std::vector<double>& array = arrays[buffer.name];
      array.resize(std::max<size_t>(array.size(), static_cast<size_t>(buffer.count) + 64));
      auto* const values = reinterpret_cast<float*>(array.data());
      for (int64_t i = 0; buffer.name == "logits" && i < kCols; ++i) values[i] = Logit(i, offset);
      return DeviceArray{buffer.dtype, reinterpret_cast<uint64_t>(values), buffer.count};
    });
    return reinterpret_cast<const float*>(arrays["loss"].data())[0];
  }
};

TEST_F(LargeLogits, HaveTheLossOfTheirDifferences) {
  const TargetTraits traits = *TargetTraitsFor("cpu");
  const auto problem =
      kernel_->MakeProblem({{"rows", 1}, {"cols", kCols}, {"gradient", 0}}, "f32", "cpu");
  ASSERT_TRUE(problem.ok()) << problem.status();
  const auto space = kernel_->MakeSpace(*problem, traits);
  ASSERT_TRUE(space.ok()) << space.status();
  const auto plan = kernel_->PlanProgram(*problem, traits, space->At(0));
  ASSERT_TRUE(plan.ok()) << plan.status();
  std::string binary;
  ASSERT_NO_FATAL_FAILURE(Compile(*plan, &binary));
  double sum = 0;
  for (int64_t i = 0; i < kCols; ++i) sum += std::exp(Logit(i, 0) - Logit(0, 0));
  for (const float offset : {0.0f, 1e3f, 1e4f, 1e6f, -1e6f}) {
    EXPECT_NEAR(LossOf(*plan, binary, offset), std::log(sum), 2e-6) << offset;
  }
}

}  // namespace
}  // namespace tune
