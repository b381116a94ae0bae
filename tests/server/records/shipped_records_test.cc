// SPDX-License-Identifier: Apache-2.0
#include "server/records/shipped_records.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <set>

#include "base/gzip.h"
#include "kernels/catalogue.h"
#include "lookup/index.h"
#include "lookup/shipped_files.h"
#include "server/records/record_book.h"
#include "server/records/shipped_sweeps.h"
#include "server/snapshots/snapshot_text.h"
#include "server/wire/spec.h"
#include "tuner/device_profile.h"
#include "tuner/kernel/kernel.h"
#include "tuner/kernel/launch_sizes_of.h"

namespace tune::server {
namespace {

using ::testing::HasSubstr;

// A file of one device, with these lines.
std::string FileOf(const std::string& records, const std::string& sweeps = "") {
  const auto list = [](const std::string& lines) {
    return lines.empty() ? "[]" : "[\n" + lines + "\n]";
  };
  return R"({"format":"tunectl snapshot","version":1,"number":0,"published_unix_ms":0,)"
         R"("record_count":1,)"
         "\n\"targets\":{},\n\"kernels\":[],\n\"records\":" +
         list(records) + ",\n\"grids\":[],\n\"sweeps\":" + list(sweeps) + "}\n";
}

const char kRecord[] =
    R"({"id":7,"kernel":"scale","hard":{"kernel_hash":"a1b2","target":"sm_90a",)"
    R"("device":"NVIDIA H200","dtype":"bf16","dims":{"n":4096},"cache_mode":"cold"},)"
    R"("soft":{"driver":"580","compiler":"NVRTC"},"config":{"BLOCK":128},"confidence":"tied",)"
    R"("latency_ns":{"median":4200.5,"low":4200,"high":4201},"default_latency_ns":5000,)"
    R"("published_unix_ms":1763856000000,"binary_sha256":"ab","artifact":"","evidence":"sha256:1",)"
    R"("measured":{"seed":9,"tie_count":1,"ties":[[{"BLOCK":64},4202]],)"
    R"("measurement":{"sample_count":30,"clock":"cupti"},"resources":{"registers":28},)"
    R"("telemetry":{"power_mw":500}}})";

auto Open(const std::string& text) { return ShippedRecords::Open({{"a file", Gzip(text)}}); }

std::vector<lookup::Record> RecordsOf(const std::string& line) {
  return Open(FileOf(line)).value()->All().value();
}

TEST(ShippedRecords, AreOfNoStoreHere) {
  const std::vector<lookup::Record> records = RecordsOf(kRecord);
  ASSERT_EQ(records.size(), 1u);
  const lookup::Record& record = records.front();
  EXPECT_TRUE(IsShipped(record));
  EXPECT_EQ(record.trial.id, 0);
  EXPECT_EQ(record.trial.sweep_id, 0);
  EXPECT_EQ(record.key.device_name, "NVIDIA H200");
  EXPECT_EQ(record.key.compiler, "NVRTC");
  EXPECT_EQ(ToText(record.key.problem), "n=4096 bf16");
  EXPECT_EQ(ToText(record.trial.config), "BLOCK=128");
  EXPECT_EQ(record.trial.measurement.latency_ns_median, 4200.5);
  EXPECT_EQ(record.trial.measurement.clock, Clock::kCupti);
  EXPECT_EQ(record.trial.measurement.sample_count, 30u);
  EXPECT_EQ(record.trial.resources.binary_sha256, "ab");
  EXPECT_EQ(record.trial.resources.registers, 28);
  EXPECT_EQ(record.trial.telemetry.power_mw, 500);
  EXPECT_EQ(record.default_latency_ns, 5000);
  EXPECT_EQ(record.seed, 9u);
  ASSERT_EQ(record.ties.size(), 1u);
  EXPECT_EQ(ToText(record.ties[0].config), "BLOCK=64");
}

TEST(ShippedRecords, OthersAreRefused) {
  for (const char* text : {"", "[]", "{\"records\": 3}"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(Open(text).status())) << text;
  }
  const std::string good = kRecord;
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string line = good;
    return line.replace(line.find(from), from.size(), to);
  };
  for (const std::string& line :
       {with(",\"measured\"", ",\"other\""), with("\"seed\":9,", ""), with("cupti", "sundial"),
        with("NVIDIA H200", ""), with("{\"BLOCK\":128}", "{}"), with("4201}", "4199}")}) {
    EXPECT_TRUE(absl::IsInvalidArgument(Open(FileOf(line)).status())) << line;
  }
}

TEST(ShippedRecords, LieUnderTheStoresOwn) {
  const std::vector<lookup::Record> shipped = RecordsOf(kRecord);
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

const char kSweep[] =
    R"({"kernel":"scale","kernel_hash":"a1b2","device":"NVIDIA H200","target":"sm_90a",)"
    R"("dims":{"n":4096},"dtype":"bf16","params":[["BLOCK",[64,128]],["KEEP",["no",true]]],)"
    R"("configs":["BA","AB"],"latency_tenths":[42005,7995],"registers":[32,24],)"
    R"("static_shared_bytes":[128],"dynamic_shared_bytes":[0,1024]})";

TEST(ShippedSweeps, AreFoundByTheirRecords) {
  const auto sweeps = ShippedSweeps::Parse({FileOf("", kSweep)});
  ASSERT_TRUE(sweeps.ok()) << sweeps.status();
  lookup::Record record = RecordsOf(kRecord).front();
  const ShippedSweeps::Sweep* sweep = (*sweeps)->Of(record).value();
  ASSERT_NE(sweep, nullptr);
  const std::vector<lookup::TimedConfig> configs = sweep->Configs(10);
  ASSERT_EQ(configs.size(), 2u);
  EXPECT_EQ(ToText(configs[0].config), "BLOCK=128 KEEP=no");
  EXPECT_EQ(configs[0].static_shared_bytes, 128);
  EXPECT_EQ(ToText(configs[1].config), "BLOCK=64 KEEP=True");
  EXPECT_EQ(configs[1].latency_ns_median, 5000);
  EXPECT_EQ(configs[1].static_shared_bytes, 0);
  EXPECT_EQ(configs[1].dynamic_shared_bytes, 1024);
  EXPECT_EQ(sweep->Configs(1).size(), 1u);
  record.key.kernel_hash = "of another source";
  EXPECT_EQ((*sweeps)->Of(record).value(), nullptr);
  record = RecordsOf(kRecord).front();
  record.id = 3;  // the store's own
  EXPECT_EQ((*sweeps)->Of(record).value(), nullptr);
}

TEST(ShippedSweeps, OthersAreRefused) {
  for (const char* text : {"", "{}", "[3]"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ShippedSweeps::Parse({text}).status())) << text;
  }
  const std::string good = kSweep;
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string line = good;
    return line.replace(line.find(from), from.size(), to);
  };
  for (const std::string& line :
       {with("\"BA\"", "\"CA\""), with("\"BA\"", "\"B\""), with("\"BA\",", ""), with("7995", "-1"),
        with("42005", "0"), with("[32,24]", "[32,24,7]"), with("\"bf16\"", "\"bf17\""),
        with("\"no\"", "null"), with("\"BA\"", "\"@A\"")}) {
    const auto sweeps = ShippedSweeps::Parse({FileOf("", line)}).value()->OfKernel("scale");
    EXPECT_TRUE(absl::IsInvalidArgument(sweeps.status())) << line;
  }
}

// The files that this build ships.
class ShippedFiles : public testing::Test {
 protected:
  void SetUp() override {
    shipped_ = ShippedRecords::Load(ShippedFolder()).value();
    sweeps_ = ShippedSweeps::Load(ShippedFolder()).value();
    records_ = shipped_->All().value();
    ASSERT_FALSE(records_.empty()) << "share/tunectl/records is not there";
    auto kernels = std::make_shared<Knowledge::Kernels>();
    const std::vector<CatalogueEntry> catalogue = LoadCatalogue().value();
    for (const CatalogueEntry& entry : catalogue) {
      (*kernels)[entry.name] = ReadKernel(entry.spec_name, entry.spec_text, entry.files).value();
      policies_.push_back(PolicyOf(entry.name, *kernels->at(entry.name), ""));
    }
    kernels_ = std::move(kernels);
  }

  // The grids of all records, from their sweeps or as the files have them.
  Knowledge KnowledgeWith(
      std::function<std::optional<ShapeGrid>(const ShippedRecords::GridKey&)> shipped_grid) {
    const auto read = [this](const lookup::Record& record, uint32_t limit) {
      const ShippedSweeps::Sweep* sweep = sweeps_->Of(record).value();
      return sweep != nullptr ? sweep->Configs(limit) : std::vector<lookup::TimedConfig>();
    };
    const auto launches = [this](const lookup::Record& record) {
      return std::make_shared<LaunchSizes>(
          LaunchSizesOf(*kernels_->at(record.kernel_name), record.key.problem, record.key.target));
    };
    Knowledge known{.index = lookup::Index::Build(records_, policies_), .kernels = kernels_};
    known.include_roots = std::make_shared<const IncludeRoots>();
    known.grids = ShapeGrids::Build(known.index->Records(), policies_,
                                    {read, launches, std::move(shipped_grid)});
    return known;
  }

  std::shared_ptr<const ShippedRecords> shipped_;
  std::shared_ptr<const ShippedSweeps> sweeps_;
  std::vector<lookup::Record> records_;
  std::shared_ptr<const Knowledge::Kernels> kernels_;
  std::vector<lookup::KernelPolicy> policies_;
};

TEST_F(ShippedFiles, SweepsAreOfRecordsThatShip) {
  std::set<const ShippedSweeps::Sweep*> found;
  for (const lookup::Record& record : records_) found.insert(sweeps_->Of(record).value());
  for (const std::string& kernel : sweeps_->kernel_names()) {
    for (const ShippedSweeps::Sweep& sweep : *sweeps_->OfKernel(kernel).value()) {
      EXPECT_TRUE(found.contains(&sweep)) << kernel << " " << ToText(sweep.key.problem);
    }
  }
}

// After a change of kernels or of what grids are made by: tools/renew_records --complete.
TEST_F(ShippedFiles, HaveTheGridsThatTheirSweepsMake) {
  int missing = 0;
  const Knowledge of_files = KnowledgeWith([&](const ShippedRecords::GridKey& key) {
    std::optional<ShapeGrid> grid = shipped_->GridOf(key);
    missing += !grid.has_value();
    return grid;
  });
  constexpr size_t kBytesMax = size_t{64} << 20;
  const std::string text = SnapshotText(of_files, kBytesMax).value();
  EXPECT_EQ(missing, 0);
  EXPECT_TRUE(text == SnapshotText(KnowledgeWith(nullptr), kBytesMax).value());
  // And the kernels: each file has the lines that a daemon writes.
  const auto files = lookup::ReadShippedFiles(ShippedFolder(), lookup::kRecordsFile).value();
  for (const lookup::ShippedFile& file : files) {
    const std::string text_of_file = file.Text().value();
    const size_t kernels = text_of_file.find(",\n\"kernels\":");
    const size_t records = text_of_file.find(",\n\"records\":");
    EXPECT_NE(text.find(text_of_file.substr(kernels, records - kernels)), text.npos) << file.path;
  }
}

TEST_F(ShippedFiles, AreOfTheCataloguesKernelsAndRun) {
  for (const lookup::Record& record : records_) {
    SCOPED_TRACE(record.kernel_name + " " + ToText(record.key.problem));
    const auto kernel = kernels_->find(record.kernel_name);
    ASSERT_NE(kernel, kernels_->end());
    const absl::StatusOr<TargetTraits> traits = TargetTraitsFor(record.key.target);
    ASSERT_TRUE(traits.ok()) << traits.status();
    EXPECT_TRUE(kernel->second->CheckConfig(record.key.problem, *traits, record.trial.config).ok())
        << ToText(record.trial.config);
    EXPECT_GT(record.trial.measurement.latency_ns_median, 0);
  }
}

}  // namespace
}  // namespace tune::server
