// SPDX-License-Identifier: Apache-2.0
#include "base/contained.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace tune {
namespace {

using testing::HasSubstr;

TEST(ContainedTest, ResultsAreHandedOn) {
  EXPECT_TRUE(Contained([] {}).ok());
  EXPECT_TRUE(absl::IsNotFound(Contained([] { return absl::NotFoundError("none"); })));
  EXPECT_EQ(Contained([]() -> absl::StatusOr<int> { return 7; }).value(), 7);
}

TEST(ContainedTest, AnExceptionBecomesAStatusOfTheSameType) {
  const absl::StatusOr<int> failed =
      Contained([]() -> absl::StatusOr<int> { throw std::runtime_error("odd"); });
  EXPECT_TRUE(absl::IsInternal(failed.status())) << failed.status();
  EXPECT_THAT(std::string(failed.status().message()), HasSubstr("odd"));
  EXPECT_TRUE(absl::IsInternal(Contained([] { throw 7; })));
}

TEST(ContainedTest, WantOfMemorySaysSo) {
  const absl::Status none = Contained([] { throw std::bad_alloc(); });
  EXPECT_TRUE(absl::IsResourceExhausted(none)) << none;
  EXPECT_THAT(std::string(none.message()), HasSubstr("smaller problem"));
  const absl::Status too_long =
      Contained([] { std::vector<int>().reserve(std::vector<int>().max_size() + 1); });
  EXPECT_TRUE(absl::IsResourceExhausted(too_long)) << too_long;
}

}  // namespace
}  // namespace tune
