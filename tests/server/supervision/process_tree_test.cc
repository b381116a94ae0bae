// SPDX-License-Identifier: Apache-2.0
#include "server/supervision/process_tree.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <thread>

#include "tests/server/as_somebody.h"
#include "tests/server/temp_dir.h"

namespace tune::server {
namespace {

namespace fs = std::filesystem;
constexpr int kEntries = 100;
constexpr int64_t kBeyond = std::numeric_limits<int64_t>::max();

TEST(ResidentBytesTest, PageTablesCount) {
  constexpr size_t kSpan = size_t{16} << 30;
  constexpr size_t kTable = size_t{2} << 20;  // what one page of a table maps
  const int64_t before = ResidentBytesOf(getpid());
  void* span = mmap(nullptr, kSpan, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(span, MAP_FAILED);
  madvise(span, kSpan, MADV_NOHUGEPAGE);
  volatile char seen = 0;
  for (size_t at = 0; at < kSpan; at += kTable) seen = static_cast<const char*>(span)[at];
  (void)seen;
  EXPECT_GT(ResidentBytesOf(getpid()) - before, int64_t{24} << 20) << "of 32 MiB of tables";
  munmap(span, kSpan);
}

TEST(ResidentBytesTest, ThreadsOfAllProcessesAreCounted) {
  const int before = UseOfTree(getpid(), 100).threads;
  std::thread waiting([] { usleep(500'000); });
  EXPECT_EQ(UseOfTree(getpid(), 100).threads, before + 1);
  waiting.join();
  EXPECT_EQ(UseOfTree(getpid(), 100).processes, 1);
}

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
