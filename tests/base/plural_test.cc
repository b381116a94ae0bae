// SPDX-License-Identifier: Apache-2.0
#include "base/plural.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace tune {
namespace {

TEST(PluralTest, OnlyOneIsSingular) {
  EXPECT_EQ(Counted(0, "trial"), "0 trials");
  EXPECT_EQ(Counted(1, "trial"), "1 trial");
  EXPECT_EQ(Counted(uint64_t{21}, "trial"), "21 trials");
  EXPECT_EQ(Counted(1, "other job is", "other jobs are"), "1 other job is");
  EXPECT_EQ(Counted(2, "other job is", "other jobs are"), "2 other jobs are");
}

}  // namespace
}  // namespace tune
