// SPDX-License-Identifier: Apache-2.0
#include "server/supervision/process_tree.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <string>

#include "tests/server/as_somebody.h"
#include "tests/server/temp_dir.h"

namespace tune::server {
namespace {

namespace fs = std::filesystem;
constexpr int kEntries = 100;
constexpr int64_t kBeyond = std::numeric_limits<int64_t>::max();

TEST(BytesUnderTest, FilesOfAllDepthsCount) {
  const TempDir dir;
  EXPECT_LT(BytesUnder(dir.path(), kEntries), 1 << 16);
  fs::create_directories(dir.path() + "/a/b");
  std::ofstream(dir.path() + "/a/b/file") << std::string(1 << 20, 'x');
  EXPECT_GE(BytesUnder(dir.path(), kEntries), 1 << 20);
  fs::create_symlink("/usr", dir.path() + "/link");
  EXPECT_LT(BytesUnder(dir.path(), kEntries), 1 << 22) << "links lead nowhere";
  EXPECT_EQ(BytesUnder(dir.path(), 2), kBeyond) << "more entries than one may have";
  EXPECT_EQ(BytesUnder(dir.path() + "/nothing", kEntries), 0);
}

TEST(BytesUnderTest, AFolderThatCannotBeListedMayHoldAnything) {
  const TempDir dir;
  fs::permissions(dir.path(), fs::perms::all);
  EXPECT_EQ(AsSomebody([&] {
              const std::string closed = dir.path() + "/closed";
              if (mkdir(closed.c_str(), 0300) != 0) return 2;
              return BytesUnder(dir.path(), kEntries) == kBeyond ? 0 : 1;
            }),
            0);
}

}  // namespace
}  // namespace tune::server
