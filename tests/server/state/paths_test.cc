// SPDX-License-Identifier: Apache-2.0
#include "server/state/paths.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "tests/server/temp_dir.h"

namespace tune::server {
namespace {

using testing::HasSubstr;

class PrivateDirTest : public testing::Test {
 protected:
  mode_t Mode() const {
    struct stat folder = {};
    EXPECT_EQ(stat(path_.c_str(), &folder), 0);
    return folder.st_mode & 07777;
  }

  const TempDir dir_;
  const std::string path_ = dir_.path() + "/parent/state";
};

TEST_F(PrivateDirTest, AFolderThatIsCreatedIsItsOwnersAlone) {
  ASSERT_TRUE(MakePrivateDir(path_).ok());
  EXPECT_EQ(Mode(), 0700);
  EXPECT_TRUE(MakePrivateDir(path_).ok()) << "it exists";
}

TEST_F(PrivateDirTest, AFolderThatOthersMayWriteIsRefusedWithTheChmod) {
  ASSERT_TRUE(MakePrivateDir(path_).ok());
  for (const mode_t mode : {0777, 0770, 0702, 01777}) {
    ASSERT_EQ(chmod(path_.c_str(), mode), 0);
    const absl::Status refused = MakePrivateDir(path_);
    EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << std::oct << mode << " " << refused;
    EXPECT_THAT(refused.message(), HasSubstr("chmod go-w " + path_));
    EXPECT_TRUE(MakeDir(path_).ok());
    EXPECT_EQ(Mode(), mode) << "it is left as it is";
  }
  for (const mode_t mode : {0755, 0750, 0711}) {
    ASSERT_EQ(chmod(path_.c_str(), mode), 0);
    EXPECT_TRUE(MakePrivateDir(path_).ok()) << std::oct << mode;
  }
}

TEST_F(PrivateDirTest, AFolderOfAnotherUserIsRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root";
  ASSERT_TRUE(MakePrivateDir(path_).ok());
  ASSERT_EQ(chown(path_.c_str(), 12345, 0), 0);
  const absl::Status refused = MakePrivateDir(path_);
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_THAT(refused.message(), HasSubstr("belongs to user 12345"));
}

}  // namespace
}  // namespace tune::server
