// SPDX-License-Identifier: Apache-2.0
// When the headers of an include root are the same, and when they are known to have changed.
#include "tuner/device/include_roots.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace tune {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class IncludeRootsTest : public testing::Test {
 protected:
  IncludeRootsTest() {
    std::string folder = (fs::temp_directory_path() / "tune_roots_XXXXXX").string();
    folder_ = mkdtemp(folder.data());
  }
  ~IncludeRootsTest() override { fs::remove_all(folder_); }

  void Write(const std::string& name, const std::string& text) {
    const fs::path path = fs::path(folder_) / name;
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text;
    // The time of a file is whatever the tool that put it there says.
    fs::last_write_time(path, fs::file_time_type(std::chrono::hours(1)));
  }
  IncludeRoots Read(const std::string& dir, const std::string& name = "lib") {
    return IncludeRoots::Read({absl::StrCat(name, "=", folder_, "/", dir)}).value();
  }
  std::string DigestOf(const std::string& dir) { return Read(dir).DigestOf({"lib"}); }

  std::string folder_;
};

TEST_F(IncludeRootsTest, TheDigestIsOfNamesAndContentsWhereverTheyLie) {
  Write("a/x.h", "one");
  Write("a/sub/y.h", "two");
  Write("b/x.h", "one");
  Write("b/sub/y.h", "two");
  const std::string digest = DigestOf("a");
  EXPECT_EQ(digest.size(), 64u);
  EXPECT_EQ(DigestOf("b"), digest);
  Write("b/sub/y.h", "owt");  // as long, and of the same time
  EXPECT_NE(DigestOf("b"), digest);
  Write("b/sub/y.h", "two");
  EXPECT_EQ(DigestOf("b"), digest);
  Write("b/z.h", "");
  EXPECT_NE(DigestOf("b"), digest);
  fs::remove(fs::path(folder_) / "b/z.h");
  fs::rename(fs::path(folder_) / "b/x.h", fs::path(folder_) / "b/w.h");
  EXPECT_NE(DigestOf("b"), digest);
}

TEST_F(IncludeRootsTest, HeadersThatAreNotKnownHaveNoDigest) {
  Write("a/x.h", "one");
  const IncludeRoots roots = Read("a");
  EXPECT_EQ(roots.DigestOf({}), "") << "of a kernel without include roots";
  EXPECT_EQ(roots.DigestOf({"other"}), "");
  EXPECT_EQ(roots.DigestOf({"lib", "other"}), "");
  EXPECT_NE(roots.DigestOf({"lib"}), "");
}

TEST_F(IncludeRootsTest, ARewrittenFileIsNoticedIfItsTimeIsUnchanged) {
  Write("a/x.h", "one");
  const IncludeRoots roots = Read("a");
  EXPECT_TRUE(roots.CheckUnchanged({"lib"}).ok());
  EXPECT_TRUE(roots.CheckUnchanged({}).ok());
  Write("a/x.h", "two");
  const absl::Status changed = roots.CheckUnchanged({"lib"});
  EXPECT_TRUE(absl::IsFailedPrecondition(changed)) << changed;
  EXPECT_THAT(std::string(changed.message()), HasSubstr("start tunerd again"));
}

TEST_F(IncludeRootsTest, AFileThatIsAddedOrRemovedIsSeen) {
  Write("a/x.h", "one");
  Write("a/y.h", "two");
  const IncludeRoots roots = Read("a");
  Write("a/z.h", "three");
  EXPECT_FALSE(roots.CheckUnchanged({"lib"}).ok());
  fs::remove(fs::path(folder_) / "a/z.h");
  EXPECT_TRUE(roots.CheckUnchanged({"lib"}).ok());
  fs::remove(fs::path(folder_) / "a/y.h");
  EXPECT_FALSE(roots.CheckUnchanged({"lib"}).ok());
}

}  // namespace
}  // namespace tune
