// SPDX-License-Identifier: Apache-2.0
#include "server/snapshots/snapshot_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/sha256.h"
#include "tests/server/temp_dir.h"

namespace tune::server {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string Text(int64_t number) {
  return absl::StrCat(R"({"format":"tunectl snapshot","version":1,"number":)", number,
                      R"(,"published_unix_ms":5,"record_count":2,)", "\n\"records\":[]}\n");
}

std::string DigestOf(const std::string& text) { return absl::StrCat("sha256:", Sha256Hex(text)); }

std::vector<int64_t> Numbers(const SnapshotFolder& folder) {
  std::vector<int64_t> numbers;
  for (const StoredSnapshot& snapshot : folder.List()) numbers.push_back(snapshot.header.number);
  return numbers;
}

class SnapshotFolderTest : public testing::Test {
 protected:
  std::unique_ptr<SnapshotFolder> Open(uint32_t kept = 2,
                                       SnapshotFolder::Use use = SnapshotFolder::Use::kWrite) {
    return SnapshotFolder::Open(path_, use, kept).value();
  }
  mode_t ModeOf(const std::string& path) {
    struct stat info = {};
    EXPECT_EQ(stat(path.c_str(), &info), 0) << path;
    return info.st_mode & 0777;
  }

  TempDir dir_;
  const std::string path_ = dir_.path() + "/snapshots";
};

TEST_F(SnapshotFolderTest, AFileIsNamedByItsBytesAndReadByTheGroup) {
  umask(077);
  const auto folder = Open();
  const std::string digest = folder->PutNewest(Text(1)).value();
  EXPECT_EQ(digest, DigestOf(Text(1)));
  const std::string file = absl::StrCat(path_, "/sha256-", digest.substr(7), ".json");
  EXPECT_EQ(ModeOf(file), 0644u);
  EXPECT_EQ(ModeOf(path_), 0750u);
  EXPECT_EQ(folder->Read(digest, 0, 1 << 20).value(), Text(1));
  EXPECT_EQ(folder->Read(digest, 5, 7).value(), Text(1).substr(5, 7));
  EXPECT_EQ(folder->Read(digest, 1 << 20, 7).value(), "");
  const StoredSnapshot newest = folder->Find("").value();
  EXPECT_EQ(newest.digest, digest);
  EXPECT_EQ(newest.header.record_count, 2u);
  EXPECT_EQ(newest.bytes, Text(1).size());
  EXPECT_TRUE(newest.newest);
}

TEST_F(SnapshotFolderTest, TheModeThatAnOperatorGaveTheFolderStays) {
  Open();
  ASSERT_EQ(chmod(path_.c_str(), 0755), 0);
  Open();
  EXPECT_EQ(ModeOf(path_), 0755u);
}

TEST_F(SnapshotFolderTest, TheNewestFewAreKeptAndThosePinned) {
  const auto folder = Open();
  folder->PutNewest(Text(1)).value();
  folder->Pin(DigestOf(Text(1)), "run 17").value();
  for (int64_t number = 2; number <= 5; ++number) folder->PutNewest(Text(number)).value();
  EXPECT_THAT(Numbers(*folder), ElementsAre(5, 4, 1));
  EXPECT_EQ(folder->Find(DigestOf(Text(1)))->note, "run 17");
  EXPECT_FALSE(folder->Unpin(DigestOf(Text(1)))->note.has_value());
  EXPECT_EQ(folder->Prune(1)->size(), 2u);
  EXPECT_THAT(Numbers(*folder), ElementsAre(5));
  EXPECT_EQ(folder->Prune(0)->size(), 0u) << "the newest always stays";
}

TEST_F(SnapshotFolderTest, ASnapshotIsFoundByDigestStartOrNumber) {
  const auto folder = Open();
  folder->PutNewest(Text(1)).value();
  folder->PutNewest(Text(2)).value();
  const std::string digest = DigestOf(Text(1));
  for (const std::string& name :
       {digest, digest.substr(0, 20), digest.substr(7, 6), std::string("1")}) {
    EXPECT_EQ(folder->Find(name).value().digest, digest) << name;
  }
  for (const char* name : {"3", "sha256:ffffffffffff", "ffffffffffff"}) {
    EXPECT_TRUE(absl::IsNotFound(folder->Find(name).status())) << name;
  }
  for (const char* name : {"../x", "sha256:12", "sha256:", "xyz", "-", "sha256:ABCDEFAB"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(folder->Find(name).status())) << name;
  }
}

TEST_F(SnapshotFolderTest, AnotherSnapshotOfTheSameNumberIsNotTakenForIt) {
  const auto folder = Open();
  folder->PutNewest(Text(1)).value();
  folder->PutNewest(Text(1) + "\n").value();
  EXPECT_THAT(folder->Find("1").status().message(), HasSubstr("means 2 snapshots"));
}

TEST_F(SnapshotFolderTest, SomebodyElsesIsPinned) {
  const auto folder = Open(1);
  folder->PutNewest(Text(5)).value();
  EXPECT_EQ(folder->PutPinned(Text(3), "from afar")->note, "from afar");
  folder->PutNewest(Text(6)).value();
  EXPECT_THAT(Numbers(*folder), ElementsAre(6, 3));
  EXPECT_EQ(folder->Find("")->header.number, 6) << "and is not the newest";
  EXPECT_TRUE(
      absl::IsInvalidArgument(folder->Pin(DigestOf(Text(3)), std::string(201, 'x')).status()));
}

TEST_F(SnapshotFolderTest, WhatIsNoSnapshotIsLeftOut) {
  const auto folder = Open();
  const std::string hex(64, 'a');
  std::ofstream(absl::StrCat(path_, "/sha256-", hex, ".json")) << "not a snapshot";
  std::ofstream(absl::StrCat(path_, "/sha256-short.json")) << Text(1);
  std::filesystem::create_symlink("/etc/passwd",
                                  absl::StrCat(path_, "/sha256-", std::string(64, 'b'), ".json"));
  EXPECT_THAT(folder->List(), IsEmpty());
  EXPECT_TRUE(absl::IsNotFound(folder->Find("").status()));
}

TEST_F(SnapshotFolderTest, AnUnfinishedFileOfADeadDaemonGoes) {
  Open();
  std::ofstream(path_ + "/.writing-1") << "half";
  Open();
  EXPECT_FALSE(std::filesystem::exists(path_ + "/.writing-1"));
}

TEST_F(SnapshotFolderTest, BesideItsOwnerItIsOnlyRead) {
  const auto reader = Open(2, SnapshotFolder::Use::kRead);
  EXPECT_THAT(reader->List(), IsEmpty());
  EXPECT_FALSE(std::filesystem::exists(path_));
  const auto folder = Open();
  const std::string digest = folder->PutNewest(Text(1)).value();
  EXPECT_THAT(Numbers(*reader), ElementsAre(1));
  EXPECT_TRUE(absl::IsFailedPrecondition(reader->PutNewest(Text(2)).status()));
  EXPECT_TRUE(absl::IsFailedPrecondition(reader->Pin(digest, "").status()));
  EXPECT_TRUE(absl::IsFailedPrecondition(reader->Prune(1).status()));
}

TEST(SnapshotTextTest, HeadersOfAnythingElseAreRefused) {
  const std::string line = Text(7).substr(0, Text(7).find('\n'));
  EXPECT_EQ(ParseSnapshotHeader(line)->number, 7);
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string changed = line;
    return changed.replace(changed.find(from), from.size(), to);
  };
  for (const std::string& bad :
       {std::string(), std::string(","), std::string("{}"), std::string("[],"), std::string("{},"),
        line.substr(1), line.substr(0, line.size() - 1), with(R"("version":1)", R"("version":2)"),
        with(R"("number":7)", R"("number":"7")"), with(R"("number":7)", R"("number":-7)"),
        with(R"("number":7,)", ""), with(R"("tunectl snapshot")", "7")}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ParseSnapshotHeader(bad).status())) << bad;
  }
  EXPECT_TRUE(CheckSnapshotText(Text(1)).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(CheckSnapshotText(Text(1).substr(0, Text(1).size() - 4))));
}

}  // namespace
}  // namespace tune::server
