// SPDX-License-Identifier: Apache-2.0
#include "client/report/format.h"

#include <gtest/gtest.h>

#include "client/cli/sweep_view.h"
#include "client/report/terminal.h"

namespace tune::client {
namespace {

TEST(Format, PicksUnitsAndDigits) {
  EXPECT_EQ(LatencyText(960), "960 ns");
  EXPECT_EQ(LatencyText(35214), "35.21 us");
  EXPECT_EQ(LatencyText(1234567), "1.235 ms");
  EXPECT_EQ(LatencyText(2.5e9), "2.500 s");
  EXPECT_EQ(BandwidthText(4.272e12), "4272 GB/s");
  EXPECT_EQ(FlopRateText(618.2e12), "618.2 TFLOP/s");
  EXPECT_EQ(FlopRateText(31.5e9), "31.50 GFLOP/s");
  EXPECT_EQ(DurationText(3.24), "3.2 s");
  EXPECT_EQ(DurationText(200), "3 min 20 s");
  EXPECT_EQ(DurationText(7260), "2 h 1 min");
  EXPECT_EQ(BytesText(1023), "1023 B");
  EXPECT_EQ(BytesText(150324248576.0), "140.0 GiB");
  EXPECT_EQ(PercentText(0.901), "90.1 %");
  EXPECT_EQ(PercentText(9.987), "998.7 %");
  EXPECT_EQ(PercentText(87.959), "88 times");
}

TEST(Format, EnumsLoseTheirPrefix) {
  EXPECT_EQ(ToText(v1::OUTCOME_WRONG_RESULT), "wrong_result");
  EXPECT_EQ(ToText(v1::JOB_STATE_RUNNING), "running");
}

TEST(Table, AlignsNumbersRightAndTextLeft) {
  Table table({"id", "name", "note"});
  table.Add({"7", "softmax", "a"});
  table.Add({"123", "rope", "longer"});
  EXPECT_EQ(table.Text(),
            " id  name     note\n"
            "  7  softmax  a\n"
            "123  rope     longer\n");
}

TEST(ProgressText, SaysWhatAPersonAsks) {
  v1::Sweep sweep;
  sweep.set_kernel_name("softmax");
  sweep.set_state(v1::JOB_STATE_RUNNING);
  v1::SweepProgress& progress = *sweep.mutable_progress();
  progress.set_done(137);
  progress.set_planned(231);
  progress.set_trials_per_second(42.13);
  progress.set_remaining_seconds(2.2);
  progress.set_best_latency_ns(35214);
  (*progress.mutable_outcomes())["ok"] = 135;
  (*progress.mutable_outcomes())["compile_failed"] = 2;
  EXPECT_EQ(ProgressText(sweep),
            "softmax  137/231  42.1/s  2.2 s left  best so far 35.21 us  failed: 2 compile_failed");
}

TEST(ReportText, WithoutAResultShowsTheFailures) {
  v1::Sweep sweep;
  sweep.set_id(9);
  sweep.set_kernel_name("softmax");
  sweep.set_state(v1::JOB_STATE_DONE);
  EXPECT_NE(ReportText(sweep).find("no config was tried"), std::string::npos);
  sweep.mutable_progress()->set_done(4);
  v1::SweepReport failures;
  v1::OutcomeSummary& compile = *failures.add_outcomes();
  compile.set_outcome(v1::OUTCOME_COMPILE_FAILED);
  compile.set_count(3);
  v1::OutcomeExample& example = *compile.add_examples();
  example.set_count(3);
  example.set_trial_id(17);
  example.set_message("In file included from a.h:1:\nscale.cu:4:1: error: no such thing\n  4 | x");
  v1::OutcomeSummary& fault = *failures.add_outcomes();
  fault.set_outcome(v1::OUTCOME_FAULTED);
  fault.set_count(1);
  const std::string text = ReportText(sweep, failures);
  EXPECT_NE(text.find("failed    3 compile_failed\n"), std::string::npos) << text;
  EXPECT_NE(text.find("3 like trial 17 (): scale.cu:4:1: error: no such thing\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("          1 faulted\n"), std::string::npos) << text;
  const std::string report = ReportText(sweep);
  EXPECT_NE(report.find("no config was ok"), std::string::npos);
  EXPECT_NE(report.find("tunectl trial list --sweep 9"), std::string::npos);
  sweep.set_message("no config was ok, 3 of 4 ended as compile_failed");
  EXPECT_NE(ReportText(sweep).find("state     done: no config was ok, 3 of 4 ended as"),
            std::string::npos);
  EXPECT_EQ(ExitCodeOf(sweep), kNoValidConfig);
  sweep.set_state(v1::JOB_STATE_FAILED);
  EXPECT_EQ(ExitCodeOf(sweep), kFailed);
  sweep.mutable_progress()->set_done(0);
  EXPECT_EQ(ReportText(sweep).find("next"), std::string::npos) << "there is nothing to list";
}

TEST(ReportText, NamesTheDeviceInTheNextCommand) {
  v1::Sweep sweep;
  sweep.set_kernel_name("softmax");
  sweep.set_device_id("cpu");
  sweep.set_state(v1::JOB_STATE_DONE);
  sweep.mutable_problem()->set_dtype("f32");
  v1::DimValue& rows = *sweep.mutable_problem()->add_dims();
  rows.set_name("rows");
  rows.set_value(8);
  sweep.mutable_result();
  EXPECT_NE(ReportText(sweep).find("tunectl best softmax --rows 8 --dtype f32 --device cpu\n"),
            std::string::npos)
      << ReportText(sweep);
  EXPECT_EQ(ExitCodeOf(sweep), kDone);
}

TEST(ReportText, TellsTheWholeConfig) {
  v1::Sweep sweep;
  for (const char* name : {"BLOCK", "STAGES", "STORES"}) {
    v1::Trial& best = *sweep.mutable_result()->mutable_best();
    v1::ConfigEntry* entry = best.mutable_config()->add_entries();
    entry->set_param(name);
    entry->mutable_value()->set_integer(4);
  }
  EXPECT_NE(ReportText(sweep).find("best      BLOCK=4 STAGES=4 STORES=4\nlatency"),
            std::string::npos)
      << ReportText(sweep);
  sweep.add_fixed_params("STAGES");
  sweep.add_fixed_params("STORES");
  EXPECT_NE(ReportText(sweep).find("best      BLOCK=4\n"
                                   "          with STAGES=4 STORES=4, which have no other value"),
            std::string::npos)
      << ReportText(sweep);
}

TEST(ReportText, SaysHowTheBestStandsToTheDefault) {
  v1::Sweep sweep;
  sweep.set_state(v1::JOB_STATE_DONE);
  v1::SweepResult& result = *sweep.mutable_result();
  result.set_confirm_rounds(8);
  result.set_default_standing(v1::DEFAULT_STANDING_FASTER);
  result.set_default_verdict("the best is 1.25 times as fast");
  result.mutable_best()->mutable_measurement()->set_sample_count(320);
  result.mutable_default_trial()->set_id(9);
  EXPECT_NE(ReportText(sweep).find("320 samples in 8 fresh processes"), std::string::npos);
  EXPECT_NE(ReportText(sweep).find("the best is 1.25 times as fast"), std::string::npos);
  *result.add_ties() = result.default_trial();
  EXPECT_NE(ReportText(sweep).find("by time; among such the one with fewer registers is the best"),
            std::string::npos);
  result.set_default_standing(v1::DEFAULT_STANDING_SAME);
  result.set_default_verdict("is the best");
  EXPECT_NE(ReportText(sweep).find("default   is the best"), std::string::npos);
  result.set_confirm_rounds(1);
  EXPECT_NE(ReportText(sweep).find("one round, so no interval, 320 samples in 1 fresh process,"),
            std::string::npos)
      << ReportText(sweep);
}

TEST(ReportText, ListsWhereASweepStartedFromOnlyIfAsked) {
  v1::Sweep sweep;
  sweep.set_state(v1::JOB_STATE_DONE);
  sweep.mutable_warm_start()->set_observations(1189);
  sweep.mutable_warm_start()->add_sources("softmax rows=8192 on NVIDIA H100");
  sweep.mutable_warm_start()->add_sources("softmax rows=4096 on NVIDIA H200");
  EXPECT_NE(ReportText(sweep).find(
                "started   from 1189 observations of 2 earlier sources (-v lists them)\n"),
            std::string::npos)
      << ReportText(sweep);
  EXPECT_EQ(ReportText(sweep).find("rows=4096"), std::string::npos);
  EXPECT_NE(ReportText(sweep, {}, /*verbose=*/true).find("rows=4096 on NVIDIA H200"),
            std::string::npos);
}

TEST(TellingLine, KeepsTheSideAndTheOutcomeBeforeTheError) {
  EXPECT_EQ(TellingLine("head: compile_failed: c.cu: In function 'void c()':\nc.cu:23:79: error: "
                        "'mean' was not declared\n  23 | mean"),
            "head: compile_failed: c.cu:23:79: error: 'mean' was not declared");
  EXPECT_EQ(TellingLine("c.cu: In function 'f':\nc.cu:2:1: error: no"), "c.cu:2:1: error: no");
  EXPECT_EQ(TellingLine("it hung\nand was killed"), "it hung");
}

TEST(ReportText, SaysThatALatencyIsTooNoisy) {
  v1::Sweep sweep;
  sweep.set_state(v1::JOB_STATE_DONE);
  v1::SweepResult& result = *sweep.mutable_result();
  v1::Measurement& measurement = *result.mutable_best()->mutable_measurement();
  measurement.set_latency_ns_median(1000);
  measurement.set_latency_ns_low(900);
  measurement.set_latency_ns_high(1400);
  result.set_too_noisy(true);
  const std::string text = ReportText(sweep);
  EXPECT_NE(
      text.find("too noisy to tell how fast it is: the interval is 50.0 % of the latency wide"),
      std::string::npos)
      << text;
}

TEST(FormatTest, AnIntervalOfFewRoundsIsNoneOf95Percent) {
  v1::Measurement measurement;
  measurement.set_latency_ns_low(900);
  measurement.set_latency_ns_high(1400);
  EXPECT_EQ(LatencyIntervalText(measurement, 0), "95 % interval 900 ns to 1.400 us");
  EXPECT_EQ(LatencyIntervalText(measurement, 1), "one round, so no interval");
  EXPECT_EQ(LatencyIntervalText(measurement, 5), "its rounds are at 900 ns to 1.400 us");
  EXPECT_EQ(LatencyIntervalText(measurement, 6), "95 % interval 900 ns to 1.400 us");
  EXPECT_EQ(LatencyIntervalText(measurement, std::nullopt), "spread 900 ns to 1.400 us");
  measurement.set_latency_ns_median(10);
  EXPECT_NE(TooNoisyText(measurement).find("the interval is 50 times the latency wide"),
            std::string::npos);
}

TEST(FormatTest, ParamsWithOnePossibleValueAreLeftOut) {
  v1::Config config;
  for (const char* name : {"BLOCK", "STAGES"}) {
    v1::ConfigEntry* entry = config.add_entries();
    entry->set_param(name);
    entry->mutable_value()->set_integer(4);
  }
  v1::Sweep sweep;
  EXPECT_EQ(ToText(config, sweep.fixed_params()), "BLOCK=4 STAGES=4");
  sweep.add_fixed_params("STAGES");
  EXPECT_EQ(ToText(config, sweep.fixed_params()), "BLOCK=4");
  sweep.add_fixed_params("BLOCK");
  EXPECT_EQ(ToText(config, sweep.fixed_params()), "BLOCK=4 STAGES=4") << "something is to be seen";
}

}  // namespace
}  // namespace tune::client
