// SPDX-License-Identifier: Apache-2.0
#include "tuner/device/replay/recording.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tune::replay {
namespace {

Value I(int64_t value) { return value; }

RecordedTrial Ok(double latency_ns) { return {.latency_ns = latency_ns}; }

Recording Header() { return {.params = {{"A", {I(4), I(2)}}, {"B", {}}}}; }

TEST(RecordingTest, TrialsStandInTheOrderOfTheParams) {
  RecordingBuilder builder(Header());
  ASSERT_TRUE(builder.Add({I(2), I(30)}, Ok(1)).ok());
  ASSERT_TRUE(builder.Add({I(4), I(30)}, Ok(2)).ok());
  ASSERT_TRUE(builder.Add({I(4), I(7)}, Ok(3)).ok());
  ASSERT_TRUE(builder.Add({I(4), I(7)}, Ok(4)).ok());  // the first counts
  auto recording = std::move(builder).Build();
  ASSERT_TRUE(recording.ok()) << recording.status();
  ASSERT_EQ(recording->trials.size(), 3u);
  // A keeps its order; B's values were seen, and are sorted.
  EXPECT_EQ(ToText(recording->ConfigOf(0)), "A=4 B=7");
  EXPECT_EQ(ToText(recording->ConfigOf(1)), "A=4 B=30");
  EXPECT_EQ(ToText(recording->ConfigOf(2)), "A=2 B=30");
  EXPECT_EQ(recording->trials[0].latency_ns, 3);
  EXPECT_EQ(recording->Best(), 2u);
}

TEST(RecordingTest, EqualNumbersAreOneValue) {
  RecordingBuilder builder(Header());
  ASSERT_TRUE(builder.Add({Value(4.0), Value(0.5)}, Ok(1)).ok());
  ASSERT_TRUE(builder.Add({I(2), Value(std::string("fast"))}, Ok(1)).ok());
  EXPECT_THAT(builder.Add({I(3), I(1)}, Ok(1)).message(), testing::HasSubstr("'A' has no value 3"));
  auto recording = std::move(builder).Build();
  ASSERT_TRUE(recording.ok());
  EXPECT_EQ(ToText(recording->ConfigOf(0)), "A=4 B=0.5");
}

TEST(RecordingTest, RefusesARecordingWithoutTrialsOrWithDuplicateParams) {
  EXPECT_FALSE(RecordingBuilder(Header()).Build().ok());
  EXPECT_FALSE(RecordingBuilder(Recording{}).Build().ok());
  RecordingBuilder twice({.params = {{"A", {}}, {"A", {}}}});
  ASSERT_TRUE(twice.Add({I(1), I(2)}, Ok(1)).ok());
  EXPECT_THAT(std::move(twice).Build().status().message(), testing::HasSubstr("'A'"));
}

TEST(RecordedSpaceTest, IndicesAreTrials) {
  RecordingBuilder builder(Header());
  ASSERT_TRUE(builder.Add({I(2), I(1)}, Ok(50)).ok());
  ASSERT_TRUE(builder.Add({I(4), I(1)}, {.outcome = Outcome::kCompileFailed}).ok());
  ASSERT_TRUE(builder.Add({I(4), I(0)}, Ok(40)).ok());
  auto recording = std::move(builder).Build();
  ASSERT_TRUE(recording.ok());
  auto space = RecordedSpace::Create(*std::move(recording));
  ASSERT_TRUE(space.ok()) << space.status();
  ASSERT_EQ(space->space().size(), 3u);
  for (uint64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(space->space().At(i), space->recording().ConfigOf(i));
    EXPECT_EQ(space->space().IndexOf(space->space().At(i)), i);
  }
  EXPECT_EQ(space->At(1).outcome, Outcome::kCompileFailed);
  EXPECT_EQ(space->optimum_ns(), 40);
  EXPECT_EQ(space->space().IndexOf({{{"A", I(2)}, {"B", I(0)}}}), std::nullopt);
}

}  // namespace
}  // namespace tune::replay
