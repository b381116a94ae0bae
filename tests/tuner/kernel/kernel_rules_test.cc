// SPDX-License-Identifier: Apache-2.0
// Kernel::CreateRules: a kernel of what a snapshot has of a spec.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/wire/spec.h"
#include "tests/tuner/test_kernel.h"
#include "tuner/kernel/launch_sizes_of.h"

namespace tune {
namespace {

KernelSpec RulesOf(const KernelSpec& spec) {
  KernelSpec rules = {.name = spec.name,
                      .dims = spec.dims,
                      .dtypes = spec.dtypes,
                      .params = spec.params,
                      .lets = spec.lets,
                      .constraints = spec.constraints,
                      .targets = spec.targets};
  rules.steps.push_back({.launch = spec.launch});
  return rules;
}

TEST(KernelRules, AllowTheConfigsOfTheWholeSpec) {
  const auto whole = server::ReadKernel("s", TestSpecText(), TestFiles()).value();
  const auto rules = Kernel::CreateRules(RulesOf(whole->spec()), whole->hash()).value();
  EXPECT_EQ(rules->hash(), whole->hash());
  for (const char* target : {"sm_90a", "sm_86", "cpu"}) {
    const TargetTraits traits = TargetTraitsFor(target).value();
    const Problem problem = whole->MakeProblem({}, "", target).value();
    EXPECT_EQ(rules->MakeProblem({}, "", target).value(), problem);
    EXPECT_EQ(rules->DefaultConfig(problem, traits), whole->DefaultConfig(problem, traits));
    const Space space = whole->MakeSpace(problem, traits).value();
    EXPECT_EQ(rules->MakeSpace(problem, traits)->size(), space.size());
    LaunchSizes sizes = LaunchSizesOf(*rules, problem, target);
    LaunchSizes expected = LaunchSizesOf(*whole, problem, target);
    for (uint64_t i = 0; i < space.size(); ++i) {
      EXPECT_TRUE(rules->CheckConfig(problem, traits, space.At(i)).ok());
      EXPECT_EQ(sizes.Blocks(space.At(i)), expected.Blocks(space.At(i)));
    }
  }
}

TEST(KernelRules, AnExpressionThatCannotBeReadIsNamedByItsField) {
  const auto whole = server::ReadKernel("s", TestSpecText(), TestFiles()).value();
  KernelSpec spec = RulesOf(whole->spec());
  spec.constraints[1].expression = "VEC <=";
  EXPECT_EQ(Kernel::CreateRules(spec, "").status().message(),
            "constraints[1].expression: unexpected end at column 7 of 'VEC <='");
}

TEST(KernelRules, AKernelWithoutStepsIsRefused) {
  const auto whole = server::ReadKernel("s", TestSpecText(), TestFiles()).value();
  KernelSpec spec = RulesOf(whole->spec());
  spec.steps.clear();
  EXPECT_EQ(Kernel::CreateRules(spec, "").status().message(), "steps: missing");
}

}  // namespace
}  // namespace tune
