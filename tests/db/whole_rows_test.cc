// SPDX-License-Identifier: Apache-2.0
// Every field of every row comes back from the store, with another value in each.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/db/rows_to_store.h"
#include "tests/distinct.h"

namespace tune::db {
namespace {

using testing::IsEmpty;

class WholeRowsTest : public StoreTest {
 protected:
  WholeRowsTest() : opened_(OpenWithSweep()) {}
  Store& opened_;
};

TEST_F(WholeRowsTest, Sweeps) {
  SweepRow row = Distinct<SweepRow>();
  row.kernel_hash = "k1";
  row.kernel_name = row.name_space + "/softmax";
  row.best_trial_id = row.default_trial_id = 0;  // of trials, which there are none of
  const SweepRow added = opened_.AddSweep(row).value();
  row.id = added.id;
  row.job.id = added.job.id;
  EXPECT_THAT(Differences(row, opened_.GetSweep(row.id).value()), IsEmpty());
}

TEST_F(WholeRowsTest, TrialsAndTheirKeys) {
  TrialKey key = Distinct<TrialKey>(1000);
  key.kernel_hash = "k1";
  Trial trial = Distinct<Trial>();
  trial.sweep_id = sweep_.id;
  trial.measurement.sample_count = trial.measurement.samples_ns.size();
  trial.id = opened_.AppendTrial(trial, key).value();
  EXPECT_THAT(Differences(trial, opened_.GetTrial(trial.id).value()), IsEmpty());
  EXPECT_THAT(Differences(key, opened_.KeyOfTrial(trial.id).value()), IsEmpty());
}

TEST_F(WholeRowsTest, Records) {
  TrialKey key = Distinct<TrialKey>(1000);
  key.kernel_hash = "k1";
  Trial trial = Distinct<Trial>();
  trial.sweep_id = sweep_.id;
  trial.outcome = Outcome::kOk;
  trial.measurement.sample_count = trial.measurement.samples_ns.size();
  trial.id = opened_.AppendTrial(trial, key).value();
  trial.measurement.samples_ns.clear();
  SweepRow sweep = sweep_;
  sweep.tie_trial_ids = {trial.id};
  ASSERT_TRUE(opened_.UpdateSweep(sweep).ok());
  lookup::Record record{.key = key,
                        .kernel_name = "softmax",
                        .trial = trial,
                        .default_latency_ns = 7.5,
                        .tie_count = 1,
                        .published_unix_ms = 8,
                        .seed = sweep_.seed,
                        .ties = {{trial.config, trial.measurement.latency_ns_median}},
                        .artifact = "sha256:a",
                        .submitter = sweep_.job.owner};
  record.id = opened_.PublishRecord(record).value();
  EXPECT_THAT(Differences(record, opened_.CurrentRecords()->at(0)), IsEmpty());
}

TEST_F(WholeRowsTest, Ceilings) {
  const CeilingRow row = Distinct<CeilingRow>();
  ASSERT_TRUE(opened_.PutCeilings({row}).ok());
  EXPECT_THAT(Differences(row, opened_.GetCeilings(row.device_name, "", "")->at(0)), IsEmpty());
}

TEST_F(WholeRowsTest, Profiles) {
  ProfileRow row = Distinct<ProfileRow>();
  row.key.kernel_hash = "k1";
  row.kernel_name = "softmax";
  row.profile.measurement.samples_ns.clear();  // not kept
  Trial trial = MakeTrial(sweep_.id);
  row.profile.sweep_id = sweep_.id;
  row.profile.trial_id = opened_.AppendTrial(trial, MakeTrialKey("k1")).value();
  row.profile.id = opened_.AppendProfile(row).value();
  EXPECT_THAT(Differences(row, opened_.ListProfiles({})->at(0)), IsEmpty());
}

TEST_F(WholeRowsTest, Calibrations) {
  CalibrationRow row = Distinct<CalibrationRow>();
  row.id = opened_.AppendCalibration(row).value();
  EXPECT_THAT(Differences(row, opened_.LatestCalibration(row.device_name, "").value()), IsEmpty());
}

TEST_F(WholeRowsTest, GateRuns) {
  GateRunRow run = Distinct<GateRunRow>();
  run.job.id = opened_.AddJob(run.job).value();
  EXPECT_THAT(Differences(run.job, opened_.GetJob(run.job.id).value()), IsEmpty());
  run.id = opened_.AddGateRun(run).value();
  EXPECT_THAT(Differences(run, opened_.GetGateRun(run.id).value()), IsEmpty());
  GateKernelRow kernel = Distinct<GateKernelRow>();
  kernel.run_id = run.id;
  kernel.base_kernel_hash = kernel.head_kernel_hash = "k1";
  kernel.id = opened_.AddGateKernel(kernel).value();
  EXPECT_THAT(Differences(kernel, opened_.GateKernels(run.id)->at(0)), IsEmpty());
  LegRow leg = Distinct<LegRow>();
  leg.id = 1;  // the store's first
  leg.job_id = run.job.id;
  leg.gate_kernel_id = kernel.id;
  leg.compared_id = 0;
  leg.purpose = LegPurpose::kRecovery;
  ASSERT_TRUE(opened_.AppendGateLegs({leg}).ok());
  EXPECT_THAT(Differences(leg, opened_.GateLegs(kernel.id)->at(0)), IsEmpty());
  GateVerdictRow verdict = Distinct<GateVerdictRow>();
  verdict.gate_kernel_id = kernel.id;
  ASSERT_TRUE(opened_.AddGateVerdicts({verdict}).ok());
  EXPECT_THAT(Differences(verdict, opened_.GateVerdicts(run.id)->at(0)), IsEmpty());
  BaselineRow baseline = Distinct<BaselineRow>();
  baseline.kernel_hash = "k1";
  ASSERT_TRUE(opened_.SetBaseline({}, {baseline}).ok());
  EXPECT_THAT(Differences(baseline, opened_.Baselines()->at(0)), IsEmpty());
}

TEST_F(WholeRowsTest, Comparisons) {
  ComparisonRow run = Distinct<ComparisonRow>();
  run.job.id = opened_.AddJob(run.job).value();
  run.id = opened_.AddComparison(run).value();
  EXPECT_THAT(Differences(run, opened_.GetComparison(run.id).value()), IsEmpty());
  EXPECT_THAT(Differences(run, opened_.ListComparisons(10)->at(0)), IsEmpty());
  ComparedRow compared = Distinct<ComparedRow>();
  compared.comparison_id = run.id;
  compared.kernel_hash = "k1";
  compared.id = opened_.AddCompared(compared).value();
  EXPECT_THAT(Differences(compared, opened_.ComparedOf(run.id)->at(0)), IsEmpty());
  LegRow leg = Distinct<LegRow>();
  leg.id = 1;  // the store's first
  leg.job_id = run.job.id;
  leg.gate_kernel_id = 0;
  leg.compared_id = compared.id;
  leg.purpose = LegPurpose::kComparison;
  ASSERT_TRUE(opened_.AppendGateLegs({leg}).ok());
  EXPECT_THAT(Differences(leg, opened_.ComparisonLegs(compared.id)->at(0)), IsEmpty());
  EXPECT_TRUE(absl::IsNotFound(opened_.GetComparison(run.id + 1).status()));
}

}  // namespace
}  // namespace tune::db
