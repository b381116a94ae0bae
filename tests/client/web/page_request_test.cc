// SPDX-License-Identifier: Apache-2.0
#include "client/web/page_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tune::client {
namespace {

TEST(PageRequestTest, PathAndQueryAreDecoded) {
  const PageRequest request = ParseTarget("/devices/cuda%3A0?a=1%202&b&a=3#c").value();
  EXPECT_EQ(request.path, "/devices/cuda:0");
  EXPECT_EQ(request.query.at("a"), "1 2");
  EXPECT_EQ(request.query.at("b"), "");
  EXPECT_EQ(ParseTarget("/" + EscapedForUrl("cpu:a/b \xC3\xA9<")).value().path,
            "/cpu:a/b \xC3\xA9<");
}

TEST(PageRequestTest, TargetsThatNoLinkOfOursHasAreRefused) {
  for (const char* target : {"", "*", "sweeps", "http://other/", "/%", "/%4", "/%zz", "/%00",
                             "/%0d%0a", "/a%0Ab", "/\xFF", "/%C3", "/?x=%1b[2J", "/%E2%80%AE"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ParseTarget(target).status())) << target;
  }
}

TEST(PageRequestTest, OnlyNamesOfTheLoopbackAreThisHosts) {
  for (const char* host :
       {"localhost", "LOCALHOST:80", "127.0.0.1:7080", "127.8.9.1", "[::1]", "[::1]:7080"}) {
    EXPECT_TRUE(IsLoopbackHost(host)) << host;
  }
  for (const char* host :
       {"", "evil.example", "localhost.evil.example", "127.0.0.1.evil.example:7080", "127.0.0.256",
        "127.0.0", "[::1]evil", "[::2]:80", "10.0.0.1:7080", "0.0.0.0"}) {
    EXPECT_FALSE(IsLoopbackHost(host)) << host;
  }
}

}  // namespace
}  // namespace tune::client
