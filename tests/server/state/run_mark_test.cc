// SPDX-License-Identifier: Apache-2.0
#include "server/state/run_mark.h"

#include <gtest/gtest.h>

#include "tests/server/temp_dir.h"

namespace tune::server {
namespace {

TEST(RunMarkTest, OnlyADaemonThatWasKilledLeavesItsMark) {
  const TempDir dir;
  {
    RunMark first(dir.path());
    EXPECT_TRUE(first.ended_in_order()) << "nobody ran before";
    first.EndInOrder();
  }
  {
    const RunMark second(dir.path());
    EXPECT_TRUE(second.ended_in_order());
  }
  RunMark third(dir.path());
  EXPECT_FALSE(third.ended_in_order()) << "the second did not say that it ended";
  third.EndInOrder();
  EXPECT_TRUE(RunMark(dir.path()).ended_in_order());
}

}  // namespace
}  // namespace tune::server
