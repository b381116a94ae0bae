// SPDX-License-Identifier: Apache-2.0
#include "server/records/shape_grids.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace tune::server {
namespace {

lookup::RecordPtr RecordOf(int64_t id, const std::string& kernel, const std::string& hash,
                           int64_t n) {
  lookup::Record record{.id = id, .kernel_name = kernel};
  record.key.kernel_hash = hash;
  record.key.target = "sm_90a";
  record.key.device_name = "NVIDIA H200";
  record.key.problem = {.dims = {{"n", n}}, .dtype = DType::kF32};
  record.trial.config.entries = {{"BLOCK", int64_t{64}}};
  record.trial.measurement.latency_ns_median = 1000;
  return std::make_shared<const lookup::Record>(std::move(record));
}

lookup::KernelPolicy GridPolicy(const std::string& kernel, const std::string& hash) {
  return {.kernel_name = kernel, .kernel_hash = hash, .dims = {{"n", lookup::DimMatch::kNearest}}};
}

absl::StatusOr<std::vector<lookup::TimedConfig>> Nothing(const lookup::Record&, uint32_t) {
  return std::vector<lookup::TimedConfig>{};
}

ShapeGrids::Sources Sources() { return {.read = Nothing}; }

// Every record that speaks, by its number.
std::vector<int64_t> Speakers(const ShapeGrids& grids) {
  std::vector<int64_t> ids;
  for (const auto& grid : grids.All()) {
    for (const auto& record : grid->records) ids.push_back(record->id);
  }
  std::sort(ids.begin(), ids.end());
  return ids;
}

TEST(ShapeGridsTest, OneByOneTheyAreWhatAStartMakesOfThem) {
  const std::vector<lookup::KernelPolicy> policies = {GridPolicy("a", "1"), GridPolicy("b", "2")};
  std::vector<lookup::RecordPtr> records;
  std::shared_ptr<const ShapeGrids> grids = ShapeGrids::Build({}, policies, Sources());
  const int64_t count = static_cast<int64_t>(kGridRecordsMax) + 20;
  for (int64_t id = 1; id <= count; ++id) {
    // Few shapes a grid: its own bound is another matter.
    const std::string kernel = id % 2 == 0 ? "a" : "b";
    auto record = RecordOf(id, kernel, kernel == "a" ? "1" : "2", 16 + id % 40);
    auto of_dtype = std::make_shared<lookup::Record>(*record);
    of_dtype->key.target = absl::StrCat("sm_", id / 40);
    records.insert(records.begin(), of_dtype);
    grids = grids->With(of_dtype, policies, Sources());
  }
  EXPECT_EQ(Speakers(*grids).size(), kGridRecordsMax);
  EXPECT_EQ(Speakers(*grids), Speakers(*ShapeGrids::Build(records, policies, Sources())));
}

TEST(ShapeGridsTest, WhatAnOlderSourceWasTunedToIsForgotten) {
  const auto first = ShapeGrids::Build({RecordOf(1, "a", "old", 64), RecordOf(2, "b", "2", 64)},
                                       {GridPolicy("a", "old"), GridPolicy("b", "2")}, Sources());
  EXPECT_EQ(Speakers(*first), (std::vector<int64_t>{1, 2}));
  const auto second = first->With(RecordOf(3, "a", "new", 64),
                                  {GridPolicy("a", "new"), GridPolicy("b", "2")}, Sources());
  EXPECT_EQ(Speakers(*second), (std::vector<int64_t>{2, 3}));
}

// What a search found of a key whose winner is BLOCK 64.
absl::StatusOr<std::vector<lookup::TimedConfig>> Searched(const lookup::Record&, uint32_t limit) {
  EXPECT_EQ(limit, kGridConfigsRead + 1);
  const auto timed = [](int64_t block, double latency_ns, int64_t registers) {
    return lookup::TimedConfig{.config = {.entries = {{"BLOCK", block}}},
                               .latency_ns_median = latency_ns,
                               .registers = registers,
                               .static_shared_bytes = 2048,
                               .dynamic_shared_bytes = 4096};
  };
  return std::vector<lookup::TimedConfig>{timed(64, 1000, 64), timed(128, 1100, 128)};
}

// A block for each BLOCK elements.
std::shared_ptr<LaunchSizes> LaunchesOf(const lookup::Record& record) {
  Scope scope;
  for (const auto& [name, value] : record.key.problem.dims) scope.Set(name, value);
  const std::vector<LaunchText> steps = {
      {.grid = {"ceil_div(n, BLOCK)"}, .block = {"BLOCK"}, .shared_bytes = "65536"}};
  const std::vector<std::pair<std::string, std::string>> no_lets;
  return std::make_shared<LaunchSizes>(std::make_shared<LaunchForm>(no_lets, steps), scope);
}

TEST(ShapeGridsTest, AGridKnowsTheBlocksOfItsConfigs) {
  const auto grids = ShapeGrids::Build({RecordOf(2, "a", "1", 1024), RecordOf(1, "a", "1", 4096)},
                                       {GridPolicy("a", "1")}, {Searched, LaunchesOf});
  ASSERT_EQ(grids->All().size(), 1);
  const ShapeGrid& grid = grids->All()[0]->grid;
  EXPECT_EQ(grid.multiprocessors, 132);
  ASSERT_EQ(grid.shapes.size(), 2);
  EXPECT_EQ(grid.shapes[0].blocks, (std::vector<int64_t>{16, 8}));
  EXPECT_EQ(grid.shapes[1].blocks, (std::vector<int64_t>{64, 32}));
  // The launch takes more shared memory than the search was told: 228 / (64 + 2 + 1).
  EXPECT_EQ(grid.residents, (std::vector<int64_t>{3, 3}));
  EXPECT_FALSE(grid.shapes[0].has_more);
}

TEST(ShapeGridsTest, TheCpuDeviceHasNoWaves) {
  auto record = std::make_shared<lookup::Record>(*RecordOf(1, "a", "1", 64));
  record->key.target = "cpu";
  const auto grids = ShapeGrids::Build({record}, {GridPolicy("a", "1")}, {Searched, LaunchesOf});
  ASSERT_EQ(grids->All().size(), 1);
  EXPECT_EQ(grids->All()[0]->grid.multiprocessors, 0);
  EXPECT_TRUE(grids->All()[0]->grid.shapes[0].blocks.empty());
  EXPECT_TRUE(grids->All()[0]->grid.residents.empty());
}

}  // namespace
}  // namespace tune::server
