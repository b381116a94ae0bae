// SPDX-License-Identifier: Apache-2.0
#include "client/cli/waiting_note.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

namespace tune::client {
namespace {

using testing::HasSubstr;

TEST(WaitingNote, SpeaksAfterAPeriod) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const int stderr_before = dup(STDERR_FILENO);
  dup2(ends[1], STDERR_FILENO);
  char said[200];
  ssize_t length = 0;
  {
    const WaitingNote note("softmax/best is being measured", std::chrono::milliseconds(5));
    length = read(ends[0], said, sizeof(said));  // until it speaks
  }
  dup2(stderr_before, STDERR_FILENO);
  for (const int fd : {ends[0], ends[1], stderr_before}) close(fd);
  ASSERT_GT(length, 0);
  EXPECT_THAT(std::string(said, static_cast<size_t>(length)),
              HasSubstr("tunectl: softmax/best is being measured (0 s)\n"));
}

TEST(WaitingNote, IsSilentAboutShortWaitsAndEndsAtOnce) {
  testing::internal::CaptureStderr();
  { const WaitingNote note("nothing", std::chrono::hours(1)); }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

}  // namespace
}  // namespace tune::client
