// SPDX-License-Identifier: Apache-2.0
// A store of the oldest version that is opened keeps its rows; older ones are refused.
#include "db/migrations.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "db/sqlite_connection.h"
#include "tests/db/rows_to_store.h"

namespace tune::db {
namespace {

using ::testing::HasSubstr;

// A finished sweep with its confirmed winner, a gate run, a comparison, a profile, a calibration,
// ceilings, a token, a baseline and a submitter's kernel, as a daemon of version 14 stored them.
constexpr char kVersion14[] = R"(
INSERT INTO kernel VALUES ('k1', 'softmax', 's', 't');
INSERT INTO kernel_file VALUES ('k1', 'a.cu', 'text');
INSERT INTO kernel_owner VALUES ('alice', 'k1');
INSERT INTO job VALUES (1, 1, 3, 1, 'alice', 'softmax', 'cpu', '', 1, 0, 2, 0),
                       (2, 2, 3, 1, 'alice', 'main topic', 'cpu', '', 1, 0, 2, 0),
                       (3, 5, 3, 1, 'alice', 'a b', 'cpu', '', 1, 0, 2, 0);
INSERT INTO trial_key VALUES (1, 'k1', '{}', 'f32', 'cpu:x', 'cpu', 1, '', '');
INSERT INTO sweep (id, job_id, kernel_hash, dims, dtype, device_name, target, strategy,
                   budget_trials, budget_seconds, seed, cache_mode, fresh, tie_trial_ids, summary)
VALUES (1, 1, 'k1', '{}', 'f32', 'cpu:x', 'cpu', 'random', 1, 0, 0, 1, 0, '[]', '{}');
INSERT INTO trial (id, sweep_id, key_id, purpose, config, outcome, message, finished_unix_ms,
                   latency_ns_median, clock, stopped_early, registers, spill_bytes, stack_bytes,
                   static_shared_bytes, dynamic_shared_bytes, binary_bytes, binary_sha256,
                   sm_clock_mhz, memory_clock_mhz, power_mw, temperature_c, throttle_reasons,
                   error_bad_elements, error_worst, compile_cached, samples_ns)
VALUES (1, 1, 1, 2, '{"BLOCK":1}', 1, '', 1, 100, 3, 0, 0, 0, 0, 0, 0, 0, 'a', 0, 0, 0, 0, 0, 0,
        '', 0, x'');
UPDATE sweep SET best_trial_id = 1;
INSERT INTO record (trial_id, tie_count, published_unix_ms) VALUES (1, 0, 5);
INSERT INTO gate_run (id, job_id, kind, device_name, device_uuid, target, driver, compiler,
                      cache_mode, base_label, head_label, delta0, delta_max, alpha, screen_rounds,
                      guarded_deviation_max, clock_difference_max, seed)
VALUES (1, 2, 1, 'cpu:x', '', 'cpu', '', '', 1, 'main', 'topic', 0.01, 0.05, 0.01, 5, 1, 1, 0);
INSERT INTO gate_kernel (id, run_id, name, head_kernel_hash, dims, dtype, base_config, head_config,
                         recovery_config, base_code, head_code, identical, fault)
VALUES (1, 1, 'softmax', 'k1', '{}', 'f32', '{}', '{}', '{}', '', '', 0, '');
INSERT INTO comparison VALUES (1, 3, 'cpu:x', '', 'cpu', '', 1, 1, 7, '');
INSERT INTO token VALUES (1, 'alice', 2, 'digest', 'root', 1, 0, 0, 0);
INSERT INTO baseline VALUES ('released', 'softmax', 'k1', 'v1', 3);
INSERT INTO calibration VALUES (1, 'H200', 'gh100', 'd', 'u', 1);
INSERT INTO ceiling_measurement (device_name, driver, uuid, name, value, measured, kind, policy,
                                 process_count, process_values, probe, sm_clock_mhz,
                                 memory_clock_mhz, power_mw, temperature_c, throttle_reasons, note,
                                 measured_unix_ms)
VALUES ('H200', 'd', 'u', 'dram_copy', 4e12, 1, 1, 1, 1, x'', '', 0, 0, 0, 0, 0, '', 1);
)";

// Legs of both kinds, as a daemon of version 18 stored them beside the rows above.
constexpr char kVersion18[] = R"(
INSERT INTO compared (id, comparison_id, place, label, kernel_hash, kernel_name, language, dims,
                      dtype, config, config_source, compiler, work_peak, roof_bound, roof_source,
                      outcome, message, agreement, agreement_message, error_bad_elements,
                      error_worst, notes)
VALUES (1, 1, 0, 'a', 'k1', 'softmax', 'CUDA', '{}', 'f32', '{}', '', '', '', 0, 0, 1, '', 1, '', 0,
        '', '[]');
INSERT INTO gate_leg VALUES
  (1, 1, 1, 1, 1, 1, '', 100, 1, 1980, 2619, 650000, 50, 4, 2, x'0000000000005940'),
  (2, 1, 1, 1, 2, 1, '', NULL, 1, 0, 0, 0, 0, 0, 2, x''),
  (3, 1, 3, 2, 2, 7, 'head: faulted', 0, 0, 0, 0, 0, 0, 0, 0, x'');
INSERT INTO comparison_leg VALUES
  (1, 1, 0, 1, '', 200, 3, 0, 0, 0, 0, 0, 0, x'00000000000069400000000000006940'),
  (2, 1, 1, 8, 'timed out', 0, 0, 0, 0, 0, 0, 0, 0, x'');
)";

class MigrationTest : public StoreTest {
 protected:
  void Fill(const std::string& sql, size_t steps = 1) {
    auto connection =
        SqliteConnection::Open(path(), SqliteConnection::Mode::kReadWriteCreate).value();
    ASSERT_TRUE(Migrate(*connection, path(), SchemaSteps().first(steps)).ok());
    const absl::Status filled = connection->Execute(sql);
    ASSERT_TRUE(filled.ok()) << filled;
  }
};

TEST_F(MigrationTest, AStoreOfTheOldestVersionKeepsItsRows) {
  Fill(kVersion14);
  Store& store = Reopen();
  EXPECT_EQ(store.Statistics()->schema_version, NewestVersion());
  EXPECT_TRUE(std::filesystem::exists(absl::StrCat(path(), ".v", kOldestVersion, ".bak")));
  EXPECT_EQ(store.GetKernel("k1")->files.at("a.cu"), "text");
  EXPECT_EQ(store.ListJobs({})->size(), 3u);
  EXPECT_EQ(store.GetSweep(1)->job.owner, "alice");
  EXPECT_EQ(store.GetTrial(1)->measurement.latency_ns_median, 100);
  const std::vector<lookup::Record> records = store.CurrentRecords().value();
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0].trial.id, 1);
  EXPECT_EQ(store.GetGateRun(1)->head_label, "topic");
  EXPECT_EQ(store.GateKernels(1)->size(), 1u);
  EXPECT_EQ(store.GetComparison(1)->rounds, 7u);
  EXPECT_EQ(store.ListTokens()->size(), 1u);
  EXPECT_EQ(store.Baselines()->at(0).label, "v1");
}

TEST_F(MigrationTest, LegsOfVersion18AreReadAsTheyWere) {
  Fill(kVersion14);
  Fill(kVersion18, /*steps=*/5);
  int64_t stored_bytes = 0;
  {
    auto connection =
        SqliteConnection::Open(path(), SqliteConnection::Mode::kReadWriteCreate).value();
    stored_bytes = connection->QueryInteger("SELECT sum(result_bytes) FROM stored").value();
  }
  Store& store = Reopen();
  const std::vector<LegRow> gate = store.GateLegs(1).value();
  ASSERT_EQ(gate.size(), 3u);
  EXPECT_EQ(gate[0].job_id, 2);
  EXPECT_EQ(gate[0].purpose, LegPurpose::kScreen);
  EXPECT_EQ(gate[0].round, 1);
  EXPECT_EQ(gate[0].leg.revision, gate::Revision::kBase);
  EXPECT_EQ(gate[0].leg.samples_ns, std::vector<double>{100});
  EXPECT_EQ(gate[0].leg.median_ns, 100);
  EXPECT_EQ(gate[0].leg.clock, Clock::kCupti);
  EXPECT_EQ(gate[0].leg.telemetry.sm_clock_mhz, 1980);
  EXPECT_EQ(gate[0].leg.telemetry.throttle_reasons, 4u);
  EXPECT_EQ(gate[0].leg.telemetry.compute_processes, 2);
  EXPECT_EQ(gate[1].leg.revision, gate::Revision::kHead);
  EXPECT_EQ(gate[2].purpose, LegPurpose::kRecovery);
  EXPECT_EQ(gate[2].outcome, Outcome::kFaulted);
  EXPECT_EQ(gate[2].message, "head: faulted");
  const std::vector<LegRow> compared = store.ComparisonLegs(1).value();
  ASSERT_EQ(compared.size(), 2u);
  EXPECT_EQ(compared[0].job_id, 3);
  EXPECT_EQ(compared[0].purpose, LegPurpose::kComparison);
  EXPECT_EQ(compared[0].leg.revision, gate::Revision::kNone);
  EXPECT_EQ(compared[0].leg.samples_ns, (std::vector<double>{200, 200}));
  EXPECT_EQ(compared[0].leg.median_ns, 200);
  EXPECT_EQ(compared[1].round, 1);
  EXPECT_EQ(compared[1].outcome, Outcome::kTimedOut);
  // Version 20 counts the rows of gates, comparisons and sweeps, too.
  auto connection = SqliteConnection::Open(path(), SqliteConnection::Mode::kReadOnly).value();
  const int64_t counted = connection
                              ->QueryInteger(
                                  "SELECT (SELECT sum(bytes) FROM counted_row) + "
                                  "(SELECT sum(bytes) FROM counted_sweep)")
                              .value();
  EXPECT_GT(counted, 400 + 500 + 300 + 600);
  EXPECT_EQ(static_cast<int64_t>(store.StoredBy("alice")->result_bytes), stored_bytes + counted);
}

TEST_F(MigrationTest, AnOlderStoreIsRefusedByItsVersion) {
  Fill("PRAGMA user_version = 13");
  const absl::Status refused = Store::Open(path()).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("has schema version 13, the oldest"));
}

}  // namespace
}  // namespace tune::db
