// SPDX-License-Identifier: Apache-2.0
// Gate runs in the store: written, read back whole, never changed.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "db/sqlite_connection.h"
#include "db/store.h"
#include "gmock/gmock.h"
#include "tests/db/rows_to_store.h"

namespace tune::db {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class GateStoreTest : public StoreTest {
 protected:
  void SetUp() override {
    Reopen();
    ASSERT_TRUE(store_->PutKernel(MakeKernelRow("old")).ok());
    ASSERT_TRUE(store_->PutKernel(MakeKernelRow("new")).ok());
  }

  GateRunRow MakeRun() const { return MakeRunIn(*store_); }
  static GateRunRow MakeRunIn(Store& store) {
    JobRow job{.kind = JobKind::kGate, .device_id = "cuda:0", .started_unix_ms = 1000};
    job.id = store.AddJob(job).value();
    return {.job = job,
            .device_name = "NVIDIA H200",
            .device_uuid = "GPU-1",
            .target = "sm_90a",
            .driver = "580",
            .compiler = "NVRTC 13.0",
            .base_label = "main",
            .head_label = "topic",
            .rules = {.delta0 = 0.02, .alpha = 0.005, .screen_rounds = 7},
            .seed = ~uint64_t{0}};
  }
  GateKernelRow MakeKernel(int64_t run_id) const {
    return {.run_id = run_id,
            .name = "softmax",
            .base_kernel_hash = "old",
            .head_kernel_hash = "new",
            .problem = {.dims = {{"rows", 8192}}, .dtype = DType::kBF16},
            .base_config = {.entries = {{"BLOCK", int64_t{64}}}},
            .head_config = {.entries = {{"BLOCK", int64_t{128}}}},
            .config_source = GateConfigSource::kRecord,
            .config_record_id = 3,
            .head_default = true,
            .base_code = "aa",
            .head_code = "bb"};
  }
  LegRow MakeLeg(int64_t kernel_id, gate::Revision revision, double ns) const {
    return {.job_id = 1,  // of the test's one run
            .gate_kernel_id = kernel_id,
            .purpose = LegPurpose::kConfirm,
            .round = 3,
            .leg = {.revision = revision,
                    .samples_ns = {ns, ns + 1, ns + 2},
                    .median_ns = ns + 1,
                    .clock = Clock::kCupti,
                    .telemetry = {.sm_clock_mhz = 1980,
                                  .power_mw = 650000,
                                  .throttle_reasons = 0x4,
                                  .compute_processes = 2}}};
  }
  // Returns the error for a change of stored rows; closes the store.
  std::string Tamper(const std::string& sql) {
    store_.reset();
    return RunSql(path(), sql);
  }
};

TEST_F(GateStoreTest, ARunReadsBackWhole) {
  GateRunRow added = MakeRun();
  const int64_t run_id = store_->AddGateRun(added).value();
  const int64_t kernel_id = store_->AddGateKernel(MakeKernel(run_id)).value();
  ASSERT_TRUE(store_
                  ->AppendGateLegs({MakeLeg(kernel_id, gate::Revision::kHead, 200),
                                    MakeLeg(kernel_id, gate::Revision::kBase, 100)})
                  .ok());
  gate::Judgement judgement{.verdict = gate::Verdict::kFail,
                            .reason = "why",
                            .ratio = 1.03,
                            .ratio_high = std::numeric_limits<double>::infinity(),
                            .rounds = 15,
                            .flagged = true,
                            .p = 3e-5};
  ASSERT_TRUE(store_->AddGateVerdicts({{kernel_id, judgement}}).ok());
  added.job.state = JobState::kDone;
  added.job.finished_unix_ms = 2000;
  ASSERT_TRUE(store_->UpdateJob(added.job).ok());
  Reopen();

  const GateRunRow run = store_->GetGateRun(run_id).value();
  EXPECT_EQ(run.job.state, JobState::kDone);
  EXPECT_EQ(run.job.finished_unix_ms, 2000);
  EXPECT_EQ(run.seed, ~uint64_t{0});
  EXPECT_EQ(run.device_uuid, "GPU-1");
  EXPECT_DOUBLE_EQ(run.rules.delta0, 0.02);
  EXPECT_DOUBLE_EQ(run.rules.alpha, 0.005);
  EXPECT_EQ(run.rules.screen_rounds, 7);

  const std::vector<GateKernelRow> kernels = store_->GateKernels(run_id).value();
  ASSERT_EQ(kernels.size(), 1);
  EXPECT_EQ(kernels[0].problem, MakeKernel(run_id).problem);
  EXPECT_EQ(kernels[0].head_config, MakeKernel(run_id).head_config);
  EXPECT_EQ(kernels[0].config_source, GateConfigSource::kRecord);
  EXPECT_EQ(kernels[0].config_record_id, 3);
  EXPECT_TRUE(kernels[0].head_default);
  EXPECT_LT(kernels[0].tolerance, 0);
  EXPECT_TRUE(kernels[0].recovery_config.entries.empty());
  EXPECT_EQ(store_->GateKernelsNamed("softmax")->size(), 1);
  EXPECT_TRUE(store_->GateKernelsNamed("rope")->empty());

  const std::vector<LegRow> legs = store_->GateLegs(kernel_id).value();
  ASSERT_EQ(legs.size(), 2);
  EXPECT_EQ(legs[0].leg.revision, gate::Revision::kHead);
  EXPECT_THAT(legs[1].leg.samples_ns, ElementsAre(100, 101, 102));
  EXPECT_EQ(legs[1].purpose, LegPurpose::kConfirm);
  EXPECT_EQ(legs[1].round, 3);
  EXPECT_EQ(legs[1].leg.telemetry.compute_processes, 2);
  EXPECT_EQ(legs[1].leg.telemetry.throttle_reasons, 0x4u);
  EXPECT_EQ(legs[1].leg.clock, Clock::kCupti);

  const std::vector<GateVerdictRow> verdicts = store_->GateVerdicts(run_id).value();
  ASSERT_EQ(verdicts.size(), 1);
  EXPECT_EQ(verdicts[0].judgement.verdict, gate::Verdict::kFail);
  EXPECT_DOUBLE_EQ(verdicts[0].judgement.ratio, 1.03);
  EXPECT_TRUE(std::isinf(verdicts[0].judgement.ratio_high));
  EXPECT_TRUE(verdicts[0].judgement.flagged);
}

TEST_F(GateStoreTest, NewestRunsFirst) {
  const int64_t first = store_->AddGateRun(MakeRun()).value();
  const int64_t second = store_->AddGateRun(MakeRun()).value();
  EXPECT_GT(second, first);
  const auto runs = store_->ListGateRuns(1).value();
  ASSERT_EQ(runs.size(), 1);
  EXPECT_EQ(runs[0].id, second);
  EXPECT_EQ(store_->ListGateRuns(10, second).value().at(0).id, first);
  EXPECT_TRUE(store_->ListGateRuns(10, first).value().empty());
  EXPECT_TRUE(absl::IsNotFound(store_->GetGateRun(99).status()));
}

TEST_F(GateStoreTest, EvidenceCannotBeChanged) {
  const int64_t run_id = store_->AddGateRun(MakeRun()).value();
  const int64_t kernel_id = store_->AddGateKernel(MakeKernel(run_id)).value();
  ASSERT_TRUE(store_->AppendGateLegs({MakeLeg(kernel_id, gate::Revision::kHead, 200)}).ok());
  ASSERT_TRUE(store_->AddGateVerdicts({{kernel_id, {}}}).ok());
  EXPECT_FALSE(store_->AddGateVerdicts({{kernel_id, {}}}).ok()) << "one verdict a kernel";
  for (const char* sql :
       {"UPDATE leg SET median_ns = 1", "DELETE FROM leg", "UPDATE gate_kernel SET name = 'x'",
        "DELETE FROM gate_verdict", "UPDATE gate_verdict SET verdict = 1", "DELETE FROM gate_run",
        "INSERT OR REPLACE INTO gate_verdict SELECT * FROM gate_verdict",
        "INSERT OR REPLACE INTO leg SELECT * FROM leg"}) {
    if (IsOfSqliteAlone(sql)) continue;
    EXPECT_THAT(Tamper(sql), HasSubstr("append-only")) << sql;
  }
}

TEST_F(GateStoreTest, ALegIsOfAGatesKernelOrOfAComparisonsAlone) {
  const int64_t run_id = store_->AddGateRun(MakeRun()).value();
  const int64_t kernel_id = store_->AddGateKernel(MakeKernel(run_id)).value();
  const LegRow leg = MakeLeg(kernel_id, gate::Revision::kHead, 200);
  LegRow both = leg;
  both.compared_id = 1;
  LegRow neither = leg;
  neither.gate_kernel_id = 0;
  LegRow wrong = leg;
  wrong.purpose = LegPurpose::kComparison;
  LegRow unknown = leg;
  unknown.gate_kernel_id = kernel_id + 1;
  for (const LegRow& refused : {both, neither, wrong, unknown}) {
    EXPECT_FALSE(store_->AppendGateLegs({leg, refused}).ok());
  }
  EXPECT_TRUE(store_->GateLegs(kernel_id)->empty()) << "all or none";
}

TEST_F(GateStoreTest, ABaselineKeepsTheNewestOfEachKernel) {
  ASSERT_TRUE(store_->SetBaseline({}, {{"released", "softmax", "old", "v1", 1}}).ok());
  ASSERT_TRUE(store_->SetBaseline({}, {{"released", "softmax", "new", "v2", 2}}).ok());
  ASSERT_TRUE(store_->SetBaseline({}, {{"nightly", "softmax", "old", "n", 3}}).ok());
  EXPECT_FALSE(store_->SetBaseline({}, {{"released", "rope", "no such kernel", "", 4}}).ok());
  const std::vector<BaselineRow> rows = store_->Baselines().value();
  ASSERT_EQ(rows.size(), 2);
  EXPECT_EQ(rows[0].name, "nightly");
  EXPECT_EQ(rows[1].kernel_hash, "new");
  EXPECT_EQ(rows[1].label, "v2");
}

TEST_F(GateStoreTest, ABaselineIsStoredWholeOrNotAtAll) {
  const KernelRow fresh{.hash = "fresh", .name = "gemm", .spec_name = "gemm.textproto"};
  const BaselineRow good{"released", "gemm", "fresh", "v1", 1};
  const BaselineRow bad{"released", "rope", "no such kernel", "v1", 1};
  EXPECT_FALSE(store_->SetBaseline({fresh}, {good, bad}).ok());
  EXPECT_TRUE(store_->Baselines()->empty());
  EXPECT_FALSE(store_->GetKernel("fresh").ok());
  EXPECT_TRUE(store_->SetBaseline({fresh}, {good}).ok());
  EXPECT_EQ(store_->Baselines()->size(), 1);
  EXPECT_TRUE(store_->GetKernel("fresh").ok());
}

TEST_F(GateStoreTest, BaselinesComeInPagesByNameAndKernel) {
  for (const char* name : {"b", "a"}) {
    for (const char* kernel : {"softmax", "rope"}) {
      ASSERT_TRUE(store_->SetBaseline({}, {{name, kernel, "old", "v1", 1}}).ok());
    }
  }
  std::string seen, name, kernel;
  for (int page = 0; page < 3; ++page) {
    const std::vector<BaselineRow> rows = store_->Baselines(2, name, kernel).value();
    ASSERT_EQ(rows.size(), page < 2 ? 2u : 0u);
    for (const BaselineRow& row : rows) {
      name = row.name;
      kernel = row.kernel_name;
      absl::StrAppend(&seen, name, " ", kernel, "; ");
    }
  }
  EXPECT_EQ(seen, "a rope; a softmax; b rope; b softmax; ");
}

}  // namespace
}  // namespace tune::db
