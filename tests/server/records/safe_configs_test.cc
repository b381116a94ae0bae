// SPDX-License-Identifier: Apache-2.0
#include "server/records/safe_configs.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/substitute.h"
#include "absl/time/clock.h"
#include "server/wire/spec.h"

namespace tune::server {
namespace {

// Ten params from 1 to 16 with all ones as the default, which no constraint may allow.
SafeConfigs::Wanted MakeWanted(const std::string& constraint, const std::string& block = "64") {
  std::string spec = R"spec(name: "scrambled"
summary: "A space that no diagram holds."
source: "scrambled.cu"
entry: "scrambled"
dims { name: "n" default_value: 4096 min: 1 max: 1048576 }
dtypes: "f32"
args { name: "y" buffer { dtype: "dtype" shape: "n" role: ROLE_OUTPUT } }
args { name: "n" scalar { dtype: "i32" value: "n" } }
launch { grid: "ceil_div(n, 64)" block: "BLOCK" }
work { flops: "n" bytes: "n * dtype_bytes" peak: "f32" }
reference { entry: "reference" dtype: "f64" launch { grid: "ceil_div(n, 64)" block: "64" } }
)spec";
  for (int i = 0; i < 10; ++i) {
    absl::StrAppend(
        &spec, absl::Substitute(
                   "params { name: \"P$0\" values: \"range(1, 17)\" default_value: \"1\" }\n", i));
  }
  absl::StrAppend(&spec, "constraints { expression: \"", constraint, "\" }\n");
  spec = absl::StrReplaceAll(spec, {{"BLOCK", block}});
  auto kernel = ReadKernel("scrambled.textproto", spec, {{"scrambled.cu", "// nothing"}});
  EXPECT_TRUE(kernel.ok()) << kernel.status();
  const TargetTraits traits = TargetTraitsFor("cpu").value();
  const Problem problem = (*kernel)->MakeProblem({}, "", "cpu").value();
  return {*kernel, problem, traits};
}

// What is left of a number after every param was mixed in: no two assignments go on alike.
std::string Mixed() {
  std::string mixed = "1";
  for (int i = 0; i < 10; ++i) {
    mixed = absl::StrCat("(", mixed, " * 40503 + P", i, " * 7919) % 1000003");
  }
  return mixed;
}

TEST(SafeConfigsTest, TheDefaultIsSafeWhereItIsValid) {
  SpaceSolver solver;
  SafeConfigs configs(solver);
  const SafeConfigs::Wanted wanted = MakeWanted("P0 * P1 <= 16");
  EXPECT_FALSE(configs.Known(wanted).has_value()) << "nobody has asked yet";
  const absl::StatusOr<SafeConfigs::Safe> safe = configs.Find(wanted, {});
  ASSERT_TRUE(safe.ok()) << safe.status();
  EXPECT_EQ(safe->what, "the kernel's default");
  EXPECT_EQ(ToText(safe->config), "P0=1 P1=1 P2=1 P3=1 P4=1 P5=1 P6=1 P7=1 P8=1 P9=1");
  EXPECT_EQ(configs.Known(wanted)->value().config, safe->config);
}

TEST(SafeConfigsTest, ADefaultThatCannotBeLaunchedIsSaid) {
  SpaceSolver solver;
  SafeConfigs configs(solver);
  const SafeConfigs::Wanted wanted = MakeWanted("P0 * P1 <= 16", "2048 // P0");
  const absl::StatusOr<SafeConfigs::Safe> safe = configs.Find(wanted, {});
  ASSERT_TRUE(safe.ok()) << safe.status();
  EXPECT_EQ(safe->what,
            "some valid config, since the kernel's default breaks a limit of its launch");
}

TEST(SafeConfigsTest, AConfigOfAnInexactSpaceIsValid) {
  SpaceSolver solver;
  SafeConfigs configs(solver);
  const SafeConfigs::Wanted wanted = MakeWanted(absl::StrCat(Mixed(), " % 64 == 3"));
  const Space space = wanted.kernel->MakeSpace(wanted.problem, wanted.traits).value();
  ASSERT_FALSE(space.exact());
  ASSERT_FALSE(space.Contains(0)) << "the first index is no config, so it would be wrong";
  const absl::StatusOr<SafeConfigs::Safe> safe = configs.Find(wanted, {});
  ASSERT_TRUE(safe.ok()) << safe.status();
  EXPECT_EQ(safe->what, absl::StrCat("some valid config, since the kernel's default breaks '",
                                     Mixed(), " % 64 == 3'"));
  EXPECT_TRUE(wanted.kernel->CheckConfig(wanted.problem, wanted.traits, safe->config).ok());
  EXPECT_TRUE(space.IndexOf(safe->config).has_value());
  EXPECT_EQ(configs.Find(wanted, {})->config, safe->config) << "the same each time";
}

TEST(SafeConfigsTest, WhatNobodyWaitsForIsFoundAllTheSame) {
  SpaceSolver solver;
  SafeConfigs configs(solver);
  const SafeConfigs::Wanted wanted = MakeWanted(absl::StrCat(Mixed(), " % 64 == 3"));
  EXPECT_TRUE(absl::IsCancelled(configs.Find(wanted, [] { return true; }).status()));
  for (int i = 0; i < 6000 && !configs.Known(wanted); ++i) absl::SleepFor(absl::Milliseconds(10));
  ASSERT_TRUE(configs.Known(wanted).has_value());
  EXPECT_TRUE(configs.Known(wanted)->ok());
}

TEST(SafeConfigsTest, ThatNoConfigIsValidIsKnownToo) {
  SpaceSolver solver;
  SafeConfigs configs(solver);
  const SafeConfigs::Wanted wanted = MakeWanted("P0 > 16");
  EXPECT_TRUE(absl::IsInvalidArgument(configs.Find(wanted, {}).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(configs.Known(wanted)->status()));
}

}  // namespace
}  // namespace tune::server
