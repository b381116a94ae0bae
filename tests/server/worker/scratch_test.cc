// SPDX-License-Identifier: Apache-2.0
#include "server/worker/scratch.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/server/as_somebody.h"
#include "tests/server/temp_dir.h"

namespace tune::server {
namespace {

namespace fs = std::filesystem;

class ScratchTest : public testing::Test {
 protected:
  ScratchTest() {
    fs::permissions(dir_.path(), fs::perms::all);
    fs::create_directory(scratch_);
    fs::permissions(scratch_, fs::perms::all);
  }
  TempDir dir_;
  const std::string scratch_ = dir_.path() + "/scratch";
};

TEST_F(ScratchTest, ClosedFoldersAreEmptied) {
  EXPECT_EQ(AsSomebody([&] {
              for (const mode_t mode : {0700, 0500, 0300, 0000}) {
                const std::string folder = scratch_ + "/" + std::to_string(mode);
                fs::create_directories(folder + "/below/and/more");
                std::ofstream(folder + "/below/file") << "text";
                chmod((folder + "/below").c_str(), mode);
                chmod(folder.c_str(), mode);
              }
              return EmptyFolder(scratch_) && fs::is_empty(scratch_) ? 0 : 1;
            }),
            0);
}

TEST_F(ScratchTest, NoDepthIsTooDeep) {
  int folder = open(scratch_.c_str(), O_RDONLY | O_DIRECTORY);
  for (int i = 0; i < 3000; ++i) {  // longer than a path may be, and more than may be open
    ASSERT_EQ(mkdirat(folder, "below", 0700), 0);
    const int below = openat(folder, "below", O_RDONLY | O_DIRECTORY);
    close(folder);
    folder = below;
  }
  close(folder);
  EXPECT_TRUE(RemoveFolder(scratch_));
  EXPECT_FALSE(fs::exists(scratch_));
}

TEST_F(ScratchTest, WhatALinkLeadsToStays) {
  fs::create_directory(dir_.path() + "/other");
  std::ofstream(dir_.path() + "/other/file") << "text";
  fs::create_symlink(dir_.path() + "/other", scratch_ + "/link");
  EXPECT_TRUE(EmptyFolder(scratch_));
  EXPECT_TRUE(fs::exists(dir_.path() + "/other/file"));
}

TEST_F(ScratchTest, WhatIsNotThereIsEmpty) {
  EXPECT_TRUE(EmptyFolder(dir_.path() + "/nothing"));
  EXPECT_TRUE(RemoveFolder(dir_.path() + "/nothing"));
}

}  // namespace
}  // namespace tune::server
