// SPDX-License-Identifier: Apache-2.0

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "server/devices/device_convert.h"
#include "server/records/kept_index.h"
#include "server/records/record_convert.h"
#include "server/sweep/sweep_convert.h"
#include "server/wire/nouns.h"
#include "tests/distinct.h"
#include "tuner/statistics/median.h"

namespace tune::server {
namespace {

TEST(ConvertTest, ConfigsComeBackWhole) {
  const Config config{{{"BLOCK", int64_t{64}},
                       {"SCALE", 0.5},
                       {"WHERE", std::string("smem")},
                       {"UNROLL", true},
                       {"ZERO", int64_t{0}},
                       {"LOW", std::numeric_limits<int64_t>::min()}}};
  EXPECT_EQ(FromProto(ToProto(config)), config);
}

TEST(ConvertTest, ARecordOfTheIndexIsReadAsItsMessageIs) {
  auto record = Distinct<lookup::Record>();
  record.trial.config.entries = {
      {"BLOCK", int64_t{-64}}, {"SCALE", 0.5}, {"WHERE", std::string("smem")}, {"UNROLL", true}};
  const lookup::RecordCodec codec = WireCodec();
  const auto of_message = FromProto(ToProto(record));
  const auto of_bytes = codec.decode(codec.encode(record));
  ASSERT_TRUE(of_message.ok()) << of_message.status();
  ASSERT_TRUE(of_bytes.ok()) << of_bytes.status();
  EXPECT_THAT(Differences(*of_message, *of_bytes), testing::IsEmpty());
  EXPECT_EQ(of_bytes->trial.config, record.trial.config);
}

TEST(ConvertTest, ADamagedRecordIsReadToItsEndAtMost) {
  const lookup::RecordCodec codec = WireCodec();
  const std::string bytes = codec.encode(Distinct<lookup::Record>());
  size_t refused = 0;
  for (size_t at = 0; at < bytes.size(); ++at) {
    for (const int change : {1, 0x80, 0xff}) {
      std::string damaged = bytes;
      damaged[at] = static_cast<char>(damaged[at] ^ change);
      refused += !codec.decode(damaged).ok();
    }
    refused += !codec.decode(bytes.substr(0, at)).ok();
  }
  EXPECT_GT(refused, bytes.size());
}

TEST(ConvertTest, TextFromCompilersIsMadeUtf8) {
  Trial trial;
  trial.outcome = Outcome::kCompileFailed;
  trial.message = "error: \xe2\x80\x98x\xe2\x80\x99 undeclared";
  EXPECT_EQ(ToProto(trial).message(), trial.message) << "quotes as compilers print them";
  trial.message = "error: \xff here";
  EXPECT_EQ(ToProto(trial).message(), "error: ? here");
  trial.message = std::string("one\0two: error: after it", 24);
  EXPECT_EQ(ToProto(trial).message(), "one\\0two: error: after it") << "nothing ends at a NUL";
  std::string wire;
  EXPECT_TRUE(ToProto(trial).SerializeToString(&wire));
  EXPECT_TRUE(v1::Trial().ParseFromString(wire));
}

TEST(ConvertTest, SamplesAreSentOnlyWhenAskedFor) {
  Trial trial;
  trial.measurement = Summarise({3, 1, 2});
  EXPECT_EQ(ToProto(trial).measurement().samples_ns_size(), 0);
  EXPECT_EQ(ToProto(trial).measurement().sample_count(), 3u);
  EXPECT_EQ(ToProto(trial, Samples::kInclude).measurement().samples_ns_size(), 3);
}

TEST(ConvertTest, AFailedTrialHasNoMeasurement) {
  Trial trial;
  trial.outcome = Outcome::kWrongResult;
  EXPECT_FALSE(ToProto(trial).has_measurement());
}

TEST(ConvertTest, SummaryComesBackWhole) {
  SweepView view;
  view.progress = {.space_size = 200,
                   .planned = 100,
                   .done = 90,
                   .reused = 40,
                   .outcomes = {{Outcome::kOk, 80}, {Outcome::kWrongResult, 10}},
                   .elapsed_seconds = 12.5,
                   .best_config = Config{{{"BLOCK", int64_t{64}}}},
                   .best_latency_ns = 1234.5,
                   .worker_restarts = 2,
                   .compile_cache_hits = 7};
  view.fixed_params = {"STAGES"};
  view.result = SweepResult{
      .bound = Bound::kMemory, .ceiling = 4.2e12, .ceiling_source = CeilingSource::kMeasured};
  db::SweepRow row;
  row.summary = SummaryText(view);
  absl::StatusOr<SweepView> read = FromSummaryText(row);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->progress.space_size, 200u);
  EXPECT_EQ(read->progress.planned, 100u);
  EXPECT_EQ(read->progress.done, 90u);
  EXPECT_EQ(read->progress.reused, 40u);
  EXPECT_EQ(read->progress.outcomes, view.progress.outcomes);
  EXPECT_EQ(read->progress.elapsed_seconds, 12.5);
  EXPECT_EQ(read->progress.best_config, view.progress.best_config);
  EXPECT_EQ(read->progress.best_latency_ns, 1234.5);
  EXPECT_EQ(read->progress.worker_restarts, 2u);
  EXPECT_EQ(read->progress.compile_cache_hits, 7u);
  EXPECT_EQ(read->fixed_params, view.fixed_params);
  ASSERT_TRUE(read->result.has_value());
  EXPECT_EQ(read->result->bound, Bound::kMemory);
  EXPECT_EQ(read->result->ceiling, 4.2e12);
  EXPECT_EQ(read->result->ceiling_source, CeilingSource::kMeasured);
}

TEST(ConvertTest, DamagedSummaryIsDataLoss) {
  db::SweepRow row;
  EXPECT_TRUE(FromSummaryText(row).ok()) << "none yet";
  row.summary = "{\"progress\":";
  EXPECT_TRUE(absl::IsDataLoss(FromSummaryText(row).status()));
}

TEST(ConvertTest, SpeedupNeedsADefaultThatWorked) {
  SweepView view;
  view.result.emplace();
  view.result->best.measurement.latency_ns_median = 100;
  view.result->default_trial.emplace();
  view.result->default_trial->measurement.latency_ns_median = 250;
  EXPECT_DOUBLE_EQ(ToProto(view).result().speedup_over_default(), 2.5);
  view.result->default_trial->outcome = Outcome::kTimedOut;
  EXPECT_EQ(ToProto(view).result().speedup_over_default(), 0);
  EXPECT_FALSE(ToProto(view).result().has_default_trial());
}

TEST(ConvertTest, AWideIntervalIsToldToBeNoise) {
  SweepView view;
  view.result.emplace();
  Measurement& measurement = view.result->best.measurement;
  measurement = {.latency_ns_median = 1000, .latency_ns_low = 950, .latency_ns_high = 1140};
  EXPECT_FALSE(ToProto(view).result().too_noisy());
  measurement.latency_ns_high = 1160;
  EXPECT_TRUE(ToProto(view).result().too_noisy());
  lookup::Record record;
  record.trial.measurement = measurement;
  EXPECT_TRUE(ToProto(record).too_noisy());
  record.trial.measurement = {.latency_ns_median = 1000};
  EXPECT_FALSE(ToProto(record).too_noisy()) << "without an interval";
}

}  // namespace
}  // namespace tune::server
