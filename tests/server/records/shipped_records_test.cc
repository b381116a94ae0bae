// SPDX-License-Identifier: Apache-2.0
#include "server/records/shipped_records.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "kernels/catalogue.h"
#include "lookup/index.h"
#include "server/records/record_convert.h"
#include "server/records/shipped_sweeps.h"
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
  const absl::StatusOr<std::vector<lookup::Record>> records = ParseShippedRecords(kRecord);
  ASSERT_TRUE(records.ok()) << records.status();
  ASSERT_EQ(records->size(), 1u);
  const lookup::Record& record = records->front();
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
  const std::vector<lookup::Record> shipped = ParseShippedRecords(kRecord).value();
  std::vector<lookup::Record> own = shipped;
  own[0].id = 12;
  own[0].key.driver = "another";  // may differ: it answers for the same
  EXPECT_EQ(WithShipped(shipped, own).size(), 1u);
  own[0].key.problem.dims = {{"n", 8192}};
  const std::vector<lookup::Record> both = WithShipped(shipped, own);
  ASSERT_EQ(both.size(), 2u);
  const auto index = lookup::Index::Build(both, {{.kernel_name = "scale", .kernel_hash = "a1b2"}});
  lookup::Query query{.kernel_name = "scale",
                      .problem = shipped[0].key.problem,
                      .device_name = "NVIDIA H200",
                      .target = "sm_90a"};
  lookup::Answer answer = index->Lookup(query);
  EXPECT_EQ(answer.match, lookup::Match::kExact);
  EXPECT_THAT(answer.reason, HasSubstr("; a record that came with tunectl, of 2025-11-23"));
  query.problem.dims = {{"n", 8000}};
  answer = index->Lookup(query);
  EXPECT_EQ(answer.record->id, 12) << answer.reason;
  EXPECT_EQ(answer.reason.find("came with"), std::string::npos);
}

constexpr char kSweep[] = R"({"sweeps": [
  {"kernel": "scale", "kernel_hash": "a1b2", "device": "NVIDIA H200", "target": "sm_90a",
   "dims": {"n": 4096}, "dtype": "bf16", "params": [["BLOCK", [64, 128]], ["KEEP", ["no", true]]],
   "configs": [[1, 0, 4200.5, 32, 128, 0], [0, 1, 5000, 24, 0, 1024]]}]})";

TEST(ShippedSweeps, AreFoundByTheirRecords) {
  const absl::StatusOr<ShippedSweeps> sweeps = ShippedSweeps::Parse({kSweep});
  ASSERT_TRUE(sweeps.ok()) << sweeps.status();
  lookup::Record record = ParseShippedRecords(kRecord).value().front();
  const ShippedSweeps::Sweep* sweep = sweeps->Of(record);
  ASSERT_NE(sweep, nullptr);
  const std::vector<lookup::TimedConfig> configs = sweep->Configs(10);
  ASSERT_EQ(configs.size(), 2u);
  EXPECT_EQ(ToText(configs[0].config), "BLOCK=128 KEEP=no");
  EXPECT_EQ(configs[0].static_shared_bytes, 128);
  EXPECT_EQ(ToText(configs[1].config), "BLOCK=64 KEEP=True");
  EXPECT_EQ(configs[1].latency_ns_median, 5000);
  EXPECT_EQ(sweep->Configs(1).size(), 1u);
  record.key.kernel_hash = "of another source";
  EXPECT_EQ(sweeps->Of(record), nullptr);
  record = ParseShippedRecords(kRecord).value().front();
  record.id = 3;  // the store's own
  EXPECT_EQ(sweeps->Of(record), nullptr);
}

TEST(ShippedSweeps, OthersAreRefused) {
  const std::string good = kSweep;
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    return text.replace(text.find(from), from.size(), to);
  };
  for (const std::string& text :
       {std::string(), std::string("{}"), std::string("[3]"), with("[0, 1,", "[0, 2,"),
        with("1024]", "1024, 7]"), with("5000", "4000"), with("4200.5", "0"),
        with("\"bf16\"", "\"bf17\""), with("\"no\"", "null"), with("[0, 1,", "[-1, 1,")}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ShippedSweeps::Parse({text}).status())) << text;
  }
}

// Each is of a record that ships, so that none lies there for nobody.
TEST(ShippedSweeps, AreOfRecordsThatShip) {
  const absl::StatusOr<ShippedSweeps> sweeps = ShippedSweeps::Load();
  ASSERT_TRUE(sweeps.ok()) << sweeps.status();
  std::set<const ShippedSweeps::Sweep*> found;
  const std::vector<lookup::Record> records = LoadShippedRecords().value();
  for (const lookup::Record& record : records) found.insert(sweeps->Of(record));
  for (const ShippedSweeps::Sweep& sweep : sweeps->sweeps()) {
    EXPECT_TRUE(found.contains(&sweep)) << sweep.kernel_name << " " << ToText(sweep.key.problem);
  }
}

TEST(ShippedRecords, AreOfTheCataloguesKernelsAndRun) {
  const absl::StatusOr<std::vector<lookup::Record>> records = LoadShippedRecords();
  ASSERT_TRUE(records.ok()) << records.status();
  std::map<std::string, std::shared_ptr<const Kernel>> kernels;
  const auto catalogue = LoadCatalogue();
  ASSERT_TRUE(catalogue.ok()) << catalogue.status();
  for (const CatalogueEntry& entry : *catalogue) {
    kernels[entry.name] = Kernel::Create(entry.spec_name, entry.spec_text, entry.files).value();
  }
  for (const lookup::Record& record : *records) {
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
