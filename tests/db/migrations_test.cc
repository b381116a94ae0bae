// SPDX-License-Identifier: Apache-2.0
// Each migration keeps the rows of the version before it.
#include "db/migrations.h"

#include <gtest/gtest.h>

#include <iterator>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "db/statement.h"
#include "tests/db/rows_to_store.h"

namespace tune::db {
namespace {

constexpr char kOldSweeps[] = R"(
INSERT INTO kernel VALUES ('h', 'k', 's', 't');
INSERT INTO job VALUES (1, 1, 3, 1, '', 'k', 'cpu', '', 1, 0, 2, 0),
                       (2, 1, 4, 1, '', 'k', 'cpu', '', 1, 0, 2, 0),
                       (3, 1, 4, 1, '', 'k', 'cpu', '', 1, 0, 2, 0),
                       (4, 2, 3, 1, '', 'k', 'cpu', '', 1, 0, 2, 0);
INSERT INTO sweep (id, job_id, kernel_hash, dims, dtype, device_name, target, strategy,
                   budget_trials, budget_seconds, seed, cache_mode, fresh, tie_trial_ids, summary)
VALUES
  (1, 1, 'h', '{}', 'f32', 'cpu:x', 'cpu', 'random', 1, 0, 0, 1, 0, '[]',
   '{"result":{"ceiling":4.5e12},"end":"the budget of time was spent with 2 more under way"}'),
  (2, 2, 'h', '{}', 'f32', 'cpu:x', 'cpu', 'random', 1, 0, 0, 1, 0, '[]',
   '{"state":"SWEEP_STATE_INTERRUPTED","embedded":true}'),
  (3, 3, 'h', '{}', 'f32', 'cpu:x', 'cpu', 'random', 1, 0, 0, 1, 0, '[]', '{"end":');
INSERT INTO gate_run (id, job_id, kind, device_name, device_uuid, target, driver, compiler,
                      cache_mode, base_label, head_label, delta0, delta_max, alpha, screen_rounds,
                      guarded_deviation_max, clock_difference_max, seed)
VALUES (1, 4, 1, 'cpu:x', '', 'cpu', '', '', 1, '', '', 0.01, 0.05, 0.01, 5, 1, 1, 0);
)";

// Rows of the version before, in which a sweep's end and a config's source are text.
class MigrationTest : public StoreTest {
 protected:
  void Fill(const std::vector<std::string>& config_sources) {
    auto connection = Connection::Open(path(), Connection::Mode::kReadWriteCreate).value();
    ASSERT_TRUE(Migrate(*connection, path(), SchemaSteps().first(8)).ok());
    const absl::Status filled = connection->Execute(kOldSweeps);
    ASSERT_TRUE(filled.ok()) << filled;
    for (const std::string& source : config_sources) {
      const absl::Status added = connection->Execute(
          absl::StrCat("INSERT INTO gate_kernel (run_id, name, head_kernel_hash, dims, dtype, "
                       "base_config, head_config, config_source, recovery_config, tolerance, "
                       "base_code, head_code, identical, fault) VALUES (1, 'k', 'h', '{}', 'f32', "
                       "'{}', '{}', '",
                       source, "', '{}', -1, '', '', 0, '')")
              .c_str());
      ASSERT_TRUE(added.ok()) << added;
    }
  }
};

TEST_F(MigrationTest, SummariesNameWhySweepsEndedAndThatTheyWereInterrupted) {
  Fill({});
  Store& store = Reopen();
  EXPECT_EQ(store.GetSweep(1)->summary,
            R"({"result":{"ceiling":4.5e12},"end":"SWEEP_END_TIME",)"
            R"("endMessage":"the budget of time was spent with 2 more under way"})");
  EXPECT_EQ(store.GetSweep(2)->summary, R"({"embedded":true,"interrupted":true})");
  EXPECT_EQ(store.GetSweep(3)->summary, R"({"end":)") << "damaged, and left as it is";
}

TEST_F(MigrationTest, GatedConfigsSayWhereTheyComeFrom) {
  Fill({"default", "record 12 of the base", "record 7",
        "record 3 of another source of the kernel; the head cannot run it, so its default config "
        "stands in",
        ""});
  const std::vector<GateKernelRow> kernels = Reopen().GateKernels(1).value();
  const std::tuple<GateConfigSource, int64_t, bool> expected[] = {
      {GateConfigSource::kDefault, 0, false},
      {GateConfigSource::kRecord, 12, false},
      {GateConfigSource::kRecord, 7, false},
      {GateConfigSource::kOtherRecord, 3, true},
      {GateConfigSource::kNone, 0, false}};
  ASSERT_EQ(kernels.size(), std::size(expected));
  for (size_t i = 0; i < kernels.size(); ++i) {
    EXPECT_EQ(
        std::tuple(kernels[i].config_source, kernels[i].config_record_id, kernels[i].head_default),
        expected[i])
        << i;
  }
  auto connection = Connection::Open(path(), Connection::Mode::kReadWriteCreate).value();
  EXPECT_FALSE(connection->Execute("UPDATE gate_kernel SET name = 'x'").ok()) << "append-only";
}

}  // namespace
}  // namespace tune::db
