// SPDX-License-Identifier: Apache-2.0
// The fastest configs of a key, which look-ups between tuned shapes are answered from.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "db/store.h"
#include "tests/db/rows_to_store.h"

namespace tune::db {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST_F(StoreTest, FastestOfKeyGivesConfigsByTheirNewestSearchTrial) {
  Store& store = OpenWithSweep();
  const TrialKey key = MakeTrialKey("k1");
  const auto append = [&](int64_t block, double latency_ns, Outcome outcome, TrialPurpose purpose) {
    Trial trial = MakeTrial(sweep_.id, block);
    trial.outcome = outcome;
    trial.purpose = purpose;
    trial.measurement.latency_ns_median = latency_ns;
    trial.resources.registers = block;
    trial.resources.static_shared_bytes = 10 * block;
    trial.resources.dynamic_shared_bytes = 100 * block;
    ASSERT_TRUE(store.AppendTrial(trial, key).ok());
  };
  append(1, 500, Outcome::kOk, TrialPurpose::kSearch);
  append(2, 300, Outcome::kOk, TrialPurpose::kSearch);
  append(3, 100, Outcome::kWrongResult, TrialPurpose::kSearch);
  append(4, 50, Outcome::kOk, TrialPurpose::kConfirm);
  append(1, 200, Outcome::kOk, TrialPurpose::kSearch);
  append(5, 10, Outcome::kOk, TrialPurpose::kSearch);
  append(5, 10, Outcome::kFaulted, TrialPurpose::kSearch);
  std::vector<double> latencies;
  const std::vector<lookup::TimedConfig> fastest = store.FastestOfKey(key, 10).value();
  for (const lookup::TimedConfig& one : fastest) {
    latencies.push_back(one.latency_ns_median);
  }
  EXPECT_THAT(latencies, ElementsAre(200, 300));
  EXPECT_EQ(store.FastestOfKey(key, 1).value().size(), 1u);
  const lookup::TimedConfig best = store.FastestOfKey(key, 1).value()[0];
  EXPECT_EQ(best.config, MakeTrial(sweep_.id, 1).config);
  EXPECT_EQ(best.registers, 1);
  EXPECT_EQ(best.static_shared_bytes, 10);
  EXPECT_EQ(best.dynamic_shared_bytes, 100);
  EXPECT_THAT(store.FastestOfKey(MakeTrialKey("unknown"), 10).value(), IsEmpty());
}

}  // namespace
}  // namespace tune::db
