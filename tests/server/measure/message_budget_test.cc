// SPDX-License-Identifier: Apache-2.0
#include "server/measure/message_budget.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tune::server {
namespace {

using ::testing::EndsWith;
using ::testing::Lt;
using ::testing::SizeIs;

TEST(MessageBudgetTest, AThousandLongMessagesTakeHardlyMoreThanAKibibyteEach) {
  MessageBudget messages;
  size_t bytes = 0;
  for (int i = 0; i < 960; ++i) bytes += messages.Cut(std::string(20000, 'x')).size();
  EXPECT_LT(bytes, (256 << 10) + (16 << 10) + 960 * 1100);
  EXPECT_THAT(messages.Cut(std::string(2000, 'x')), SizeIs(Lt(1100u)));
  EXPECT_THAT(messages.Cut(std::string(2000, 'x')), EndsWith("are long)"));
  EXPECT_EQ(messages.Cut("short"), "short");
}

TEST(MessageBudgetTest, TheFirstMessagesAreWhole) {
  MessageBudget messages;
  EXPECT_THAT(messages.Cut(std::string(10000, 'x')), SizeIs(10000u));
  EXPECT_THAT(messages.Cut(std::string(20000, 'x')), EndsWith("(cut)"));
}

}  // namespace
}  // namespace tune::server
