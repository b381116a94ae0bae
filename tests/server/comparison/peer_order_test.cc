// SPDX-License-Identifier: Apache-2.0
#include "server/comparison/peer_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace tune::server {
namespace {

using testing::HasSubstr;

BufferPlan Input(Fill::Kind kind, int64_t count, DType dtype = DType::kI32) {
  BufferPlan buffer{.name = "x", .dtype = dtype, .count = count, .role = Role::kInput};
  buffer.shape = {count};
  buffer.fill.kind = kind;
  buffer.fill.columns = count;
  return buffer;
}

absl::StatusOr<v1::PeerOrder> OrderOf(const BufferPlan& buffer) {
  ProblemPlan plan;
  plan.buffers.push_back(buffer);
  return PeerOrderOf({}, plan, {}, {.target = "x86-64"}, /*seed=*/1, {});
}

TEST(PeerOrderTest, AStructuredFillIsSentWhole) {
  const v1::PeerOrder order = OrderOf(Input(Fill::Kind::kPermutation, 1000)).value();
  ASSERT_EQ(order.args_size(), 1);
  EXPECT_EQ(order.args(0).elements().size(), 4000u);
}

TEST(PeerOrderTest, AFillThatNoOrderHoldsIsRefusedBeforeItIsMade) {
  for (const Fill::Kind kind :
       {Fill::Kind::kPermutation, Fill::Kind::kSorted, Fill::Kind::kOneHot,
        Fill::Kind::kLowerTriangular, Fill::Kind::kUpperTriangular, Fill::Kind::kOffsets}) {
    BufferPlan buffer = Input(kind, int64_t{1} << 36);
    buffer.fill.lengths = {1};
    const absl::Status refused = OrderOf(buffer).status();
    EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
    EXPECT_THAT(std::string(refused.message()), HasSubstr("'x' holds is too large"));
  }
}

TEST(PeerOrderTest, ASparseFillIsBoundedByItsRowsToo) {
  BufferPlan columns = Input(Fill::Kind::kCsrColumns, 16);
  columns.fill.high = 16;
  columns.fill.columns = 4;
  columns.fill.rows = 100;
  EXPECT_EQ(OrderOf(columns).value().args(0).elements().size(), 64u);
  columns.fill.rows = int64_t{1} << 39;
  EXPECT_TRUE(absl::IsResourceExhausted(OrderOf(columns).status()));
}

TEST(PeerOrderTest, BuffersTogetherAreBounded) {
  ProblemPlan plan;
  for (const char* name : {"a", "b", "c"}) {
    plan.buffers.push_back(Input(Fill::Kind::kSorted, 5'000'000));
    plan.buffers.back().name = name;
  }
  const absl::Status refused = PeerOrderOf({}, plan, {}, {}, 1, {}).status();
  EXPECT_THAT(std::string(refused.message()), HasSubstr("'c' holds is too large"));
}

}  // namespace
}  // namespace tune::server
