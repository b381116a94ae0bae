// SPDX-License-Identifier: Apache-2.0
#include "server/ceilings/ceilings_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/server/measure/fake_session.h"

namespace tune::server {
namespace {

Ceiling Bandwidth(double value) { return {"dram_copy", value, CeilingSource::kMeasured}; }

TEST(Combine, TakesTheMedianOfTheProcessesAndKeepsThemAll) {
  const db::CeilingRow row = Combine(
      {Bandwidth(5e11), Bandwidth(1e12), Bandwidth(9e11), Bandwidth(1.1e12), Bandwidth(8e11)});
  EXPECT_EQ(row.ceiling.name, "dram_copy");
  EXPECT_EQ(row.ceiling.value, 9e11);
  EXPECT_EQ(row.ceiling.process_count, 5);
  EXPECT_LE(row.ceiling.low, 9e11);
  EXPECT_GE(row.ceiling.high, 9e11);
  EXPECT_LT(row.ceiling.low, row.ceiling.high);
  EXPECT_EQ(row.process_values, (std::vector<double>{5e11, 1e12, 9e11, 1.1e12, 8e11}));
}

TEST(Combine, OneProcessHasNoInterval) {
  const db::CeilingRow row = Combine({Bandwidth(1e12)});
  EXPECT_EQ(row.ceiling.value, 1e12);
  EXPECT_EQ(row.ceiling.process_count, 1);
  EXPECT_EQ(row.ceiling.low, Bandwidth(1e12).low);
  EXPECT_EQ(row.ceiling.high, Bandwidth(1e12).high);
}

TEST(MeasureSuite, EachProcessIsFreshAndTheFirstTwoAreUnderSustainedLoad) {
  FakeSession session;
  double next = 0;
  session.ceilings = [&] {
    return std::vector<Ceiling>{Bandwidth(++next), {"launch", 10 * next, CeilingSource::kMeasured}};
  };
  std::vector<std::string> said;
  const auto rows =
      MeasureSuite(session, 3, [&](const std::string& progress) { said.push_back(progress); });
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_THAT(session.calls,
              testing::ElementsAre("quiet", "renew 0", "ceilings 0 2", "quiet", "renew 0",
                                   "ceilings 0 2", "quiet", "renew 0", "ceilings 0 0"));
  EXPECT_EQ(said.back(), "process 3 of 3");
  ASSERT_EQ(rows->size(), 2u);
  EXPECT_EQ(rows->at(0).ceiling.name, "dram_copy");
  EXPECT_EQ(rows->at(0).process_values, (std::vector<double>{1, 2, 3}));
  EXPECT_EQ(rows->at(1).ceiling.value, 20);
}

TEST(MeasureSuite, ALostDeviceEndsIt) {
  FakeSession session;
  session.renew = [](size_t) { return absl::UnavailableError("gone"); };
  EXPECT_FALSE(MeasureSuite(session, 3, [](const std::string&) {}).ok());
  EXPECT_THAT(session.calls, testing::ElementsAre("quiet", "renew 0"));
}

SeenCeiling Seen(CeilingKind kind, const std::string& stale_reason = "") {
  SeenCeiling seen;
  seen.row.ceiling.kind = kind;
  seen.stale_reason = stale_reason;
  return seen;
}

TEST(HasFreshSuite, WantsWhatOnlyTheSuiteMeasuresAndAllOfItFresh) {
  DeviceView device;
  EXPECT_FALSE(HasFreshSuite(device));
  device.ceilings = {Seen(CeilingKind::kDram)};
  EXPECT_FALSE(HasFreshSuite(device)) << "sweeps measure that much";
  device.ceilings.push_back(Seen(CeilingKind::kL1));
  EXPECT_TRUE(HasFreshSuite(device));
  device.ceilings.push_back(Seen(CeilingKind::kDram, "it is old"));
  EXPECT_FALSE(HasFreshSuite(device));
}

}  // namespace
}  // namespace tune::server
