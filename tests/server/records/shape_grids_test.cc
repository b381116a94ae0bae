// SPDX-License-Identifier: Apache-2.0
#include "server/records/shape_grids.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace tune::server {
namespace {

LookupIndex::Record RecordOf(int64_t id, const std::string& kernel, const std::string& hash,
                             int64_t n) {
  db::RecordRow record{.id = id, .kernel_name = kernel};
  record.key.kernel_hash = hash;
  record.key.target = "sm_90a";
  record.key.device_name = "NVIDIA H200";
  record.key.problem = {.dims = {{"n", n}}, .dtype = DType::kF32};
  record.trial.config.entries = {{"BLOCK", int64_t{64}}};
  record.trial.measurement.latency_ns_median = 1000;
  return std::make_shared<const db::RecordRow>(std::move(record));
}

KernelPolicy PolicyOf(const std::string& kernel, const std::string& hash) {
  return {.kernel_name = kernel, .kernel_hash = hash, .dims = {{"n", DimMatch::kNearest}}};
}

absl::StatusOr<std::vector<db::TimedConfig>> Nothing(const db::TrialKey&, uint32_t) {
  return std::vector<db::TimedConfig>{};
}

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
  const std::vector<KernelPolicy> policies = {PolicyOf("a", "1"), PolicyOf("b", "2")};
  std::vector<LookupIndex::Record> records;
  std::shared_ptr<const ShapeGrids> grids = ShapeGrids::Build({}, policies, Nothing);
  const int64_t count = static_cast<int64_t>(kGridRecordsMax) + 20;
  for (int64_t id = 1; id <= count; ++id) {
    // Few shapes a grid: its own bound is another matter.
    const std::string kernel = id % 2 == 0 ? "a" : "b";
    auto record = RecordOf(id, kernel, kernel == "a" ? "1" : "2", 16 + id % 40);
    auto of_dtype = std::make_shared<db::RecordRow>(*record);
    of_dtype->key.target = absl::StrCat("sm_", id / 40);
    records.insert(records.begin(), of_dtype);
    grids = grids->With(of_dtype, policies, Nothing);
  }
  EXPECT_EQ(Speakers(*grids).size(), kGridRecordsMax);
  EXPECT_EQ(Speakers(*grids), Speakers(*ShapeGrids::Build(records, policies, Nothing)));
}

TEST(ShapeGridsTest, WhatAnOlderSourceWasTunedToIsForgotten) {
  const auto first = ShapeGrids::Build({RecordOf(1, "a", "old", 64), RecordOf(2, "b", "2", 64)},
                                       {PolicyOf("a", "old"), PolicyOf("b", "2")}, Nothing);
  EXPECT_EQ(Speakers(*first), (std::vector<int64_t>{1, 2}));
  const auto second = first->With(RecordOf(3, "a", "new", 64),
                                  {PolicyOf("a", "new"), PolicyOf("b", "2")}, Nothing);
  EXPECT_EQ(Speakers(*second), (std::vector<int64_t>{2, 3}));
}

}  // namespace
}  // namespace tune::server
