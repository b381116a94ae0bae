// SPDX-License-Identifier: Apache-2.0
#include "server/gate/compile_batch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
  static CompilePlan Plan(const std::string& behaviour) {
    return {.target = "sm_90a", .source_name = "a.cu", .source_text = behaviour, .entries = {"k"}};
  }

  TempDir dir_;
  CompilePool pool_{Options(dir_)};
};

TEST_F(CompileBatchTest, GivesResultsInTheOrderOfAdding) {
  CompileBatch batch(pool_, /*bytes_max=*/1 << 20);
  for (const char* behaviour : {"bulky 30", "outcome 3", "bulky 10"}) batch.Add(Plan(behaviour));
  const auto results = batch.Await({});
  ASSERT_TRUE(results.ok()) << results.status();
  ASSERT_EQ(results->size(), 3u);
  EXPECT_EQ((*results)[0].artifact.binary.size(), 30u);
  EXPECT_EQ((*results)[1].artifact.outcome, Outcome::kCompileFailed);
  EXPECT_EQ((*results)[2].artifact.binary.size(), 10u);
}

TEST_F(CompileBatchTest, TooManyBytesInAllEndItAtOnce) {
  CompileBatch batch(pool_, /*bytes_max=*/100);
  for (int i = 0; i < 3; ++i) batch.Add(Plan("bulky 40"));
  batch.Add(Plan("hang"));  // nobody waits for what comes after
  const absl::Status status = batch.Await({}).status();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("more than 100 bytes in all"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("--gate-binary-bytes"));
}

}  // namespace
}  // namespace tune::server
