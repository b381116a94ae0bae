// SPDX-License-Identifier: Apache-2.0
// Counters of every chip that CUPTI's host library knows, without a GPU: names, aliases, passes.
#include "tuner/device/cuda/profiler_host.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tuner/device/cuda/cupti_api.h"
#include "tuner/device/cuda/metric_sets.h"
#include "tuner/device/cuda/toolkit.h"

namespace tune::cuda {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

// Chips without memory of their own (Tegra, GB10): nothing is counted as DRAM there.
const std::set<std::string> kIntegrated = {"GV11B", "GA10B", "GB10B", "GB20B"};
const std::set<std::string> kWithoutTensorCores = {"TU116", "TU117"};

class ProfilerHostTest : public testing::Test {
 protected:
  void SetUp() override {
    absl::StatusOr<Toolkit> toolkit = FindToolkit();
    ASSERT_TRUE(toolkit.ok()) << toolkit.status();
    absl::StatusOr<CuptiProfilerApi> cupti = CuptiProfilerApi::Load(*toolkit);
    ASSERT_TRUE(cupti.ok()) << cupti.status();
    cupti_ = *cupti;
  }

  ProfilerHost Host(const std::string& chip) {
    absl::StatusOr<ProfilerHost> host = ProfilerHost::Create(cupti_, chip, {});
    EXPECT_TRUE(host.ok()) << host.status();
    return *std::move(host);
  }

  static HasMetric HasOf(const ProfilerHost& host) {
    return [&host](const std::string& base) { return host.Has(base); };
  }

  static std::vector<std::string> Metrics(const MetricGroup& group) {
    std::vector<std::string> metrics;
    for (const MetricTerm& term : group.terms) metrics.push_back(term.metric);
    return metrics;
  }

  CuptiProfilerApi cupti_;
};

// The table of docs/measurement.md promises one pass for the hardware counts from GA100 on and one
// for the instructions.
int PassesAllowed(const std::string& chip, const std::string& group) {
  const bool is_turing = chip.starts_with("TU") || chip.starts_with("GV");
  if (group == "H") return is_turing ? 2 : 1;
  if (group == "S") return 1;
  if (group == "X") return 9;
  return 7;
}

TEST_F(ProfilerHostTest, EveryChipSchedulesEveryGroupWithinItsPasses) {
  absl::StatusOr<std::vector<std::string>> chips = ProfilerHost::Chips(cupti_);
  ASSERT_TRUE(chips.ok()) << chips.status();
  EXPECT_GE(chips->size(), 25u);
  EXPECT_THAT(*chips, Contains("GH100"));
  for (const std::string& chip : *chips) {
    if (chip.starts_with("GV")) continue;  // older than the range profiler
    const ProfilerHost host = Host(chip);
    for (const MetricGroup& group : GroupsOf(MetricSet::kAll, HasOf(host))) {
      absl::StatusOr<CounterConfig> config = host.Configure(Metrics(group), 24);
      ASSERT_TRUE(config.ok()) << chip << " " << group.name << ": " << config.status();
      EXPECT_THAT(config->left_out(), SizeIs(0)) << chip << " " << group.name;
      EXPECT_LE(config->pass_count(), PassesAllowed(chip, group.name)) << chip << " " << group.name;
    }
  }
}

TEST_F(ProfilerHostTest, EveryChipCountsWhatProfilesAreMadeOf) {
  absl::StatusOr<std::vector<std::string>> chips = ProfilerHost::Chips(cupti_);
  ASSERT_TRUE(chips.ok()) << chips.status();
  for (const std::string& chip : *chips) {
    if (chip.starts_with("GV")) continue;
    const ProfilerHost host = Host(chip);
    std::set<std::string> quantities;
    for (const MetricGroup& group : GroupsOf(MetricSet::kAll, HasOf(host))) {
      for (const MetricTerm& term : group.terms) quantities.insert(term.quantity);
    }
    for (const char* wanted : {"l2", "l1", "f32", "f64", "f16", "occupancy", "issue_active",
                               "stall_long_scoreboard", "shared"}) {
      EXPECT_THAT(quantities, Contains(wanted)) << chip;
    }
    if (!kWithoutTensorCores.contains(chip)) {
      EXPECT_THAT(quantities, Contains("tensor_instructions")) << chip;
      EXPECT_THAT(quantities, Contains("tensor_f16")) << chip;
    }
    if (kIntegrated.contains(chip)) continue;
    EXPECT_THAT(quantities, Contains("dram_read")) << chip;
    EXPECT_THAT(quantities, Contains("dram_write")) << chip;
  }
}

TEST_F(ProfilerHostTest, TheDefaultSetTakesTwoPassesOnServerChips) {
  for (const char* chip : {"GA100", "GH100", "GB100"}) {
    const ProfilerHost host = Host(chip);
    int passes = 0;
    for (const MetricGroup& group : GroupsOf(MetricSet::kDefault, HasOf(host))) {
      passes += host.Configure(Metrics(group), 24)->pass_count();
    }
    EXPECT_EQ(passes, 2) << chip;
    // A declared tensor type costs two passes more at most, not the six of all types.
    const MetricGroup bf16 = TensorGroup("tensor_bf16", HasOf(host));
    EXPECT_THAT(bf16.terms, SizeIs(1)) << chip;
    EXPECT_LE(host.Configure(Metrics(bf16), 24)->pass_count(), 2) << chip;
  }
}

TEST_F(ProfilerHostTest, AnUnknownChipIsRefused) {
  const absl::Status status = ProfilerHost::Create(cupti_, "GX999", {}).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("GX999"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("GH100"));
}

TEST_F(ProfilerHostTest, AnUnknownMetricIsLeftOutAlone) {
  const ProfilerHost host = Host("GH100");
  absl::StatusOr<CounterConfig> config =
      host.Configure({"dram__bytes_read.sum", "dram__bytes_op_read.sum", "lts__t_bytes.sum"}, 24);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_THAT(config->metrics(), ElementsAre("dram__bytes_read.sum", "lts__t_bytes.sum"));
  ASSERT_THAT(config->left_out(), SizeIs(1));
  EXPECT_EQ(config->left_out()[0].first, "dram__bytes_op_read.sum");
  EXPECT_THAT(config->left_out()[0].second, HasSubstr("no such counter"));
  EXPECT_EQ(config->pass_count(), 1);
}

TEST_F(ProfilerHostTest, ABaseNameWithoutRollupIsLeftOutWithAReason) {
  const ProfilerHost host = Host("GH100");
  absl::StatusOr<CounterConfig> config =
      host.Configure({"dram__bytes_read", "lts__t_bytes.sum"}, 24);
  ASSERT_TRUE(config.ok()) << config.status();
  ASSERT_THAT(config->left_out(), SizeIs(1));
  EXPECT_THAT(config->left_out()[0].second, Not(HasSubstr("no such counter")));
}

TEST_F(ProfilerHostTest, NothingLeftOrTooManyPassesIsAnError) {
  const ProfilerHost host = Host("GH100");
  EXPECT_TRUE(absl::IsFailedPrecondition(host.Configure({"no__such.sum"}, 24).status()));
  std::vector<std::string> stalls;
  for (const MetricGroup& group : GroupsOf(MetricSet::kAll, HasOf(host))) {
    if (group.name == "O") stalls = Metrics(group);
  }
  const absl::Status status = host.Configure(stalls, 2).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("passes"));
}

TEST_F(ProfilerHostTest, ObstaclesSayWhatToDo) {
  const absl::Status privileges =
      cupti_.Check(CUPTI_ERROR_INSUFFICIENT_PRIVILEGES, "cuptiRangeProfilerEnable");
  EXPECT_TRUE(absl::IsFailedPrecondition(privileges));
  EXPECT_THAT(std::string(privileges.message()), HasSubstr("NVreg_RestrictProfilingToAdminUsers"));
  EXPECT_TRUE(absl::IsFailedPrecondition(cupti_.Check(CUPTI_ERROR_HARDWARE_BUSY, "call")));
  EXPECT_TRUE(absl::IsInternal(cupti_.Check(CUPTI_ERROR_INVALID_PARAMETER, "call")));
  EXPECT_TRUE(cupti_.Check(CUPTI_SUCCESS, "call").ok());
}

// The names of one chip give way to those of another; weights add up.
TEST(MetricSets, QuantitiesAreSumsOverWhatWasRead) {
  const MetricGroup group{.name = "S",
                          .terms = {{"f32", 1, "add.sum"}, {"f32", 2, "fma.sum"}, {"f64", 2, "d"}}};
  const Quantities quantities = QuantitiesOf({group}, {{"fma.sum", 10}, {"add.sum", 3}});
  EXPECT_THAT(quantities, SizeIs(1));
  EXPECT_EQ(quantities.at("f32"), 23);
}

TEST(MetricSets, TheFirstNameAChipHasIsTaken) {
  const HasMetric blackwell = [](const std::string& base) {
    return base == "dram__bytes_op_read" || base == "dram__bytes_op_write";
  };
  const std::vector<MetricGroup> groups = GroupsOf(MetricSet::kDefault, blackwell);
  ASSERT_THAT(groups, SizeIs(1));  // a group without a counter is not there
  ASSERT_THAT(groups[0].terms, SizeIs(2));
  EXPECT_EQ(groups[0].terms[0].metric, "dram__bytes_op_read.sum");
  EXPECT_EQ(groups[0].terms[0].quantity, "dram_read");
}

}  // namespace
}  // namespace tune::cuda
