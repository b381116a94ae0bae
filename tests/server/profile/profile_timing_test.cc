// SPDX-License-Identifier: Apache-2.0
// The time of a profile, measured in a session.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/profile/profile_job.h"
#include "tests/server/measure/fake_session.h"

namespace tune::server {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class TimeProfiledTest : public testing::Test {
 protected:
  TimeProfiledTest() { profile_.work = {.bytes = 8000}; }
  absl::Status Time() {
    return TimeProfiled(session_, {.policy = {.cache_mode = CacheMode::kCold}}, roof_, profile_);
  }

  FakeSession session_;
  Roof roof_{.floor_ns = 80,
             .believable_ns = 80,
             .bound = Bound::kMemory,
             .source = CeilingSource::kMeasured};
  Profile profile_;
};

TEST_F(TimeProfiledTest, TheProfileHasItsTimeAndItsShareOfTheRoof) {
  ASSERT_TRUE(Time().ok());
  EXPECT_THAT(session_.calls, ElementsAre("measure 0"));
  EXPECT_EQ(profile_.measurement.latency_ns_median, 100);
  EXPECT_NEAR(profile_.measurement.peak_fraction, 0.8, 1e-9);
  EXPECT_EQ(profile_.measurement.clock, Clock::kCupti);
  EXPECT_THAT(profile_.measurement.samples_ns, IsEmpty());
  EXPECT_THAT(profile_.notes, IsEmpty());
}

TEST_F(TimeProfiledTest, ATimeAboveTheRoofIsNotBelieved) {
  session_.measure = [](size_t, const Program&) { return Leg{Timed(1)}; };
  ASSERT_TRUE(Time().ok());
  EXPECT_THAT(profile_.notes, ElementsAre(HasSubstr("faster than the measured memory ceiling")));
}

TEST_F(TimeProfiledTest, AConfigThatFailsSaysWhyAndHasNoTime) {
  session_.measure = [](size_t, const Program&) {
    return Leg{{.outcome = Outcome::kFaulted, .message = "failed twice"}};
  };
  ASSERT_TRUE(Time().ok());
  EXPECT_EQ(profile_.outcome, Outcome::kFaulted);
  EXPECT_EQ(profile_.message, "failed twice");
  EXPECT_EQ(profile_.measurement.latency_ns_median, 0);
}

}  // namespace
}  // namespace tune::server
