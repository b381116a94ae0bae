// SPDX-License-Identifier: Apache-2.0
// The history that gate runs in a store leave behind.
#include "server/gate/gate_history.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "db/store.h"
#include "server/gate/gate_evidence.h"
#include "tests/server/temp_dir.h"

namespace tune::server {
namespace {

class GateHistoryTest : public testing::Test {
 protected:
  void SetUp() override {
    store_ = db::Store::Open(dir_.path() + "/tune.db").value();
    for (const char* hash : {"old", "new"}) PutKernel(hash, "n");
  }
  void PutKernel(const std::string& hash, const std::string& dim) {
    const std::string spec = absl::StrCat("name: \"scale\" source: \"", hash,
                                          ".cu\" entry: \"scale\" dims { name: \"", dim, "\" }");
    ASSERT_TRUE(
        store_->PutKernel({.hash = hash, .name = "scale", .spec_name = "s", .spec_text = spec})
            .ok());
  }
  // Five rounds, as a gate that screens a kernel has them.
  void AddGate(double base_us, double head_us, const std::string& base = "old",
               const std::string& head = "new") {
    db::JobRow job{.kind = db::JobKind::kGate, .device_id = "cuda:0"};
    job.id = store_->AddJob(job).value();
    const int64_t run_id = store_
                               ->AddGateRun({.job = job,
                                             .device_name = "a GPU",
                                             .base_label = "main",
                                             .head_label = absl::StrCat("topic ", ++runs_)})
                               .value();
    const int64_t kernel_id =
        store_
            ->AddGateKernel({.run_id = run_id,
                             .name = "scale",
                             .base_kernel_hash = base,
                             .head_kernel_hash = head,
                             .problem = {.dims = {{"n", 4096}}, .dtype = DType::kF32}})
            .value();
    std::normal_distribution<double> noise(1, 0.004);
    std::vector<db::LegRow> legs;
    for (int round = 0; round < 5; ++round) {
      for (const bool head : {false, true}) {
        const double ns = 1e3 * (head ? head_us : base_us) * noise(random_);
        const auto revision = head ? gate::Revision::kHead : gate::Revision::kBase;
        legs.push_back({.job_id = job.id,
                        .gate_kernel_id = kernel_id,
                        .round = round,
                        .leg = {.revision = revision, .samples_ns = {ns, ns, ns}}});
      }
    }
    ASSERT_TRUE(store_->AppendGateLegs(legs).ok());
  }
  v1::HistorySeries Series(bool heads) {
    v1::GetHistoryRequest request;
    request.set_kernel_name("scale");
    request.set_heads(heads);
    const v1::GetHistoryResponse response = History(request, *store_, {}).value();
    EXPECT_EQ(response.series_size(), 1);
    return response.series(0);
  }

  TempDir dir_;
  std::unique_ptr<db::Store> store_;
  int runs_ = 0;
  std::mt19937_64 random_{7};
};

TEST_F(GateHistoryTest, AnotherKernelOfTheNameHasASeriesOfItsOwn) {
  PutKernel("other", "cols");
  AddGate(653, 654);
  AddGate(9, 9, "other", "other");
  AddGate(653, 654);
  v1::GetHistoryRequest request;
  request.set_kernel_name("scale");
  request.set_heads(true);
  const v1::GetHistoryResponse response = History(request, *store_, {}).value();
  ASSERT_EQ(response.series_size(), 2);
  std::map<std::string, int> points;
  for (const v1::HistorySeries& series : response.series()) {
    points[series.kernel_hash()] = series.points_size();
    EXPECT_EQ(series.changes_size(), 0);
  }
  EXPECT_EQ(points, (std::map<std::string, int>{{"new", 4}, {"other", 2}}));
}

TEST_F(GateHistoryTest, ADataTypeMayBeSpeltAsInPyTorch) {
  AddGate(653, 654);
  for (const auto& [dtype, series] :
       std::map<std::string, int>{{"f32", 1}, {"float32", 1}, {"torch.float32", 1}, {"bf16", 0}}) {
    v1::GetHistoryRequest request;
    request.set_kernel_name("scale");
    request.set_heads(true);
    request.set_dtype(dtype);
    EXPECT_EQ(History(request, *store_, {}).value().series_size(), series) << dtype;
  }
}

TEST_F(GateHistoryTest, OneGateShowsThatItsHeadIsSlower) {
  AddGate(653, 736);
  const v1::HistorySeries series = Series(/*heads=*/true);
  ASSERT_EQ(series.points_size(), 2);
  ASSERT_EQ(series.changes_size(), 1);
  EXPECT_EQ(series.changes(0).index(), 1u);
  EXPECT_NEAR(series.changes(0).before_ns(), 653e3, 5e3);
  EXPECT_NEAR(series.changes(0).after_ns(), 736e3, 5e3);
  EXPECT_LT(series.changes(0).p(), 0.001);
}

TEST_F(GateHistoryTest, OfSeveralGatesEveryHeadIsJudgedByItsOwnRounds) {
  AddGate(653, 654);
  AddGate(653, 736);
  AddGate(652, 653);
  const v1::HistorySeries series = Series(/*heads=*/true);
  ASSERT_EQ(series.points_size(), 6);
  ASSERT_EQ(series.changes_size(), 1);
  EXPECT_EQ(series.changes(0).index(), 3u);
}

TEST_F(GateHistoryTest, BasesAloneTellNothingOfTheHead) {
  AddGate(653, 736);
  const v1::HistorySeries series = Series(/*heads=*/false);
  EXPECT_EQ(series.points_size(), 1);
  EXPECT_EQ(series.changes_size(), 0);
}

TEST_F(GateHistoryTest, NothingIsReadOnceNobodyWaits) {
  AddGate(100, 100);
  const Cancelled gone = [] { return true; };
  v1::GetHistoryRequest request;
  request.set_kernel_name("scale");
  EXPECT_TRUE(absl::IsCancelled(History(request, *store_, gone).status()));
  EXPECT_TRUE(absl::IsCancelled(LoadEvidence(*store_, 1, gone).status()));
  GateEvidence evidence = LoadEvidence(*store_, 1, {}).value();
  EXPECT_TRUE(absl::IsCancelled(Recompute(evidence, gone).status()));
}

}  // namespace
}  // namespace tune::server
