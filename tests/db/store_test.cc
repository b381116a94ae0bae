// SPDX-License-Identifier: Apache-2.0
#include "db/store.h"

#include <cmath>
#include <limits>

#include "db/migrations.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/db/rows_to_store.h"

namespace tune::db {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

void ExpectEqual(const Trial& actual, const Trial& expected) {
  EXPECT_EQ(actual.sweep_id, expected.sweep_id);
  EXPECT_EQ(actual.purpose, expected.purpose);
  EXPECT_EQ(actual.config, expected.config);
  EXPECT_EQ(actual.outcome, expected.outcome);
  EXPECT_EQ(actual.message, expected.message);
  const Measurement& a = actual.measurement;
  const Measurement& e = expected.measurement;
  EXPECT_EQ(a.latency_ns_median, e.latency_ns_median);
  EXPECT_EQ(a.latency_ns_low, e.latency_ns_low);
  EXPECT_EQ(a.latency_ns_high, e.latency_ns_high);
  EXPECT_EQ(a.latency_ns_min, e.latency_ns_min);
  EXPECT_EQ(a.latency_ns_mean, e.latency_ns_mean);
  EXPECT_EQ(a.clock, e.clock);
  EXPECT_EQ(a.cache_mode, e.cache_mode);
  EXPECT_EQ(a.bytes_per_second, e.bytes_per_second);
  EXPECT_EQ(a.flops_per_second, e.flops_per_second);
  EXPECT_EQ(a.peak_fraction, e.peak_fraction);
  EXPECT_EQ(a.stopped_early, e.stopped_early);
  EXPECT_EQ(a.samples_ns, e.samples_ns);
  EXPECT_EQ(actual.resources.registers, expected.resources.registers);
  EXPECT_EQ(actual.resources.spill_bytes, expected.resources.spill_bytes);
  EXPECT_EQ(actual.resources.stack_bytes, expected.resources.stack_bytes);
  EXPECT_EQ(actual.resources.static_shared_bytes, expected.resources.static_shared_bytes);
  EXPECT_EQ(actual.resources.dynamic_shared_bytes, expected.resources.dynamic_shared_bytes);
  EXPECT_EQ(actual.resources.binary_bytes, expected.resources.binary_bytes);
  EXPECT_EQ(actual.resources.binary_sha256, expected.resources.binary_sha256);
  EXPECT_EQ(actual.telemetry.sm_clock_mhz, expected.telemetry.sm_clock_mhz);
  EXPECT_EQ(actual.telemetry.memory_clock_mhz, expected.telemetry.memory_clock_mhz);
  EXPECT_EQ(actual.telemetry.power_mw, expected.telemetry.power_mw);
  EXPECT_EQ(actual.telemetry.temperature_c, expected.telemetry.temperature_c);
  EXPECT_EQ(actual.telemetry.throttle_reasons, expected.telemetry.throttle_reasons);
  EXPECT_EQ(actual.telemetry.compute_processes, expected.telemetry.compute_processes);
  EXPECT_EQ(actual.error.max_abs, expected.error.max_abs);
  EXPECT_EQ(actual.error.max_rel, expected.error.max_rel);
  EXPECT_EQ(actual.error.relative_l2, expected.error.relative_l2);
  EXPECT_EQ(actual.error.bad_elements, expected.error.bad_elements);
  EXPECT_EQ(actual.error.worst, expected.error.worst);
  EXPECT_EQ(actual.compile_seconds, expected.compile_seconds);
  EXPECT_EQ(actual.compile_cached, expected.compile_cached);
  EXPECT_EQ(actual.evaluate_seconds, expected.evaluate_seconds);
  EXPECT_EQ(actual.finished_unix_ms, expected.finished_unix_ms);
}

void ExpectEqual(const SweepRow& actual, const SweepRow& expected) {
  EXPECT_EQ(actual.id, expected.id);
  EXPECT_EQ(actual.kernel_hash, expected.kernel_hash);
  EXPECT_EQ(actual.kernel_name, expected.kernel_name);
  EXPECT_EQ(actual.problem, expected.problem);
  EXPECT_EQ(actual.device_name, expected.device_name);
  EXPECT_EQ(actual.target, expected.target);
  EXPECT_EQ(actual.strategy, expected.strategy);
  EXPECT_EQ(actual.budget_trials, expected.budget_trials);
  EXPECT_EQ(actual.budget_seconds, expected.budget_seconds);
  EXPECT_EQ(actual.seed, expected.seed);
  EXPECT_EQ(actual.cache_mode, expected.cache_mode);
  EXPECT_EQ(actual.fresh, expected.fresh);
  EXPECT_EQ(actual.idempotency_key, expected.idempotency_key);
  EXPECT_EQ(actual.job.id, expected.job.id);
  EXPECT_EQ(actual.best_trial_id, expected.best_trial_id);
  EXPECT_EQ(actual.default_trial_id, expected.default_trial_id);
  EXPECT_EQ(actual.tie_trial_ids, expected.tie_trial_ids);
  EXPECT_EQ(actual.device_ids, expected.device_ids);
  EXPECT_EQ(actual.spent_seconds, expected.spent_seconds);
  EXPECT_EQ(actual.summary, expected.summary);
}

TEST_F(StoreTest, KernelComesBackWhole) {
  Store& store = Reopen();
  const KernelRow kernel = MakeKernelRow("k1");
  ASSERT_TRUE(store.PutKernel(kernel).ok());
  ASSERT_TRUE(store.PutKernel(kernel).ok()) << "the same hash again is not an error";
  KernelRow read = Reopen().GetKernel("k1").value();
  EXPECT_EQ(read.hash, kernel.hash);
  EXPECT_EQ(read.name, kernel.name);
  EXPECT_EQ(read.spec_name, kernel.spec_name);
  EXPECT_EQ(read.spec_text, kernel.spec_text);
  EXPECT_EQ(read.files, kernel.files);
  EXPECT_TRUE(absl::IsNotFound(store_->GetKernel("k2").status()));
}

TEST_F(StoreTest, SweepComesBackWholeAndIsUpdated) {
  Store& store = OpenWithSweep();
  SweepRow expected = MakeSweepRow("k1");
  expected.id = sweep_.id;
  expected.job.id = sweep_.job.id;
  ExpectEqual(store.GetSweep(sweep_.id).value(), expected);

  const TrialKey key = MakeTrialKey("k1");
  for (int64_t* id : {&expected.best_trial_id, &expected.default_trial_id}) {
    *id = store.AppendTrial(MakeTrial(sweep_.id), key).value();
  }
  expected.tie_trial_ids = {expected.default_trial_id, expected.best_trial_id};
  expected.job.state = JobState::kDone;
  expected.job.message = "done";
  expected.summary = "{\"progress\":{}}";
  expected.spent_seconds = 12.5;
  expected.job.finished_unix_ms = 1700000009999;
  ASSERT_TRUE(store.UpdateSweep(expected).ok());
  ExpectEqual(Reopen().GetSweep(sweep_.id).value(), expected);

  expected.id = 99;
  EXPECT_TRUE(absl::IsNotFound(store_->UpdateSweep(expected)));
  EXPECT_TRUE(absl::IsNotFound(store_->GetSweep(99).status()));
}

TEST_F(StoreTest, TrialComesBackWhole) {
  Store& store = OpenWithSweep();
  Trial trial = MakeTrial(sweep_.id);
  trial.purpose = TrialPurpose::kConfirm;
  const int64_t id = store.AppendTrial(trial, MakeTrialKey("k1")).value();
  Trial read = Reopen().GetTrial(id).value();
  EXPECT_EQ(read.id, id);
  ExpectEqual(read, trial);
  EXPECT_TRUE(absl::IsNotFound(store_->GetTrial(id + 1).status()));
}

TEST_F(StoreTest, EveryOutcomeAndClockComesBack) {
  Store& store = OpenWithSweep();
  for (int outcome = 1; outcome <= 9; ++outcome) {
    Trial trial = MakeTrial(sweep_.id, outcome);
    trial.outcome = static_cast<Outcome>(outcome);
    trial.measurement.clock = static_cast<Clock>(outcome % 4);
    trial.measurement.samples_ns.clear();
    ASSERT_TRUE(store.AppendTrial(trial, MakeTrialKey("k1")).ok());
  }
  std::vector<Trial> trials = store.TrialsOfSweep(sweep_.id).value();
  ASSERT_GE(trials.size(), 2u);
  const std::vector<Trial> first = store.TrialsAfter(sweep_.id, 0, 1).value();
  ASSERT_EQ(first.size(), 1u);
  EXPECT_EQ(first[0].id, trials[0].id);
  const std::vector<Trial> others = store.TrialsAfter(sweep_.id, first[0].id, 100).value();
  ASSERT_EQ(others.size(), trials.size() - 1);
  EXPECT_EQ(others[0].id, trials[1].id);
  ASSERT_EQ(trials.size(), 9u);
  const std::vector<TrialPoint> points = store.PointsOfSweep(sweep_.id, 4).value();
  ASSERT_EQ(points.size(), 4u);  // the newest, oldest first
  EXPECT_EQ(points[0].id, trials[5].id);
  EXPECT_EQ(points[0].outcome, trials[5].outcome);
  EXPECT_EQ(points[3].latency_ns_median, trials[8].measurement.latency_ns_median);
  EXPECT_EQ(points[3].finished_unix_ms, trials[8].finished_unix_ms);
  for (int outcome = 1; outcome <= 9; ++outcome) {
    const Trial& trial = trials[static_cast<size_t>(outcome - 1)];
    EXPECT_EQ(static_cast<int>(trial.outcome), outcome);
    EXPECT_EQ(static_cast<int>(trial.measurement.clock), outcome % 4);
  }
}

TEST_F(StoreTest, KeepsErrorsThatAreNotNumbers) {
  Store& store = OpenWithSweep();
  Trial trial = MakeTrial(sweep_.id);
  trial.outcome = Outcome::kWrongResult;
  trial.error.max_abs = std::numeric_limits<double>::infinity();
  trial.error.max_rel = std::numeric_limits<double>::quiet_NaN();
  const int64_t id = store.AppendTrial(trial, MakeTrialKey("k1")).value();
  Trial read = store.GetTrial(id).value();
  EXPECT_EQ(read.error.max_abs, trial.error.max_abs);
  EXPECT_TRUE(std::isnan(read.error.max_rel));
}

TEST_F(StoreTest, CutsAMessageAtTheLimitBetweenCharacters) {
  Store& store = OpenWithSweep();
  Trial trial = MakeTrial(sweep_.id);
  trial.message = std::string(kMaxTrialMessageBytes - 1, 'x') + "\xc3\xa9";
  const int64_t id = store.AppendTrial(trial, MakeTrialKey("k1")).value();
  EXPECT_EQ(store.GetTrial(id).value().message, std::string(kMaxTrialMessageBytes - 1, 'x'));
}

TEST_F(StoreTest, RefusesConfigsThatWouldNotComeBack) {
  Store& store = OpenWithSweep();
  const std::vector<Config> configs = {
      {{{"A", int64_t{1}}, {"A", int64_t{2}}}},
      {{{"A", std::numeric_limits<double>::quiet_NaN()}}},
      {{{"A", std::string("\xff")}}},
  };
  for (const Config& config : configs) {
    Trial trial = MakeTrial(sweep_.id);
    trial.config = config;
    absl::Status status = store.AppendTrial(trial, MakeTrialKey("k1")).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  }
  EXPECT_THAT(store.TrialsOfSweep(sweep_.id).value(), IsEmpty());
}

TEST_F(StoreTest, RefusesReferencesToRowsThatAreNotStored) {
  Store& store = OpenWithSweep();
  SweepRow other = MakeSweepRow("k9");
  other.idempotency_key = "";
  EXPECT_TRUE(absl::IsNotFound(store.AddSweep(other).status()));
  EXPECT_TRUE(absl::IsNotFound(store.AppendTrial(MakeTrial(99), MakeTrialKey("k1")).status()));
  EXPECT_TRUE(
      absl::IsNotFound(store.AppendTrial(MakeTrial(sweep_.id), MakeTrialKey("k9")).status()));
}

TEST_F(StoreTest, AKnownIdempotencyKeyReturnsTheExistingSweep) {
  Store& store = OpenWithSweep();
  SweepRow again = MakeSweepRow("k1");
  again.strategy = "exhaustive";
  SweepRow known = store.AddSweep(again).value();
  EXPECT_EQ(known.id, sweep_.id);
  EXPECT_EQ(known.strategy, "random");

  again.idempotency_key = "";
  const int64_t second = store.AddSweep(again).value().id;
  const int64_t third = store.AddSweep(again).value().id;
  EXPECT_NE(second, third) << "no key equals no key";
  EXPECT_EQ(Reopen().AddSweep(MakeSweepRow("k1")).value().id, sweep_.id);
}

TEST_F(StoreTest, TheQueueIsInOrderAfterReopening) {
  Store& store = OpenWithSweep();
  std::vector<int64_t> ids = {sweep_.id};
  SweepRow sweep = MakeSweepRow("k1");
  sweep.idempotency_key = "";
  for (JobState state : {JobState::kQueued, JobState::kDone, JobState::kQueued,
                         JobState::kCancelled, JobState::kFailed}) {
    sweep.job.state = state;
    ids.push_back(store.AddSweep(sweep).value().id);
  }
  auto ids_of = [](const std::vector<SweepRow>& rows) {
    std::vector<int64_t> found;
    for (const SweepRow& row : rows) found.push_back(row.id);
    return found;
  };
  EXPECT_THAT(ids_of(Reopen().UnfinishedSweeps().value()), ElementsAre(ids[0], ids[1], ids[3]));
  EXPECT_THAT(ids_of(store_->ListSweeps(2).value()), ElementsAre(ids[5], ids[4]));
}

TEST_F(StoreTest, TrialsOfKeyGivesTheNewestLastingSearchTrialOfEachConfig) {
  Store& store = OpenWithSweep();
  const TrialKey key = MakeTrialKey("k1");
  auto append = [&](int64_t block, Outcome outcome, TrialPurpose purpose, const TrialKey& of) {
    Trial trial = MakeTrial(sweep_.id, block);
    trial.outcome = outcome;
    trial.purpose = purpose;
    return store.AppendTrial(trial, of).value();
  };
  const TrialPurpose search = TrialPurpose::kSearch;
  append(1, Outcome::kOk, search, key);
  append(2, Outcome::kTimedOut, search, key);
  append(3, Outcome::kFaulted, search, key);
  const int64_t failed = append(4, Outcome::kCompileFailed, search, key);
  const int64_t invalid = append(8, Outcome::kInvalidConfig, search, key);
  const int64_t wrong = append(9, Outcome::kWrongResult, search, key);
  int64_t block = 10;
  for (const Outcome passing :
       {Outcome::kCompileTimeout, Outcome::kLaunchFailed, Outcome::kAboveRoof}) {
    append(++block, passing, search, key);
  }
  Trial limited = MakeTrial(sweep_.id, 20);  // by the daemon's own limits, not the compiler's word
  limited.outcome = Outcome::kCompileFailed;
  limited.may_pass = true;
  ASSERT_TRUE(store.AppendTrial(limited, key).ok());
  append(5, Outcome::kOk, search, key);
  append(5, Outcome::kTimedOut, search, key);  // the newest says: try again
  const int64_t newest = append(1, Outcome::kOk, search, key);
  append(1, Outcome::kOk, TrialPurpose::kConfirm, key);
  append(6, Outcome::kOk, TrialPurpose::kConfirm, key);
  TrialKey other = key;
  other.driver = "580.00";
  append(7, Outcome::kOk, search, other);

  std::vector<int64_t> ids;
  const std::vector<Trial> trials = store.TrialsOfKey(key).value();
  for (const Trial& trial : trials) {
    ids.push_back(trial.id);
    EXPECT_THAT(trial.measurement.samples_ns, IsEmpty());
  }
  EXPECT_THAT(ids, ElementsAre(failed, invalid, wrong, newest));
}

TEST_F(StoreTest, TheTrialsKnownToASweepDoNotChangeLater) {
  Store& store = OpenWithSweep();
  const auto add_sweep = [&](bool fresh) {
    SweepRow sweep = MakeSweepRow("k1");
    sweep.idempotency_key.clear();
    sweep.fresh = fresh;
    return store.AddSweep(sweep).value();
  };
  const auto append = [&](const SweepRow& sweep, int64_t block) {
    return store.AppendTrial(MakeTrial(sweep.id, block), MakeTrialKey("k1")).value();
  };
  const auto known_to = [&](const SweepRow& sweep) {
    std::vector<int64_t> ids;
    const std::vector<Trial> known = store.TrialsKnownTo(sweep).value();
    for (const Trial& trial : known) ids.push_back(trial.id);
    return ids;
  };
  const SweepRow first = add_sweep(/*fresh=*/false);
  const int64_t one = append(first, 1);
  const int64_t two = append(first, 2);
  EXPECT_THAT(known_to(first), IsEmpty()) << "its own trials are not what it reused";
  const SweepRow second = add_sweep(/*fresh=*/false);
  append(second, 3);
  const SweepRow idle = add_sweep(/*fresh=*/false);  // had nothing left to try
  const SweepRow fresh = add_sweep(/*fresh=*/true);
  const int64_t again = append(fresh, 1);
  append(fresh, 2);
  EXPECT_THAT(known_to(second), ElementsAre(one, two));
  EXPECT_THAT(known_to(idle), ElementsAre(one, two, two + 1));
  EXPECT_THAT(known_to(fresh), IsEmpty());
  const SweepRow last = add_sweep(/*fresh=*/false);
  append(last, 4);
  EXPECT_THAT(known_to(last), ElementsAre(two + 1, again, again + 1));
}

TEST_F(StoreTest, EveryFieldOfAKeyCounts) {
  Store& store = OpenWithSweep();
  ASSERT_TRUE(store.PutKernel(MakeKernelRow("k2")).ok());
  const TrialKey key = MakeTrialKey("k1");
  ASSERT_TRUE(store.AppendTrial(MakeTrial(sweep_.id), key).ok());
  std::vector<TrialKey> others(10, key);
  others[0].kernel_hash = "k2";
  others[1].problem.dims[0].second = 8193;
  others[2].problem.dims[0].first = "row";
  others[3].problem.dtype = DType::kF16;
  others[4].device_name = "NVIDIA H100";
  others[5].target = "sm_90";
  others[6].driver = "575.58";
  others[7].compiler = "NVRTC 12.8";
  others[8].cache_mode = CacheMode::kCold;
  others[9].include_digest = "of other headers";
  EXPECT_EQ(store.TrialsOfKey(key).value().size(), 1u);
  for (size_t i = 0; i < others.size(); ++i) {
    EXPECT_THAT(store.TrialsOfKey(others[i]).value(), IsEmpty()) << i;
    ASSERT_TRUE(store.AppendTrial(MakeTrial(sweep_.id), others[i]).ok());
    EXPECT_EQ(store.TrialsOfKey(others[i]).value().size(), 1u) << i;
  }
}

TEST_F(StoreTest, TheNewestRecordOfAKeyIsCurrent) {
  Store& store = OpenWithSweep();
  auto publish = [&](const TrialKey& key, int64_t block) {
    Trial trial = MakeConfirmed(sweep_.id, block);
    trial.id = store.AppendTrial(trial, key).value();
    return store
        .PublishRecord({.key = key,
                        .trial = trial,
                        .default_latency_ns = 2000.5,
                        .tie_count = 3,
                        .published_unix_ms = 1700000001000})
        .value();
  };
  TrialKey key = MakeTrialKey("k1");
  const int64_t first = publish(key, 32);
  TrialKey cold = key;
  cold.cache_mode = CacheMode::kCold;
  const int64_t cold_record = publish(cold, 48);
  key.driver = "580.00";  // a driver is provenance of a record, not part of its identity
  const int64_t second = publish(key, 64);
  EXPECT_LT(first, cold_record);

  std::vector<lookup::Record> records = Reopen().CurrentRecords().value();
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[0].id, cold_record);
  const lookup::Record& record = records[1];
  EXPECT_EQ(record.id, second);
  EXPECT_EQ(record.kernel_name, "softmax");
  EXPECT_EQ(record.key.kernel_hash, "k1");
  EXPECT_EQ(record.key.problem, key.problem);
  EXPECT_EQ(record.key.device_name, key.device_name);
  EXPECT_EQ(record.key.target, key.target);
  EXPECT_EQ(record.key.driver, "580.00");
  EXPECT_EQ(record.key.compiler, key.compiler);
  EXPECT_EQ(record.key.cache_mode, CacheMode::kWarm);
  EXPECT_EQ(record.default_latency_ns, 2000.5);
  EXPECT_EQ(record.tie_count, 3u);
  EXPECT_EQ(record.published_unix_ms, 1700000001000);
  EXPECT_EQ(record.trial.measurement.sample_count, 5u);
  Trial expected = MakeConfirmed(sweep_.id, 64);
  expected.measurement.samples_ns.clear();
  ExpectEqual(record.trial, expected);
  EXPECT_EQ(store_->Statistics().value().record_count, 2u);
}

TEST_F(StoreTest, EvidenceCannotBeEdited) {
  Store& store = OpenWithSweep();
  ASSERT_TRUE(store.AppendTrial(MakeTrial(sweep_.id), MakeTrialKey("k1")).ok());
  store_.reset();
  EXPECT_EQ(RunSql(path(), "SELECT * FROM trial_view; SELECT * FROM current_record"), "");
  for (const char* sql : {"UPDATE trial SET latency_ns_median = 1", "UPDATE trial SET message = ''",
                          "DELETE FROM trial", "INSERT OR REPLACE INTO trial SELECT * FROM trial",
                          "UPDATE trial_key SET driver = 'x'", "DELETE FROM trial_key"}) {
    if (IsOfSqliteAlone(sql)) continue;
    EXPECT_THAT(RunSql(path(), sql), HasSubstr("append-only")) << sql;
  }
  EXPECT_THAT(RunSql(path(), "UPDATE kernel SET name = 'x'"), HasSubstr("immutable"));
  EXPECT_THAT(RunSql(path(), "DELETE FROM kernel_file"), HasSubstr("immutable"));
  EXPECT_EQ(Reopen().Statistics().value().trial_count, 1u);
}

TEST_F(StoreTest, ProfilesReadBackNewestFirst) {
  Store& store = OpenWithSweep();
  const int64_t trial_id = store.AppendTrial(MakeTrial(sweep_.id), MakeTrialKey("k1")).value();
  ProfileRow row{.key = MakeTrialKey("k1"), .kernel_name = "softmax"};
  row.profile.config = MakeConfig(128);
  row.profile.set = MetricSet::kAll;
  row.profile.message = "why";
  row.profile.counted = true;
  row.profile.chip = "GH100";
  row.profile.pass_count = 8;
  row.profile.measurement.latency_ns_median = 1234.5;
  row.profile.work = {.flops = 1e9, .bytes = 2e9, .peak = "tensor_bf16"};
  row.profile.quantities = {{"dram_read", 1.5e9}, {"f32", 7}};
  row.profile.counters = {{"dram__bytes_read.sum", 1.5e9, 1.4e9, 1.6e9}};
  row.profile.notes = {"one", "two"};
  ASSERT_TRUE(store.AppendProfile(row).ok());
  row.profile.trial_id = trial_id;
  const int64_t second = store.AppendProfile(row).value();
  const std::vector<ProfileRow> all = Reopen().ListProfiles({}).value();
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].profile.id, second);
  EXPECT_EQ(all[0].profile.trial_id, trial_id);
  EXPECT_EQ(all[0].profile.sweep_id, sweep_.id);
  EXPECT_EQ(all[1].profile.trial_id, 0);
  const Profile& read = all[0].profile;
  EXPECT_EQ(read.config, row.profile.config);
  EXPECT_EQ(read.set, MetricSet::kAll);
  EXPECT_EQ(read.quantities, row.profile.quantities);
  ASSERT_EQ(read.counters.size(), 1u);
  EXPECT_EQ(read.counters[0].high, 1.6e9);
  EXPECT_EQ(read.notes, row.profile.notes);
  EXPECT_EQ(read.work.peak, "tensor_bf16");
  EXPECT_EQ(all[0].key.problem, row.key.problem);
  EXPECT_EQ(store_->ListProfiles({.trial_id = trial_id}).value().size(), 1u);
  EXPECT_EQ(store_->ListProfiles({.sweep_id = sweep_.id + 1}).value().size(), 0u);
  EXPECT_EQ(store_->ListProfiles({.kernel_name = "softmax", .limit = 1}).value().size(), 1u);
}

TEST_F(StoreTest, TheNewestCalibrationIsTheOneRead) {
  Store& store = OpenWithSweep();
  EXPECT_TRUE(absl::IsNotFound(store.LatestCalibration("NVIDIA H200", "").status()));
  CalibrationRow row{.device_name = "NVIDIA H200", .chip = "GH100", .driver = "580"};
  row.entries = {{.name = "f16",
                  .quantity = "f16",
                  .expected = 8,
                  .counted = 4,
                  .multiplier = 2,
                  .passed = true}};
  ASSERT_TRUE(store.AppendCalibration(row).ok());
  row.driver = "590";
  ASSERT_TRUE(store.AppendCalibration(row).ok());
  const CalibrationRow read = Reopen().LatestCalibration("", "GH100").value();
  EXPECT_EQ(read.driver, "590");
  ASSERT_EQ(read.entries.size(), 1u);
  EXPECT_EQ(read.entries[0].multiplier, 2);
  EXPECT_TRUE(read.entries[0].passed);
}

TEST_F(StoreTest, CeilingsAreReplacedByName) {
  Store& store = Reopen();
  const CeilingRow copy = {
      "NVIDIA H200", "575.57", {"dram_copy", 4.2e12, CeilingSource::kMeasured}, 1700000000001};
  const CeilingRow flops = {
      "NVIDIA H200", "575.57", {"f32", 6.0e13, CeilingSource::kNominal}, 1700000000002};
  const CeilingRow other = {"NVIDIA H200", "580.00", {"f32", 1.0, CeilingSource::kMeasured}, 3};
  ASSERT_TRUE(store.PutCeilings({copy, other}).ok());
  CeilingRow newer = copy;
  newer.ceiling.value = 4.3e12;
  newer.measured_unix_ms = 1700000000009;
  ASSERT_TRUE(store.PutCeilings({newer, flops}).ok());
  std::vector<CeilingRow> rows = Reopen().GetCeilings("NVIDIA H200", "575.57", "").value();
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].ceiling.name, "dram_copy");
  EXPECT_EQ(rows[0].ceiling.value, 4.3e12);
  EXPECT_EQ(rows[0].ceiling.source, CeilingSource::kMeasured);
  EXPECT_EQ(rows[0].measured_unix_ms, 1700000000009);
  EXPECT_EQ(rows[1].ceiling.name, "f32");
  EXPECT_EQ(rows[1].ceiling.source, CeilingSource::kNominal);
  EXPECT_EQ(rows[1].device_name, "NVIDIA H200");
  EXPECT_EQ(rows[1].driver, "575.57");
}

TEST_F(StoreTest, AReaderSeesWhatTheWriterWritesAndWritesNothing) {
  if (PostgresForTests() != nullptr) GTEST_SKIP() << "of files";
  OpenWithSweep();
  EXPECT_THAT(Store::WriterOf(path()), HasSubstr(absl::StrCat("(process ", getpid(), ")")));
  absl::StatusOr<std::unique_ptr<Store>> reader = Store::OpenToRead(path());
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_FALSE((*reader)->writable());
  EXPECT_TRUE((*reader)->GetSweep(sweep_.id).ok());
  SweepRow row = MakeSweepRow("k1");
  row.idempotency_key = "another";
  const int64_t later = store_->AddSweep(row).value().id;
  EXPECT_TRUE((*reader)->GetSweep(later).ok()) << "as it is now";
  const absl::Status refused = (*reader)->AddSweep(row).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  // A reader is in nobody's way: the store can be closed and owned anew.
  store_.reset();
  EXPECT_EQ(Store::WriterOf(path()), "");
  EXPECT_TRUE((*reader)->GetSweep(later).ok());
  EXPECT_TRUE(Reopen().GetSweep(later).ok());
}

TEST_F(StoreTest, OpenToReadFailsWithoutAStoreOfTodaysSchema) {
  if (PostgresForTests() != nullptr) GTEST_SKIP() << "of files";
  EXPECT_TRUE(absl::IsNotFound(Store::OpenToRead(path()).status()));
  EXPECT_EQ(Store::WriterOf(path()), "");
  ASSERT_EQ(RunSql(path(), "CREATE TABLE t (x); PRAGMA user_version = 1"), "");
  EXPECT_TRUE(absl::IsFailedPrecondition(Store::OpenToRead(path()).status())) << "an older schema";
}

TEST_F(StoreTest, CeilingsBelongToOneDeviceOfAName) {
  Store& store = Reopen();
  CeilingRow row = {"NVIDIA H200", "575.57", {"dram_copy", 1e12, CeilingSource::kMeasured}, 1};
  row.ceiling.telemetry.compute_processes = 3;
  const CeilingRow nobodys = row;  // as an older schema left it
  CeilingRow first = row;
  first.uuid = "GPU-1";
  first.ceiling.value = 2e12;
  CeilingRow second = row;
  second.uuid = "GPU-2";
  second.ceiling.value = 3e12;
  ASSERT_TRUE(store.PutCeilings({nobodys, first}).ok());
  const auto value_of = [&](const std::string& uuid) {
    const auto rows = store.GetCeilings("NVIDIA H200", "575.57", uuid).value();
    EXPECT_EQ(rows.size(), 1u) << uuid;
    EXPECT_EQ(rows[0].ceiling.telemetry.compute_processes, 3) << uuid;
    return rows[0].ceiling.value;
  };
  EXPECT_EQ(value_of("GPU-1"), 2e12);
  EXPECT_EQ(value_of("GPU-2"), 1e12) << "until it has its own";
  ASSERT_TRUE(store.PutCeilings({second}).ok());
  EXPECT_EQ(value_of("GPU-2"), 3e12);
  EXPECT_EQ(value_of("GPU-1"), 2e12) << "another device of the name was measured since";
  EXPECT_EQ(value_of(""), 3e12);
}

TEST_F(StoreTest, StatisticsCountTheStoredRows) {
  Store& store = OpenWithSweep();
  EXPECT_EQ(store.Statistics().value().trial_count, 0u);
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(store.AppendTrial(MakeTrial(sweep_.id), MakeTrialKey("k1")).ok());
  }
  StoreStatistics statistics = store.Statistics().value();
  EXPECT_EQ(statistics.trial_count, 3u);
  EXPECT_EQ(statistics.schema_version, NewestVersion());
  EXPECT_THAT(statistics.engine,
              HasSubstr(PostgresForTests() == nullptr ? "SQLite 3." : "PostgreSQL 1"));
}

}  // namespace
}  // namespace tune::db
