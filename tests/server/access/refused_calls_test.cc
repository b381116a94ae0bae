// SPDX-License-Identifier: Apache-2.0
#include "server/access/refused_calls.h"

#include <gtest/gtest.h>

#include <string>

#include "server/log.h"

namespace tune::server {
namespace {

class RefusedCallsTest : public testing::Test {
 protected:
  RefusedCallsTest() { (void)StartLog("off", LogFormat::kText); }
  absl::Duration WrongToken(const std::string& host) {
    return calls_.Note({.host = host, .path = "/S/M", .caller = "", .wrong_token = true},
                       absl::UnauthenticatedError("no such token"));
  }

  RefusedCalls calls_;
};

TEST_F(RefusedCallsTest, TheFirstWrongTokensAreAnsweredAtOnce) {
  for (int i = 0; i < 10; ++i) EXPECT_EQ(WrongToken("10.0.0.1"), absl::ZeroDuration()) << i;
}

TEST_F(RefusedCallsTest, AHostThatGuessesOnWaitsLongerAndLonger) {
  absl::Duration before;
  for (int i = 0; i < 10; ++i) WrongToken("10.0.0.1");
  for (int i = 0; i < 10; ++i) {
    const absl::Duration delay = WrongToken("10.0.0.1");
    EXPECT_GT(delay, before);
    before = delay;
  }
  for (int i = 0; i < 20; ++i) before = WrongToken("10.0.0.1");
  EXPECT_GT(before, RefusedCalls::kDelayMost) << "its connection is shut";
  EXPECT_EQ(WrongToken("10.0.0.2"), absl::ZeroDuration()) << "another host's first";
}

TEST_F(RefusedCallsTest, ADeniedCallIsCountedAndNotDelayed) {
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(calls_.Note({.host = "10.0.0.1", .path = "/S/M", .caller = "rita, a reader"},
                          absl::PermissionDeniedError("for operators")),
              absl::ZeroDuration());
  }
  WrongToken("10.0.0.1");
  EXPECT_EQ(calls_.counts().calls, 101u);
  EXPECT_EQ(calls_.counts().wrong_tokens, 1u);
}

TEST_F(RefusedCallsTest, ManyHostsTakeBoundedMemory) {
  for (int i = 0; i < 5000; ++i) {
    EXPECT_EQ(WrongToken("host " + std::to_string(i)), absl::ZeroDuration());
  }
  EXPECT_EQ(calls_.counts().calls, 5000u);
}

}  // namespace
}  // namespace tune::server
