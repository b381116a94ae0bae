// SPDX-License-Identifier: Apache-2.0
#include "client/waiting_note.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tune::client {
namespace {

using testing::HasSubstr;

TEST(WaitingNote, SpeaksAfterAPeriod) {
  testing::internal::CaptureStderr();
  {
    const WaitingNote note("softmax/best is being measured", std::chrono::milliseconds(5));
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("tunectl: softmax/best is being measured (0 s)\n"));
}

TEST(WaitingNote, IsSilentAboutShortWaitsAndEndsAtOnce) {
  testing::internal::CaptureStderr();
  const auto begin = std::chrono::steady_clock::now();
  { const WaitingNote note("nothing", std::chrono::hours(1)); }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

}  // namespace
}  // namespace tune::client
