// SPDX-License-Identifier: Apache-2.0
#include "server/artifacts/artifact_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "server/artifacts/artifact_text.h"
#include "server/artifacts/processor_features.h"
#include "server/state/whole_file.h"
#include "tests/server/temp_dir.h"
#include "tuner/bundle.h"

namespace tune::server {
namespace {

using std::string_literals::operator""s;
using testing::HasSubstr;

constexpr int64_t kRoom = 1000;

class ArtifactFolderTest : public testing::Test {
 protected:
  std::unique_ptr<ArtifactFolder> Open(
      ArtifactFolder::Use use = ArtifactFolder::Use::kWrite) const {
    return ArtifactFolder::Open(dir_.path(), use, kRoom).value();
  }
  std::string FileOf(const std::string& digest) const {
    return absl::StrCat(dir_.path(), "/artifacts/sha256-", digest.substr(7), ".artifact");
  }
  // As if it had been written a day ago.
  void Age(const std::string& digest) const {
    std::filesystem::last_write_time(
        FileOf(digest), std::filesystem::file_time_type::clock::now() - std::chrono::hours(24));
  }
  void Name(const std::string& digest, size_t bytes_before = 0) const {
    std::ofstream(dir_.path() + "/sha256-0.json")
        << std::string(bytes_before, ' ') << R"({"id":1,"artifact":")" << digest << "\"}";
  }

  TempDir dir_;
};

TEST_F(ArtifactFolderTest, WhatIsKeptIsReadInPieces) {
  const auto folder = Open();
  const std::string digest = folder->Put("0123456789").value();
  EXPECT_EQ(digest, DigestOf("0123456789"));
  const auto piece = folder->Read(digest, 0, 4).value();
  EXPECT_EQ(piece.bytes, "0123");
  EXPECT_EQ(piece.whole_bytes, 10u);
  EXPECT_EQ(folder->Read(digest, 8, 4).value().bytes, "89");
  EXPECT_EQ(folder->Read(digest, 10, 4).value().bytes, "");
  EXPECT_EQ(folder->Read(digest, uint64_t{1} << 60, 4).value().bytes, "");
  struct stat info = {};
  ASSERT_EQ(stat(FileOf(digest).c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777u, 0644u);
  EXPECT_EQ(Open(ArtifactFolder::Use::kRead)->Read(digest, 0, 4).value().bytes, "0123");
}

TEST_F(ArtifactFolderTest, WhatIsDamagedIsNotGivenOutAndGoes) {
  const auto folder = Open();
  const std::string digest = folder->Put("0123456789").value();
  std::ofstream(FileOf(digest)) << "0123456780";
  const auto read = folder->Read(digest, 0, 4);
  EXPECT_TRUE(absl::IsNotFound(read.status()));
  EXPECT_THAT(std::string(read.status().message()), HasSubstr("damaged"));
  EXPECT_FALSE(std::filesystem::exists(FileOf(digest)));
  EXPECT_EQ(folder->Put("0123456789").value(), digest);
}

TEST_F(ArtifactFolderTest, NamesThatAreNone) {
  const auto folder = Open();
  for (const std::string name : {"", "sha256:", "../../etc/passwd", "sha256:../x"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(folder->Read(name, 0, 4).status())) << name;
  }
  EXPECT_TRUE(absl::IsNotFound(folder->Read(DigestOf("x"), 0, 4).status()));
  EXPECT_TRUE(absl::IsFailedPrecondition(Open(ArtifactFolder::Use::kRead)->Put("0").status()));
}

TEST_F(ArtifactFolderTest, WhereThereIsNoRoomWhatNoSnapshotNamesGoes) {
  const auto folder = Open();
  const std::string named = folder->Put(std::string(400, 'a')).value();
  const std::string unnamed = folder->Put(std::string(400, 'b')).value();
  // Across the pieces that snapshots are searched in.
  Name(named, (size_t{4} << 20) - 60);
  // Both are new.
  EXPECT_TRUE(absl::IsResourceExhausted(folder->Put(std::string(400, 'c')).status()));
  Age(named);
  Age(unnamed);
  const std::string third = folder->Put(std::string(400, 'c')).value();
  EXPECT_TRUE(folder->Read(named, 0, 1).ok());
  EXPECT_FALSE(folder->Read(unnamed, 0, 1).ok());
  EXPECT_TRUE(folder->Read(third, 0, 1).ok());
  const auto full = folder->Put(std::string(kRoom, 'd'));
  EXPECT_TRUE(absl::IsResourceExhausted(full.status()));
  EXPECT_THAT(std::string(full.status().message()), HasSubstr("--artifact-bytes"));
}

TEST(ArtifactTextTest, SaysHowToLaunchAndHasTheBinariesBehind) {
  StepPlan step{.launch = {.entry = "scale", .grid = {7, 1, 1}, .block = {64, 1, 1}},
                .args = {BufferPlan{.name = "x", .count = 448, .role = Role::kInOut},
                         ScalarPlan{.name = "a", .dtype = DType::kF32, .value = 0.5}},
                .zero = {BufferPlan{.name = "sums", .count = 3, .role = Role::kScratch}}};
  Program program{.steps = {step}, .binary = Bundle({"first", "second"})};
  const std::string text = ArtifactText({.problem = {.dims = {{"n", 448}}}, .target = "cpu"},
                                        "scale", {.entries = {{"THREADS", int64_t{64}}}}, program)
                               .value();
  const std::string line = text.substr(0, text.find('\n'));
  EXPECT_EQ(text.substr(line.size()), "\nfirstsecond");
  for (const char* part :
       {R"("dims":{"n":448})", R"("config":{"THREADS":64})", R"("binary_bytes":[5,6])",
        R"("entry":"scale")", R"("grid":[7,1,1])",
        R"({"kind":"buffer","name":"x","dtype":"f32","count":448,"role":"inout"})",
        R"({"kind":"scalar","name":"a","dtype":"f32","value":0.5})", R"("role":"scratch")"}) {
    EXPECT_THAT(line, HasSubstr(part));
  }
  EXPECT_TRUE(CheckArtifactText(text, DigestOf(text)).ok());
  for (const std::string& damaged :
       {text.substr(0, text.size() - 1), text + "x", line, ""s,
        absl::StrReplaceAll(text, {{"\"version\":1", "\"version\":2"}}),
        absl::StrReplaceAll(text, {{"[5,6]", "[5,-6]"}})}) {
    EXPECT_TRUE(absl::IsInvalidArgument(CheckArtifactText(damaged, DigestOf(damaged)))) << damaged;
  }
  EXPECT_TRUE(absl::IsInvalidArgument(CheckArtifactText(text, DigestOf("another"))));
  program.binary.pop_back();
  EXPECT_FALSE(ArtifactText({}, "scale", {}, program).ok());
}

TEST(ProcessorFeaturesTest, OnlyWhatCodeIsMadeOf) {
  EXPECT_THAT(ProcessorFeaturesIn("model name\t: X\nflags\t\t: fpu sse2 ht avx2 hypervisor bmi1\n"),
              testing::ElementsAre("avx2", "bmi1", "sse2"));
  EXPECT_THAT(ProcessorFeaturesIn("Features : fp asimd sve\n"),
              testing::ElementsAre("asimd", "fp", "sve"));
  EXPECT_THAT(ProcessorFeaturesIn("nothing of the kind"), testing::IsEmpty());
}

}  // namespace
}  // namespace tune::server
