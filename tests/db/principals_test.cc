// SPDX-License-Identifier: Apache-2.0
// The store's rows about principals: tokens, owners, and name spaces of records.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/db/rows_to_store.h"

namespace tune::db {
namespace {

using testing::ElementsAre;
using testing::UnorderedElementsAre;

TEST_F(StoreTest, TokensAreKeptAndEnded) {
  Store& store = Reopen();
  TokenRow token{.name = "ci",
                 .role = Role::kSubmitter,
                 .hash = "abc",
                 .creator = "root",
                 .created_unix_ms = 1,
                 .expires_unix_ms = 2};
  token.id = store.AddToken(token).value();
  EXPECT_FALSE(store.AddToken(token).ok()) << "the same hash again";
  TokenRow other = token;
  other.hash = "def";
  other.id = store.AddToken(other).value();
  EXPECT_GT(other.id, token.id);
  token.revoked_unix_ms = 7;
  ASSERT_TRUE(store.UpdateToken(token).ok());
  token.revoked_unix_ms = 0;
  token.last_used_unix_ms = 6;
  ASSERT_TRUE(store.UpdateToken(token).ok()) << "a use that was noted late";
  const std::vector<TokenRow> tokens = Reopen().ListTokens().value();
  ASSERT_EQ(tokens.size(), 2u);
  EXPECT_EQ(tokens[0].id, other.id);
  EXPECT_EQ(tokens[1].revoked_unix_ms, 7) << "stays revoked";
  EXPECT_EQ(tokens[1].last_used_unix_ms, 6);
  token.id = 99;
  EXPECT_TRUE(absl::IsNotFound(store_->UpdateToken(token)));
}

class NameSpacesTest : public StoreTest {
 protected:
  NameSpacesTest() {
    Reopen();
    EXPECT_TRUE(store_->PutKernel(MakeKernelRow("k1")).ok());
  }
  // A finished sweep of the same kernel on the same problem; its winner's trial.
  int64_t Sweep(const std::string& owner, const std::string& name_space) {
    SweepRow sweep = MakeSweepRow("k1");
    sweep.job.owner = owner;
    sweep.name_space = name_space;
    sweep.idempotency_key.clear();
    sweep = store_->AddSweep(sweep).value();
    const int64_t trial = store_->AppendTrial(MakeConfirmed(sweep.id), MakeTrialKey("k1")).value();
    sweep.best_trial_id = trial;
    sweep.job.state = JobState::kDone;
    EXPECT_TRUE(store_->UpdateSweep(sweep).ok());
    return trial;
  }
  std::vector<std::string> Records() {
    std::vector<std::string> records;
    const std::vector<lookup::Record> rows = store_->CurrentRecords().value();
    for (const lookup::Record& row : rows) {
      records.push_back(
          absl::StrCat(row.kernel_name, " by ", row.submitter, ", trial ", row.trial.id));
    }
    return records;
  }
};

TEST_F(NameSpacesTest, ARecordReplacesOnlyRecordsOfItsNameSpace) {
  Sweep("root", "");
  Sweep("alice", "alice");
  Sweep("alice", "alice");
  Sweep("bob", "bob");
  EXPECT_EQ(store_->RebuildRecords().value(), 4);
  EXPECT_EQ(store_->RebuildRecords().value(), 0);
  EXPECT_THAT(Records(),
              UnorderedElementsAre("softmax by root, trial 1", "alice/softmax by alice, trial 3",
                                   "bob/softmax by bob, trial 4"));
  EXPECT_EQ(store_->GetSweep(2)->kernel_name, "alice/softmax");
}

TEST_F(NameSpacesTest, ProfilesAreFoundByTheWholeName) {
  Sweep("local", "");
  for (const char* name : {"softmax", "alice/softmax", "alice/softmax"}) {
    ASSERT_TRUE(store_->AppendProfile({.key = MakeTrialKey("k1"), .kernel_name = name}).ok());
  }
  EXPECT_EQ(store_->ListProfiles({.kernel_name = "softmax"})->size(), 1u);
  EXPECT_EQ(store_->ListProfiles({.kernel_name = "alice/softmax"})->size(), 2u);
  EXPECT_EQ(store_->ListProfiles({.kernel_name = "bob/softmax"})->size(), 0u);
  EXPECT_EQ(store_->ListProfiles({})->front().kernel_name, "alice/softmax");
}

TEST_F(NameSpacesTest, SourcesOfAPrincipalAreCountedOnce) {
  const KernelRow kernel = MakeKernelRow("brought");
  size_t bytes = kernel.spec_text.size();
  for (const auto& [name, text] : kernel.files) bytes += text.size();
  EXPECT_TRUE(absl::IsResourceExhausted(store_->KeepKernel("alice", kernel, bytes - 1)))
      << "bytes, not characters";
  EXPECT_FALSE(store_->GetKernel("brought").ok()) << "what is not kept takes no room";
  EXPECT_TRUE(store_->KeepKernel("alice", kernel, bytes).ok());
  EXPECT_TRUE(store_->KeepKernel("alice", kernel, bytes).ok()) << "kept before";
  const KernelRow other = MakeKernelRow("other");
  EXPECT_TRUE(absl::IsResourceExhausted(store_->KeepKernel("alice", other, bytes)));
  EXPECT_TRUE(store_->KeepKernel("bob", kernel, bytes).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(store_->KeepKernel("bob", other, bytes)))
      << "that somebody else has it, too, makes no room";
}

}  // namespace
}  // namespace tune::db
