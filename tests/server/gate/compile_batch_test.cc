// SPDX-License-Identifier: Apache-2.0
#include "server/gate/compile_batch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "tests/server/supervision/scripted.h"

namespace tune::server {
namespace {

using testing::HasSubstr;

class CompileBatchTest : public testing::Test {
 protected:
  static CompilePoolOptions Options(const TempDir& dir) {
    CompilePoolOptions options;
    options.command = ScriptedCommand("compile", dir);
    return options;
  }
  CompileBatchTest() {
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

TEST_F(CompileBatchTest, GivesResultsInTheOrderOfAdding) {
  CompileBatch batch(compilers_, /*bytes_max=*/1 << 20);
  for (const char* behaviour : {"bulky 30", "outcome 3", "bulky 10"}) batch.Add(Plan(behaviour));
  const auto results = batch.Await({});
  ASSERT_TRUE(results.ok()) << results.status();
  ASSERT_EQ(results->size(), 3u);
  EXPECT_EQ((*results)[0].artifact.binary.size(), 30u);
  EXPECT_EQ((*results)[1].artifact.outcome, Outcome::kCompileFailed);
  EXPECT_EQ((*results)[2].artifact.binary.size(), 10u);
}

TEST_F(CompileBatchTest, StepsAreHeldAgainstWhatWasCompiled) {
  CompileBatch batch(compilers_, /*bytes_max=*/1 << 20);
  for (const char* behaviour : {"threads 32", "threads 64"}) batch.Add(Plan(behaviour));
  const auto results = batch.Await({});
  ASSERT_TRUE(results.ok()) << results.status();
  EXPECT_FALSE((*results)[0].misfit) << (*results)[0].artifact.log;
  EXPECT_TRUE((*results)[1].misfit);
  EXPECT_EQ((*results)[1].artifact.outcome, Outcome::kInvalidConfig);
  EXPECT_THAT((*results)[1].artifact.log, HasSubstr("compiled for exactly 64"));
  EXPECT_TRUE((*results)[1].artifact.binary.empty());
}

TEST_F(CompileBatchTest, ALanguageThatNobodyCompilesEndsIt) {
  CompileBatch batch(compilers_, /*bytes_max=*/1 << 20);
  ProgramPlan plan = Plan("ok");
  plan.compile.language = Language::kPtx;
  batch.Add(plan);
  EXPECT_TRUE(absl::IsUnimplemented(batch.Await({}).status()));
}

TEST_F(CompileBatchTest, TooManyBytesInAllEndItAtOnce) {
  CompileBatch batch(compilers_, /*bytes_max=*/100);
  for (int i = 0; i < 3; ++i) batch.Add(Plan("bulky 40"));
  batch.Add(Plan("hang"));  // nobody waits for what comes after
  const absl::Status status = batch.Await({}).status();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("more than 100 bytes in all"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("--gate-binary-bytes"));
}

}  // namespace
}  // namespace tune::server
