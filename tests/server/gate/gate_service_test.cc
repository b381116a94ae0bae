// SPDX-License-Identifier: Apache-2.0
// The gate as clients use it, on the CPU device with the real workers. Times of a shared host are
// noise, so what is asserted about them is what no noise can hide.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_replace.h"
#include "db/store.h"
#include "gmock/gmock.h"
#include "tests/server/test_server.h"
#include "tune/v1/gate.grpc.pb.h"

namespace tune::server {
namespace {

using testing::HasSubstr;

// The scale kernel; `work` repeats what it does, `text` goes into the source as it is.
v1::KernelSource Revision(int work, const std::string& text = "", bool wrong = false) {
  v1::KernelSource source = ScaleKernel();
  std::string& code = source.mutable_files()->at("scale.cu");
  const std::string repeated =
      "for (int k = 0; k < WORK; ++k) { volatile float* out = y; "
      "if (i < n) out[i] = (WRONG ? 2.0f : 3.0f) * x[i]; }";
  code =
      absl::StrReplaceAll(code, {{"if (i < n) y[i] = (FAULTY ? 2.0f : 3.0f) * x[i];", repeated}});
  code = absl::StrCat("#define WORK ", work, "\n#define WRONG ", wrong ? 1 : 0, "\n", text, "\n",
                      code);
  return source;
}

class GateServiceTest : public testing::Test {
 protected:
  void SetUp() override { StartServer(); }

  void StartServer(const std::string& worker_dir = TUNE_BIN_DIR,
                   absl::Duration run_deadline = absl::Seconds(10)) {
    server_.reset();
    absl::StatusOr<std::unique_ptr<Server>> server =
        Server::Start({.state_dir = dir_.path(),
                       .worker_dir = worker_dir,
                       .limits = {.compile_workers = 2},
                       .compile_deadline = absl::Minutes(5),
                       .run_deadline = run_deadline});
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    gates_ = v1::GateService::NewStub(server_->InProcessChannel());
    jobs_ = v1::JobService::NewStub(server_->InProcessChannel());
  }

  static v1::SubmitGateRequest Request(const v1::KernelSource& base, const v1::KernelSource& head) {
    v1::SubmitGateRequest request;
    v1::GateEntry* entry = request.add_entries();
    *entry->mutable_base() = base;
    *entry->mutable_head() = head;
    request.set_device("cpu");
    request.set_base_label("main");
    request.set_head_label("topic");
    request.set_cache_mode(v1::CACHE_MODE_WARM);
    request.set_leg_seconds(0.002);
    (*request.mutable_dims())["n"] = 65536;
    return request;
  }

  grpc::Status Run(const v1::SubmitGateRequest& request, v1::GateRun* run) {
    phases_.clear();
    v1::GetGateRequest get;
    get.set_with_rounds(true);
    const grpc::Status status =
        RunJob(*gates_, &v1::GateService::Stub::SubmitGate, request, *jobs_,
               [&](const v1::JobEvent& event) {
                 for (const auto& one : ResultsIn<v1::GateRun>(event)) get.set_run_id(one.id());
                 for (const auto& progress : ResultsIn<v1::GateProgress>(event)) {
                   phases_.push_back(progress.phase());
                 }
               });
    return status.ok() ? Call(*gates_, &v1::GateService::Stub::GetGate, get, run) : status;
  }
  v1::GateRun RunOk(const v1::SubmitGateRequest& request) {
    v1::GateRun run;
    const grpc::Status status = Run(request, &run);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return run;
  }

  const TempDir dir_;
  std::unique_ptr<Server> server_;
  std::unique_ptr<v1::GateService::Stub> gates_;
  std::unique_ptr<v1::JobService::Stub> jobs_;
  std::vector<v1::GatePhase> phases_;
};

TEST_F(GateServiceTest, TheSameCodeIsIdenticalAndNotTimed) {
  const v1::GateRun run = RunOk(Request(Revision(1), Revision(1, "// a comment")));
  ASSERT_EQ(run.kernels_size(), 1);
  EXPECT_EQ(run.kernels(0).verdict(), v1::GATE_VERDICT_IDENTICAL);
  EXPECT_EQ(run.kernels(0).base_code(), run.kernels(0).head_code());
  EXPECT_NE(run.kernels(0).base_kernel_hash(), run.kernels(0).head_kernel_hash());
  EXPECT_TRUE(run.kernels(0).round_results().empty());
}

TEST_F(GateServiceTest, FarMoreWorkFailsAndIsRecomputedTheSame) {
  // Tens of milliseconds against tens of microseconds: a busy host does not hide that.
  v1::SubmitGateRequest request = Request(Revision(1), Revision(20000));
  (*request.mutable_dims())["n"] = 4096;
  const v1::GateRun run = RunOk(request);
  ASSERT_EQ(run.kernels_size(), 1);
  const v1::GateKernel& kernel = run.kernels(0);
  ASSERT_EQ(kernel.verdict(), v1::GATE_VERDICT_FAIL) << kernel.DebugString();
  EXPECT_GT(kernel.ratio(), 1.5);
  EXPECT_GT(kernel.ratio_low(), 1.0);
  EXPECT_EQ(kernel.rounds(), 15);
  EXPECT_EQ(kernel.config_source(), v1::GATE_CONFIG_SOURCE_DEFAULT);
  EXPECT_GE(kernel.round_results_size(), 20);
  EXPECT_EQ(run.verdicts().at("FAIL"), 1);
  EXPECT_EQ(run.state(), v1::JOB_STATE_DONE);
  EXPECT_THAT(phases_, testing::Contains(v1::GATE_PHASE_CONFIRM));

  v1::RecomputeGateRequest again;
  again.set_run_id(run.id());
  v1::RecomputeGateResponse recomputed;
  ASSERT_TRUE(Call(*gates_, &v1::GateService::Stub::RecomputeGate, again, &recomputed).ok());
  EXPECT_TRUE(recomputed.differences().empty()) << recomputed.differences(0);
  EXPECT_EQ(recomputed.run().kernels(0).p(), kernel.p());

  v1::GetHistoryRequest history;
  history.set_kernel_name("scale");
  history.set_heads(true);
  v1::GetHistoryResponse found;
  ASSERT_TRUE(Call(*gates_, &v1::GateService::Stub::GetHistory, history, &found).ok());
  ASSERT_EQ(found.series_size(), 1);
  ASSERT_EQ(found.series(0).points_size(), 2);
  EXPECT_EQ(found.series(0).points(0).label(), "main");
  EXPECT_EQ(found.series(0).points(1).label(), "topic");
  EXPECT_NEAR(found.series(0).points(1).latency_ns() / found.series(0).points(0).latency_ns(),
              kernel.head_ns() / kernel.base_ns(), 1e-6);
}

TEST_F(GateServiceTest, WhatCannotBeMeasuredIsInvalidAndTheRestGoesOn) {
  v1::SubmitGateRequest request = Request(Revision(1), Revision(2, "", /*wrong=*/true));
  v1::GateEntry* broken = request.add_entries();
  *broken->mutable_base() = Revision(1);
  *broken->mutable_head() = Revision(1, "#error this revision is broken");
  v1::GateEntry* same = request.add_entries();
  *same->mutable_base() = *same->mutable_head() = Revision(1);
  const v1::GateRun run = RunOk(request);
  ASSERT_EQ(run.kernels_size(), 3);
  EXPECT_EQ(run.kernels(0).verdict(), v1::GATE_VERDICT_INVALID);
  EXPECT_THAT(run.kernels(0).reason(), HasSubstr("head: wrong_result"));
  EXPECT_EQ(run.kernels(1).verdict(), v1::GATE_VERDICT_INVALID);
  EXPECT_THAT(run.kernels(1).reason(), HasSubstr("this revision is broken"));
  EXPECT_EQ(run.kernels(2).verdict(), v1::GATE_VERDICT_IDENTICAL);

  v1::RecomputeGateRequest again;
  again.set_run_id(run.id());
  v1::RecomputeGateResponse recomputed;
  ASSERT_TRUE(Call(*gates_, &v1::GateService::Stub::RecomputeGate, again, &recomputed).ok());
  EXPECT_TRUE(recomputed.differences().empty()) << recomputed.differences(0);
}

// The workers' folder, with a device worker that adds a line to `log` when it starts.
std::string WorkersThatAreCounted(const std::string& dir, const std::string& log) {
  namespace fs = std::filesystem;
  const fs::path workers = fs::path(dir) / "workers";
  fs::create_directories(workers);
  for (const auto& entry : fs::directory_iterator(TUNE_BIN_DIR)) {
    fs::create_symlink(entry.path(), workers / entry.path().filename());
  }
  const fs::path counted = workers / "tune-device-cpu";
  fs::remove(counted);
  std::ofstream(counted) << "#!/bin/sh\necho started >>" << log << "\nexec " << TUNE_BIN_DIR
                         << "/tune-device-cpu \"$@\"\n";
  fs::permissions(counted, fs::perms::owner_all);
  return workers.string();
}

int LinesOf(const std::string& path) {
  std::ifstream in(path);
  int lines = 0;
  for (std::string line; std::getline(in, line);) ++lines;
  return lines;
}

// Launches of one process, and all of one side before all of the other: the gate's statistics are
// right about neither, so the measuring must not do it.
TEST_F(GateServiceTest, EveryRoundIsTwoFreshProcessesThatAlternate) {
  constexpr int kRounds = 6;
  const std::string log = dir_.path() + "/starts";
  StartServer(WorkersThatAreCounted(dir_.path(), log));
  v1::SubmitGateRequest request = Request(Revision(1), Revision(2));
  request.set_kind(v1::GATE_KIND_STUDY);
  request.set_seed(1);
  request.mutable_rules()->set_screen_rounds(kRounds);
  const v1::GateRun run = RunOk(request);
  EXPECT_EQ(LinesOf(log), 1 + 2 * kRounds) << "the probe's, and two a round";

  server_.reset();
  absl::StatusOr<std::unique_ptr<db::Store>> store = db::Store::Open(dir_.path() + "/tune.db");
  ASSERT_TRUE(store.ok()) << store.status();
  const auto kernels = (*store)->GateKernels(run.id());
  ASSERT_TRUE(kernels.ok() && kernels->size() == 1);
  const auto legs = (*store)->GateLegs(kernels->front().id);
  ASSERT_TRUE(legs.ok()) << legs.status();
  std::map<int, std::string> rounds;
  for (const db::LegRow& row : *legs) {
    rounds[row.round] += row.leg.revision == gate::Revision::kBase ? 'A' : 'B';
  }
  std::map<std::string, int> orders;
  for (const auto& [round, order] : rounds) ++orders[order];
  EXPECT_THAT(orders, testing::UnorderedElementsAre(testing::Key("ABBA"), testing::Key("BAAB")));
  EXPECT_EQ(rounds.size(), size_t{kRounds});
}

TEST_F(GateServiceTest, AKernelThatHangsIsInvalid) {
  StartServer(TUNE_BIN_DIR, /*run_deadline=*/absl::Milliseconds(500));
  v1::KernelSource hanging = Revision(2);
  std::string& code = hanging.mutable_files()->at("scale.cu");
  code = absl::StrReplaceAll(code, {{"k < WORK; ++k", "k >= 0; k ^= 1"}});
  const v1::GateRun run = RunOk(Request(Revision(1), hanging));
  ASSERT_EQ(run.kernels_size(), 1);
  EXPECT_EQ(run.kernels(0).verdict(), v1::GATE_VERDICT_INVALID);
  EXPECT_THAT(run.kernels(0).reason(), HasSubstr("head: timed_out"));
}

TEST_F(GateServiceTest, AStudyIsResampled) {
  v1::SubmitGateRequest request = Request(Revision(1), Revision(1));
  request.set_kind(v1::GATE_KIND_STUDY);
  request.mutable_rules()->set_screen_rounds(8);
  const v1::GateRun run = RunOk(request);
  EXPECT_EQ(run.kernels(0).rounds(), 8);
  EXPECT_TRUE(run.verdicts().empty());

  v1::ResampleGateRequest resample;
  resample.add_run_ids(run.id());
  resample.set_runs(200);
  v1::ResampleGateResponse drawn;
  ASSERT_TRUE(Call(*gates_, &v1::GateService::Stub::ResampleGate, resample, &drawn).ok());
  EXPECT_EQ(drawn.runs(), 200);
  EXPECT_EQ(drawn.rounds(), 8);
  EXPECT_GT(drawn.failed_bound(), 0);

  resample.add_run_ids(run.id());
  const grpc::Status twice = Call(*gates_, &v1::GateService::Stub::ResampleGate, resample, &drawn);
  EXPECT_EQ(twice.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(twice.error_message(), HasSubstr("given twice"));
  resample.mutable_run_ids()->RemoveLast();

  resample.set_run_ids(0, 99);
  EXPECT_EQ(Call(*gates_, &v1::GateService::Stub::ResampleGate, resample, &drawn).error_code(),
            grpc::StatusCode::NOT_FOUND);
}

TEST_F(GateServiceTest, AHeadTimedForTheHistoryIsAPointOfIt) {
  v1::SubmitGateRequest request = Request(Revision(1), Revision(1));
  request.set_kind(v1::GATE_KIND_HISTORY);
  request.mutable_entries(0)->clear_base();
  request.mutable_rules()->set_screen_rounds(2);
  RunOk(request);
  v1::GetHistoryRequest history;
  history.set_kernel_name("scale");
  v1::GetHistoryResponse found;
  ASSERT_TRUE(Call(*gates_, &v1::GateService::Stub::GetHistory, history, &found).ok());
  ASSERT_EQ(found.series_size(), 1);
  ASSERT_EQ(found.series(0).points_size(), 1);
  EXPECT_EQ(found.series(0).points(0).rounds(), 2);
  EXPECT_GT(found.series(0).points(0).latency_ns(), 0);
}

TEST_F(GateServiceTest, ABaselineStandsInForTheBase) {
  v1::SetBaselineRequest set;
  set.set_name("released");
  *set.add_kernels() = Revision(1);
  v1::SetBaselineResponse stored;
  ASSERT_TRUE(Call(*gates_, &v1::GateService::Stub::SetBaseline, set, &stored).ok());
  v1::SubmitGateRequest request = Request(Revision(1), Revision(1, "// later"));
  request.mutable_entries(0)->clear_base();
  request.set_baseline("released");
  EXPECT_EQ(RunOk(request).kernels(0).verdict(), v1::GATE_VERDICT_IDENTICAL);
  request.set_baseline("no such");
  v1::GateRun run;
  EXPECT_EQ(Run(request, &run).error_code(), grpc::StatusCode::NOT_FOUND);

  set.set_name("nightly");
  ASSERT_TRUE(Call(*gates_, &v1::GateService::Stub::SetBaseline, set, &stored).ok());
  v1::ListBaselinesRequest list;
  list.set_limit(1);
  for (const char* name : {"nightly", "released", ""}) {
    v1::ListBaselinesResponse page;
    ASSERT_TRUE(Call(*gates_, &v1::GateService::Stub::ListBaselines, list, &page).ok());
    EXPECT_EQ(page.kernels_size() == 0 ? "" : page.kernels(0).baseline(), name);
    EXPECT_EQ(page.next_page_token().empty(), *name == '\0');
    list.set_page_token(page.next_page_token());
  }
  v1::ListBaselinesResponse page;
  list.set_page_token("third");
  EXPECT_EQ(Call(*gates_, &v1::GateService::Stub::ListBaselines, list, &page).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);

  set.set_name("../up\n");
  EXPECT_EQ(Call(*gates_, &v1::GateService::Stub::SetBaseline, set, &stored).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(GateServiceTest, ABaselineWithAWrongKernelIsNotStored) {
  v1::SetBaselineRequest set;
  set.set_name("halfway");
  *set.add_kernels() = Revision(1);
  set.add_kernels()->set_spec_text("name: ");
  v1::SetBaselineResponse stored;
  EXPECT_EQ(Call(*gates_, &v1::GateService::Stub::SetBaseline, set, &stored).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
  v1::ListBaselinesResponse page;
  ASSERT_TRUE(
      Call(*gates_, &v1::GateService::Stub::ListBaselines, v1::ListBaselinesRequest(), &page).ok());
  for (const v1::BaselineKernel& kernel : page.kernels()) EXPECT_NE(kernel.baseline(), "halfway");
}

TEST_F(GateServiceTest, WrongRequestsAreRefused) {
  const v1::SubmitGateRequest good = Request(Revision(1), Revision(1));
  std::vector<v1::SubmitGateRequest> wrong(7, good);
  wrong[0].clear_entries();
  (*wrong[1].mutable_dims())["rows"] = 3;
  wrong[2].mutable_rules()->set_alpha(-1);
  wrong[3].mutable_rules()->set_delta0(0.2);  // above delta_max
  wrong[4].mutable_entries(0)->mutable_head()->set_spec_text("name: ");
  wrong[5].set_leg_seconds(1e9);
  wrong[6].set_head_label(std::string(1000, 'x'));
  for (const v1::SubmitGateRequest& request : wrong) {
    v1::GateRun run;
    const grpc::Status status = Run(request, &run);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << status.error_message();
    EXPECT_FALSE(status.error_message().empty());
  }
}

// What is wrong with the last one shows that all were read.
TEST_F(GateServiceTest, AThousandKernelsAreOneRequestOf24MiBAtMost) {
  const auto send = [&](int kernels, size_t bytes_each) {
    v1::SubmitGateRequest request;
    request.set_device("cpu");
    for (int i = 0; i < kernels; ++i) {
      v1::GateEntry* entry = request.add_entries();
      for (v1::KernelSource* side : {entry->mutable_base(), entry->mutable_head()}) {
        *side = Revision(1, absl::StrCat("// ", std::string(bytes_each, '.')));
        side->set_spec_text(absl::StrReplaceAll(
            side->spec_text(), {{"name: \"scale\"", absl::StrCat("name: \"scale_", i, "\"")}}));
      }
      if (i == kernels - 1) entry->mutable_head()->set_spec_name("last.textproto");
      if (i == kernels - 1) entry->mutable_head()->set_spec_text("nonsense");
    }
    v1::Job job;
    const grpc::Status status = Call(*gates_, &v1::GateService::Stub::SubmitGate, request, &job);
    return std::pair(request.ByteSizeLong(), status);
  };
  const auto [bytes, refused] = send(1000, 2000);
  EXPECT_GT(bytes, 4u << 20);
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(refused.error_message(), HasSubstr("last.textproto"));

  const auto [too_many, limited] = send(1000, 20000);
  EXPECT_GT(too_many, 24u << 20);
  EXPECT_EQ(limited.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(send(1001, 10).second.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(GateServiceTest, ACancelledRunFreesTheDeviceAndKeepsWhatItMeasured) {
  {
    v1::SubmitGateRequest request = Request(Revision(1), Revision(2));
    request.set_kind(v1::GATE_KIND_STUDY);
    request.mutable_rules()->set_screen_rounds(1000);
    v1::Job job;
    ASSERT_TRUE(Call(*gates_, &v1::GateService::Stub::SubmitGate, request, &job).ok());
    FollowJob(*jobs_, job.id(), [&](const v1::JobEvent& event) {
      for (const auto& progress : ResultsIn<v1::GateProgress>(event)) {
        if (progress.rounds_done() >= 2) return false;
      }
      return true;
    });
    ASSERT_TRUE(CancelJob(*jobs_, job.id()).ok()) << "it goes on without its client";
  }
  const v1::GateRun next = RunOk(Request(Revision(1), Revision(1)));
  EXPECT_EQ(next.kernels(0).verdict(), v1::GATE_VERDICT_IDENTICAL);
  v1::ListGatesResponse list;
  ASSERT_TRUE(Call(*gates_, &v1::GateService::Stub::ListGates, v1::ListGatesRequest(), &list).ok());
  ASSERT_EQ(list.runs_size(), 2);
  EXPECT_EQ(list.runs(1).state(), v1::JOB_STATE_CANCELLED);
  v1::RecomputeGateRequest again;
  again.set_run_id(list.runs(1).id());
  v1::RecomputeGateResponse recomputed;
  EXPECT_EQ(Call(*gates_, &v1::GateService::Stub::RecomputeGate, again, &recomputed).error_code(),
            grpc::StatusCode::FAILED_PRECONDITION);
}

}  // namespace
}  // namespace tune::server
