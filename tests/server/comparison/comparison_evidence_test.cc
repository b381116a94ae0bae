// SPDX-License-Identifier: Apache-2.0
#include "server/comparison/comparison_evidence.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "db/store.h"
#include "tests/server/temp_dir.h"

namespace tune::server {
namespace {

using testing::HasSubstr;

class ComparisonEvidenceTest : public testing::Test {
 protected:
  ComparisonEvidenceTest() {
    EXPECT_TRUE(store_->PutKernel({.hash = "k", .name = "scale", .spec_name = "s"}).ok());
    db::JobRow job{.kind = db::JobKind::kComparison, .device_id = "cpu"};
    job_ = job.id = store_->AddJob(job).value();
    id_ = store_->AddComparison({.job = job, .device_name = "cpu:test"}).value();
    compared_ = store_
                    ->AddCompared({.comparison_id = id_,
                                   .label = "scale",
                                   .kernel_hash = "k",
                                   .kernel_name = "scale",
                                   .problem = {.dims = {{"n", 4096}}, .dtype = DType::kF32}})
                    .value();
  }
  void AddTurns(int turns, size_t samples) {
    for (int round = 0; round < turns; ++round) {
      ASSERT_TRUE(
          store_
              ->AppendComparisonLegs({{.job_id = job_,
                                       .compared_id = compared_,
                                       .purpose = db::LegPurpose::kComparison,
                                       .round = round,
                                       .leg = {.revision = gate::Revision::kNone,
                                               .samples_ns = std::vector<double>(samples, 100.0),
                                               .median_ns = 100}}})
              .ok());
    }
  }

  TempDir dir_;
  std::unique_ptr<db::Store> store_ = db::Store::Open(dir_.path() + "/tune.db").value();
  int64_t job_ = 0;
  int64_t id_ = 0;
  int64_t compared_ = 0;
};

TEST_F(ComparisonEvidenceTest, SamplesComeOnlyIfAskedForAndAreBounded) {
  AddTurns(3, 10'000);
  const auto samples_in = [](const ComparisonEvidence& evidence) {
    return evidence.problems.at(0).at(0).legs.at(0).leg.samples_ns.size();
  };
  EXPECT_EQ(samples_in(LoadComparison(*store_, id_, Samples::kInclude, {}).value()), 10'000u);
  const ComparisonEvidence without = LoadComparison(*store_, id_, Samples::kOmit, {}).value();
  EXPECT_EQ(samples_in(without), 0u);
  EXPECT_EQ(without.problems[0][0].measurement.sample_count, 30'000u) << "they still count";
  AddTurns(400, 10'000);
  const absl::Status refused = LoadComparison(*store_, id_, Samples::kInclude, {}).status();
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("without its rounds"));
  EXPECT_TRUE(LoadComparison(*store_, id_, Samples::kOmit, {}).ok());
}

TEST_F(ComparisonEvidenceTest, NothingIsReadOnceNobodyWaits) {
  EXPECT_TRUE(absl::IsCancelled(
      LoadComparison(*store_, id_, Samples::kOmit, [] { return true; }).status()));
}

}  // namespace
}  // namespace tune::server
