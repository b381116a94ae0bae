// SPDX-License-Identifier: Apache-2.0
#include "server/measure/compile_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "tests/server/supervision/scripted.h"

namespace tune::server {
namespace {

using testing::HasSubstr;

class CompileSetTest : public testing::Test {
 protected:
  static CompilePoolOptions Options(const TempDir& dir) {
    CompilePoolOptions options;
    options.command = ScriptedCommand("compile", dir);
    return options;
  }
  CompileSetTest() {
    compilers_.Add(
        {.languages = {Language::kCuda}, .pool = std::make_unique<CompilePool>(Options(dir_))});
  }
  static ProgramPlan Plan(const std::string& behaviour) {
    return {.compile = {.target = "sm_90a",
                        .source_name = "a.cu",
                        .source_text = behaviour,
                        .entries = {"k"}},
            .steps = {{.launch = {.entry = "k", .block = {32, 1, 1}}}}};
  }

  TempDir dir_;
  Compilers compilers_;
};

TEST_F(CompileSetTest, EachResultIsPutWhereItBelongs) {
  CompileSet set(compilers_);
  ProgramPlan plans[] = {Plan("bulky 30"), Plan("outcome 3"), Plan("bulky 10")};
  CompileResult results[3];
  for (int i = 0; i < 3; ++i) set.Add(plans[i], results[i]);
  ASSERT_TRUE(set.Await({}).ok());
  EXPECT_EQ(results[0].artifact.binary.size(), 30u);
  EXPECT_EQ(results[1].artifact.outcome, Outcome::kCompileFailed);
  EXPECT_EQ(results[2].artifact.binary.size(), 10u);
  EXPECT_EQ(ProgramOf(plans[2], results[2]).binary, results[2].artifact.binary);
}

TEST_F(CompileSetTest, StepsThatDoNotFitTheArtifactAreAMisfit) {
  CompileSet set(compilers_);
  ProgramPlan plans[] = {Plan("threads 32"), Plan("threads 64")};
  CompileResult results[2];
  for (int i = 0; i < 2; ++i) set.Add(plans[i], results[i]);
  ASSERT_TRUE(set.Await({}).ok());
  EXPECT_FALSE(results[0].misfit) << results[0].artifact.log;
  EXPECT_TRUE(results[1].misfit);
  EXPECT_EQ(results[1].artifact.outcome, Outcome::kInvalidConfig);
  EXPECT_THAT(results[1].artifact.log, HasSubstr("compiled for exactly 64"));
  EXPECT_TRUE(results[1].artifact.binary.empty());
}

TEST_F(CompileSetTest, ALanguageThatNoCompilerTakesIsAnError) {
  CompileSet set(compilers_);
  ProgramPlan plan = Plan("ok");
  plan.compile.language = Language::kPtx;
  set.Add(plan, [](const CompileResult&) { FAIL() << "nothing was compiled"; });
  EXPECT_TRUE(absl::IsUnimplemented(set.Await({})));
}

TEST_F(CompileSetTest, BinariesBeyondTheLimitAreRefusedAtOnce) {
  CompileSet set(compilers_, {.bytes = 100, .refusal = "more than 100 bytes"});
  for (int i = 0; i < 3; ++i) set.Add(Plan("bulky 40"), [](const CompileResult&) {});
  set.Add(Plan("hang"), [](const CompileResult&) {});  // is not waited for
  EXPECT_EQ(set.Await({}), absl::ResourceExhaustedError("more than 100 bytes"));
}

TEST_F(CompileSetTest, AwaitReturnsOnceFewAreLeft) {
  CompileSet set(compilers_);
  set.Add(Plan("hang"), [](const CompileResult&) {});
  EXPECT_TRUE(set.Await({}, /*left=*/1).ok());
  bool cancelled = false;
  EXPECT_TRUE(absl::IsCancelled(set.Await([&] { return std::exchange(cancelled, true); })));
}

}  // namespace
}  // namespace tune::server
