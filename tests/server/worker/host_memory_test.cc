// SPDX-License-Identifier: Apache-2.0
#include "server/worker/host_memory.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/server/temp_dir.h"

namespace tune::server {
namespace {

constexpr int64_t kGiB = int64_t{1} << 30;

class HostMemoryTest : public testing::Test {
 protected:
  HostMemoryTest() { Write("/proc/meminfo", "MemTotal:       16777216 kB\nMemFree: 1 kB\n"); }
  void Write(const std::string& path, const std::string& text) {
    const std::filesystem::path file = dir_.path() + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  int64_t Bytes() const { return UsableMemoryBytes(dir_.path()); }

  TempDir dir_;
};

TEST_F(HostMemoryTest, IsTheHostsWithoutALimit) {
  EXPECT_EQ(Bytes(), 16 * kGiB);
  Write("/proc/self/cgroup", "0::/user.slice/a.scope\n");
  Write("/sys/fs/cgroup/user.slice/a.scope/memory.max", "max\n");
  EXPECT_EQ(Bytes(), 16 * kGiB);
}

TEST_F(HostMemoryTest, AGroupsLimitCountsAndThatOfAGroupAboveIt) {
  Write("/proc/self/cgroup", "0::/user.slice/a.scope\n");
  Write("/sys/fs/cgroup/user.slice/a.scope/memory.max", "8589934592\n");
  EXPECT_EQ(Bytes(), 8 * kGiB);
  Write("/sys/fs/cgroup/user.slice/memory.max", "4294967296\n");
  EXPECT_EQ(Bytes(), 4 * kGiB);
  Write("/sys/fs/cgroup/memory.max", "2147483648\n");  // a container's own root
  EXPECT_EQ(Bytes(), 2 * kGiB);
}

TEST_F(HostMemoryTest, KnowsTheFirstVersionOfGroups) {
  Write("/proc/self/cgroup", "9:cpu:/x\n8:memory:/docker/abc\n");
  Write("/sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes", "3221225472\n");
  EXPECT_EQ(Bytes(), 3 * kGiB);
}

TEST_F(HostMemoryTest, IsUnknownWhereNothingSaysSo) {
  EXPECT_EQ(UsableMemoryBytes(dir_.path() + "/nothing here"), 0);
  EXPECT_GT(UsableMemoryBytes(), 0) << "this host";
}

TEST(CompileWorkersTest, AreAsManyAsThreadsUnlessMemoryIsShort) {
  EXPECT_EQ(CompileWorkersThatFit(16, 128 * kGiB, kGiB), 16);
  EXPECT_EQ(CompileWorkersThatFit(16, 8 * kGiB, kGiB), 6);
  EXPECT_EQ(CompileWorkersThatFit(16, kGiB / 2, kGiB), 1) << "one at least";
  EXPECT_EQ(CompileWorkersThatFit(16, 0, kGiB), 16) << "memory not known";
}

}  // namespace
}  // namespace tune::server
