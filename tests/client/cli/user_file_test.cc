// SPDX-License-Identifier: Apache-2.0
#include "client/cli/user_file.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>

namespace tune::client {
namespace {

TEST(WriteFile, StandardOutputIsWrittenTo) {
  testing::internal::CaptureStdout();
  std::fputs("before ", stdout);
  EXPECT_TRUE(WriteFile("/dev/stdout", "text").ok());
  std::fputs(" after", stdout);
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "before text after");
}

// A shell gives such a file for --markdown >(command).
TEST(WriteFile, APipeOfADescriptorIsWrittenTo) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  EXPECT_EQ(WriteFile("/dev/fd/" + std::to_string(ends[1]), "text"), absl::OkStatus());
  char read_back[8] = {};
  EXPECT_EQ(read(ends[0], read_back, sizeof read_back), 4);
  EXPECT_STREQ(read_back, "text");
  close(ends[0]);
  close(ends[1]);
}

TEST(WriteFile, ALinkStaysALink) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::path(testing::TempDir()) / ("user-file-" + std::to_string(getpid()));
  fs::create_directories(folder);
  ASSERT_EQ(WriteFile((folder / "real.txt").string(), "none"), absl::OkStatus());
  fs::create_symlink("real.txt", folder / "link.txt");
  for (const char* text : {"one", "two"}) {
    ASSERT_EQ(WriteFile((folder / "link.txt").string(), text), absl::OkStatus());
    EXPECT_EQ(ReadFile((folder / "real.txt").string()).value(), text);
  }
  EXPECT_TRUE(fs::is_symlink(folder / "link.txt"));
  fs::remove_all(folder);
}

}  // namespace
}  // namespace tune::client
