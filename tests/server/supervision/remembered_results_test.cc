// SPDX-License-Identifier: Apache-2.0
#include "server/supervision/remembered_results.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

namespace tune::server {
namespace {

Trial Measured(double latency_ns) {
  Trial trial;
  trial.measurement.latency_ns_median = latency_ns;
  trial.measurement.samples_ns = {latency_ns, latency_ns};
  return trial;
}

TEST(RememberedResultsTest, KeepsTheFirstTrialOfAWorkWithoutItsSamples) {
  RememberedResults results(10);
  EXPECT_EQ(results.Find("work"), nullptr);
  results.Keep("work", Measured(1));
  results.Keep("work", Measured(2));
  ASSERT_NE(results.Find("work"), nullptr);
  EXPECT_EQ(results.Find("work")->measurement.latency_ns_median, 1);
  EXPECT_TRUE(results.Find("work")->measurement.samples_ns.empty());
  EXPECT_EQ(results.size(), 1u);
}

TEST(RememberedResultsTest, ForgetsTheOldestBeyondItsBound) {
  RememberedResults results(3);
  for (int i = 0; i < 100; ++i) results.Keep(absl::StrCat("work ", i), Measured(i));
  EXPECT_EQ(results.size(), 3u);
  EXPECT_EQ(results.Find("work 96"), nullptr);
  for (int i = 97; i < 100; ++i) {
    ASSERT_NE(results.Find(absl::StrCat("work ", i)), nullptr) << i;
    EXPECT_EQ(results.Find(absl::StrCat("work ", i))->measurement.latency_ns_median, i);
  }
}

}  // namespace
}  // namespace tune::server
