// SPDX-License-Identifier: Apache-2.0
#include "server/records/shipped_records.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "kernels/catalogue.h"
#include "server/records/lookup/index.h"
#include "server/records/record_convert.h"
#include "tuner/device_profile.h"
#include "tuner/kernel/kernel.h"

namespace tune::server {
namespace {

using ::testing::HasSubstr;

constexpr char kRecord[] = R"({"records": [{"id": 7, "sweep_id": 3, "trial_id": 9,
  "kernel_name": "scale", "kernel_hash": "a1b2", "device_name": "NVIDIA H200", "target": "sm_90a",
  "cache_mode": "CACHE_MODE_COLD",
  "problem": {"dims": [{"name": "n", "value": 4096}], "dtype": "bf16"},
  "config": {"entries": [{"param": "BLOCK", "value": {"integer": 128}}]},
  "measurement": {"sample_count": 30, "latency_ns_median": 4200.5, "clock": "CLOCK_CUPTI",
                  "cache_mode": "CACHE_MODE_COLD"},
  "published_unix_ms": 1763856000000}]})";

TEST(ShippedRecords, AreOfNoStoreHere) {
  const absl::StatusOr<std::vector<db::RecordRow>> records = ParseShippedRecords(kRecord);
  ASSERT_TRUE(records.ok()) << records.status();
  ASSERT_EQ(records->size(), 1u);
  const db::RecordRow& record = records->front();
  EXPECT_TRUE(IsShipped(record));
  EXPECT_EQ(record.trial.id, 0);
  EXPECT_EQ(record.trial.sweep_id, 0);
  EXPECT_EQ(record.key.device_name, "NVIDIA H200");
  EXPECT_EQ(ToText(record.key.problem), "n=4096 bf16");
  EXPECT_EQ(ToText(record.trial.config), "BLOCK=128");
  EXPECT_EQ(record.trial.measurement.latency_ns_median, 4200.5);
}

TEST(ShippedRecords, OthersAreRefused) {
  for (const char* text :
       {"", "[]", R"({"records": 3})", R"({"records": [{"kernel_name": "k"}]})"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ParseShippedRecords(text).status())) << text;
  }
}

TEST(ShippedRecords, LieUnderTheStoresOwn) {
  const std::vector<db::RecordRow> shipped = ParseShippedRecords(kRecord).value();
  std::vector<db::RecordRow> own = shipped;
  own[0].id = 12;
  own[0].key.driver = "another";  // may differ: it answers for the same
  EXPECT_EQ(WithShipped(shipped, own).size(), 1u);
  own[0].key.problem.dims = {{"n", 8192}};
  const std::vector<db::RecordRow> both = WithShipped(shipped, own);
  ASSERT_EQ(both.size(), 2u);
  const auto index = LookupIndex::Build(both, {{.kernel_name = "scale", .kernel_hash = "a1b2"}});
  LookupQuery query{.kernel_name = "scale",
                    .problem = shipped[0].key.problem,
                    .device_name = "NVIDIA H200",
                    .target = "sm_90a"};
  LookupAnswer answer = index->Lookup(query);
  EXPECT_EQ(answer.match, Match::kExact);
  EXPECT_THAT(answer.reason, HasSubstr("; a record that came with tunectl, of 2025-11-23"));
  query.problem.dims = {{"n", 8000}};
  answer = index->Lookup(query);
  EXPECT_EQ(answer.record->id, 12) << answer.reason;
  EXPECT_EQ(answer.reason.find("came with"), std::string::npos);
}

TEST(ShippedRecords, AreOfTheCataloguesKernelsAndRun) {
  const absl::StatusOr<std::vector<db::RecordRow>> records = LoadShippedRecords();
  ASSERT_TRUE(records.ok()) << records.status();
  std::map<std::string, std::shared_ptr<const Kernel>> kernels;
  const auto catalogue = LoadCatalogue();
  ASSERT_TRUE(catalogue.ok()) << catalogue.status();
  for (const CatalogueEntry& entry : *catalogue) {
    kernels[entry.name] = Kernel::Create(entry.spec_name, entry.spec_text, entry.files).value();
  }
  for (const db::RecordRow& record : *records) {
    SCOPED_TRACE(record.kernel_name + " " + ToText(record.key.problem));
    ASSERT_TRUE(kernels.contains(record.kernel_name));
    const absl::StatusOr<TargetTraits> traits = TargetTraitsFor(record.key.target);
    ASSERT_TRUE(traits.ok()) << traits.status();
    EXPECT_TRUE(kernels[record.kernel_name]
                    ->CheckConfig(record.key.problem, *traits, record.trial.config)
                    .ok())
        << ToText(record.trial.config);
    EXPECT_GT(record.trial.measurement.latency_ns_median, 0);
  }
}

}  // namespace
}  // namespace tune::server
