// SPDX-License-Identifier: Apache-2.0
#include "server/snapshots/vault.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/server/temp_dir.h"

namespace tune::server {
namespace {

using ::testing::HasSubstr;

VaultEntry Entry(const std::string& key, const std::string& value, const std::string& owner = "ann",
                 int64_t stored = 1) {
  return {.tuner = "helion", .key = key, .value = value, .owner = owner, .stored_unix_ms = stored};
}

class VaultTest : public ::testing::Test {
 protected:
  std::unique_ptr<Vault> Open(Vault::Use use = Vault::Use::kWrite) {
    return Vault::Open(path_, use).value();
  }

  TempDir folder_;
  const std::string path_ = folder_.path() + "/vault";
};

TEST_F(VaultTest, EntriesAreThereAfterARestart) {
  EXPECT_TRUE(Open()->Put(Entry("k", "{\"a\": 1}"), false).value());
  const VaultEntry read = Open(Vault::Use::kRead)->Find("helion", "k").value();
  EXPECT_EQ(read.value, "{\"a\": 1}");
  EXPECT_EQ(read.owner, "ann");
}

TEST_F(VaultTest, AnEntryIsReplacedByItsOwnerAndOperatorsAlone) {
  const auto vault = Open();
  ASSERT_TRUE(vault->Put(Entry("k", "1"), false).ok());
  EXPECT_FALSE(vault->Put(Entry("k", "1", "bob"), false).value()) << "it is the same";
  EXPECT_TRUE(absl::IsPermissionDenied(vault->Put(Entry("k", "2", "bob"), false).status()));
  EXPECT_TRUE(vault->Put(Entry("k", "2"), false).value());
  EXPECT_TRUE(vault->Put(Entry("k", "3", "root"), true).value());
  EXPECT_EQ(vault->Find("helion", "k")->value, "3");
}

TEST_F(VaultTest, ASubmitterHasAQuarterOfTheRoom) {
  const auto vault = Open();
  const std::string value = absl::StrCat("\"", std::string(60000, 'x'), "\"");
  absl::Status status;
  int count = 0;
  for (; status.ok() && count < 100; ++count) {
    status = vault->Put(Entry(absl::StrCat(count), value), false).status();
  }
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("a submitter's part of the vault"));
  EXPECT_EQ(count, 35);
  EXPECT_TRUE(vault->Put(Entry("k", value, "bob"), false).ok());
}

TEST_F(VaultTest, NamesAndValuesThatAreNoneAreRefused) {
  const auto vault = Open();
  for (const VaultEntry& entry :
       {Entry("", "1"), Entry("a\n", "1"), Entry(std::string(513, 'k'), "1"), Entry("k", "{"),
        Entry("k", ""), Entry("k", std::string(65537, '1'))}) {
    EXPECT_TRUE(absl::IsInvalidArgument(vault->Put(entry, true).status())) << entry.key;
  }
  VaultEntry entry = Entry("k", "1");
  for (const char* tuner : {"", "1a", "../a", "a b"}) {
    entry.tuner = tuner;
    EXPECT_TRUE(absl::IsInvalidArgument(vault->Put(entry, true).status())) << tuner;
  }
}

TEST_F(VaultTest, FilesThatAreNoEntriesAreLeftAlone) {
  ASSERT_TRUE(Open()->Put(Entry("k", "1"), false).ok());
  for (const char* text : {"", "{", "[]", "{\"tuner\": \"helion\"}"}) {
    std::ofstream(absl::StrCat(path_, "/sha256-", std::string(text).size(), ".entry")) << text;
  }
  EXPECT_EQ(Open()->All().size(), 1);
}

TEST_F(VaultTest, ListsAreNewestFirstAndAReaderWritesNothing) {
  const auto vault = Open();
  for (int i = 1; i <= 3; ++i) {
    ASSERT_TRUE(vault->Put(Entry(absl::StrCat(i), "1", "ann", i), false).ok());
  }
  EXPECT_EQ(vault->List("helion", 2).front().key, "3");
  EXPECT_EQ(vault->List("helion", 2).size(), 2);
  EXPECT_TRUE(vault->List("other", 2).empty());
  EXPECT_EQ(vault->Remove("helion", "3")->key, "3");
  EXPECT_TRUE(absl::IsNotFound(vault->Remove("helion", "3").status()));
  const auto reader = Open(Vault::Use::kRead);
  EXPECT_EQ(reader->All().size(), 2);
  EXPECT_TRUE(absl::IsFailedPrecondition(reader->Put(Entry("k", "1"), true).status()));
}

TEST_F(VaultTest, AReaderNeedsNoFolder) {
  EXPECT_TRUE(Open(Vault::Use::kRead)->All().empty());
  EXPECT_FALSE(std::filesystem::exists(path_));
}

}  // namespace
}  // namespace tune::server
