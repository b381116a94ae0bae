// SPDX-License-Identifier: Apache-2.0
#include "base/near_name.h"

#include <gmock/gmock.h>

namespace tune {
namespace {

TEST(NearName, FindsWhatIsASlipOrTwoAway) {
  const std::vector<std::string> names = {"softmax", "softmax_backward", "gemm", "rope"};
  EXPECT_EQ(NearName("softmx", names), "softmax");
  EXPECT_EQ(NearName("sotfmax", names), "softmax");
  EXPECT_EQ(NearName("gem", names), "gemm");
  EXPECT_EQ(NearName("attention", names), "");
  EXPECT_EQ(NearName("", names), "");
  EXPECT_EQ(DidYouMean("softmaxx", names), "; did you mean 'softmax'?");
  EXPECT_EQ(DidYouMean("layernorm", names), "");
}

TEST(NearName, FindsOtherCaseAndAbbreviations) {
  const std::vector<std::string> names = {"attention_decode", "attention", "softmax", "BLOCK_M"};
  EXPECT_EQ(NearName("SOFTMAX", names), "softmax");
  EXPECT_EQ(NearName("Sofmax", names), "softmax");
  EXPECT_EQ(NearName("block_m", names), "BLOCK_M");
  EXPECT_EQ(NearName("attn", names), "attention");
  EXPECT_EQ(NearName("at", names), "");
  EXPECT_EQ(NearName("ntn", names), "") << "an abbreviation has the first letter";
}

TEST(NearName, DoesNotCompareEndlessWords) {
  EXPECT_EQ(NearName(std::string(1 << 20, 'a'), {"softmax"}), "");
}

}  // namespace
}  // namespace tune
