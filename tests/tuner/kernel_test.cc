// SPDX-License-Identifier: Apache-2.0
#include "tuner/kernel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/tuner/test_kernel.h"

namespace tune {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

std::shared_ptr<const Kernel> TestKernel() {
  auto kernel = Kernel::Create("scale.textproto", TestSpecText(), TestFiles());
  EXPECT_TRUE(kernel.ok()) << kernel.status();
  return *kernel;
}

TargetTraits Traits(const std::string& target) { return TargetTraitsFor(target).value(); }

TEST(Kernel, PlansAProblem) {
  const auto kernel = TestKernel();
  const Problem problem = kernel->MakeProblem({{"cols", 2048}}, "", "sm_90a").value();
  EXPECT_EQ(ToText(problem), "rows=8192 cols=2048 mode=0 bf16");
  auto plan = kernel->PlanProblem(problem, Traits("sm_90a"));
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->buffers.size(), 3);
  auto space = kernel->MakeSpace(problem, Traits("sm_90a"));
  ASSERT_TRUE(space.ok()) << space.status();
  for (uint64_t i = 0; i < space->size(); ++i) {
    auto variant = kernel->PlanVariant(problem, Traits("sm_90a"), space->At(i));
    ASSERT_TRUE(variant.ok()) << variant.status();
    EXPECT_EQ(space->IndexOf(space->At(i)), i);
  }
  auto config = kernel->DefaultConfig(problem, Traits("sm_90a"));
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(ToText(*config), "THREADS=256 VEC=4 PATH=regs CLUSTER=1");
}

}  // namespace
}  // namespace tune
