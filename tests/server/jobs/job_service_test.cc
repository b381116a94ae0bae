// SPDX-License-Identifier: Apache-2.0
// Jobs of all kinds, seen and ended through the one service, on the CPU device.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "db/store.h"
#include "server/server.h"
#include "server/state/paths.h"
#include "tests/server/test_server.h"
#include "tune/v1/bench.grpc.pb.h"
#include "tune/v1/job.grpc.pb.h"

namespace tune::server {
namespace {

using testing::HasSubstr;

class JobServiceTest : public testing::Test {
 protected:
  JobServiceTest() { (void)StartLog("error", LogFormat::kText); }

  void Start() {
    server_ = Server::Start({.state_dir = dir_.path() + "/state",
                             .addresses = {"unix:" + dir_.path() + "/d.sock"},
                             .worker_dir = TUNE_BIN_DIR})
                  .value();
    const auto channel =
        grpc::CreateChannel(server_->addresses().front(), grpc::InsecureChannelCredentials());
    stubs_ = std::make_unique<Stubs>(channel);
    jobs_ = v1::JobService::NewStub(channel);
  }
  // Long enough to be found at work.
  v1::Sweep SubmitSweep(v1::JobPriority priority = v1::JOB_PRIORITY_INTERACTIVE) {
    v1::SubmitSweepRequest request;
    *request.mutable_kernel_source() = ScaleKernel({.items = "range(1, 65)"});
    request.set_device("cpu");
    request.set_strategy("random");
    request.mutable_budget()->set_seconds(300);
    request.set_priority(priority);
    v1::Sweep sweep;
    const grpc::Status status =
        Call(*stubs_->sweeps, &v1::SweepService::Stub::SubmitSweep, request, &sweep);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return sweep;
  }
  std::vector<v1::Job> List(v1::JobKind kind = v1::JOB_KIND_UNSPECIFIED) {
    v1::ListJobsRequest request;
    request.set_kind(kind);
    v1::ListJobsResponse response;
    const grpc::Status status = Call(*jobs_, &v1::JobService::Stub::ListJobs, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return {response.jobs().begin(), response.jobs().end()};
  }
  grpc::Status Cancel(int64_t id, v1::Job* job) {
    v1::CancelJobRequest request;
    request.set_job_id(id);
    return Call(*jobs_, &v1::JobService::Stub::CancelJob, request, job);
  }
  // Until `enough` says so, or the end.
  template <typename Enough>
  v1::Job WatchUntil(int64_t id, const Enough& enough, grpc::Status* status = nullptr) {
    v1::Job job;
    const grpc::Status ended = FollowJob(*jobs_, id, [&](const v1::JobEvent& event) {
      job = event.job();
      return !enough(job);
    });
    if (status != nullptr) *status = ended;
    return job;
  }
  static bool Never(const v1::Job&) { return false; }
  static bool Runs(const v1::Job& job) { return job.state() == v1::JOB_STATE_RUNNING; }

  TempDir dir_;
  std::unique_ptr<Server> server_;
  std::unique_ptr<Stubs> stubs_;
  std::unique_ptr<v1::JobService::Stub> jobs_;
};

TEST_F(JobServiceTest, AJobIsListedWatchedAndCancelled) {
  Start();
  const v1::Sweep sweep = SubmitSweep();
  const std::vector<v1::Job> listed = List(v1::JOB_KIND_SWEEP);
  ASSERT_EQ(listed.size(), 1u);
  const int64_t id = listed[0].id();
  EXPECT_THAT(listed[0].subject(), HasSubstr("scale"));
  EXPECT_FALSE(listed[0].owner().empty());
  EXPECT_TRUE(List(v1::JOB_KIND_GATE).empty());

  const v1::Job running = WatchUntil(id, Runs);
  EXPECT_EQ(running.state(), v1::JOB_STATE_RUNNING) << running.DebugString();
  v1::Job cancelled;
  const grpc::Status status = Cancel(id, &cancelled);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(cancelled.state(), v1::JOB_STATE_CANCELLED);

  const v1::Job last = WatchUntil(id, Never);
  EXPECT_EQ(last.state(), v1::JOB_STATE_CANCELLED) << "a finished job is told and ends the call";
  ASSERT_TRUE(Cancel(id, &cancelled).ok()) << "cancelling twice is no error";
}

TEST_F(JobServiceTest, ASweepInTheBackgroundYieldsToAnInteractiveOne) {
  Start();
  SubmitSweep(v1::JOB_PRIORITY_BACKGROUND);
  const int64_t background = List()[0].id();
  WatchUntil(background, Runs);
  SubmitSweep();
  const int64_t interactive = List()[0].id();
  EXPECT_EQ(WatchUntil(interactive, Runs).state(), v1::JOB_STATE_RUNNING);
  v1::Job job;
  ASSERT_TRUE(Cancel(background, &job).ok()) << "while it waits for its next turn";
  EXPECT_EQ(job.state(), v1::JOB_STATE_CANCELLED);
  ASSERT_TRUE(Cancel(interactive, &job).ok());
}

TEST_F(JobServiceTest, WhatNobodyKnowsIsNotFound) {
  Start();
  v1::Job job;
  const grpc::Status cancelled = Cancel(77, &job);
  EXPECT_EQ(cancelled.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_THAT(cancelled.error_message(), HasSubstr("tunectl job list"));
  grpc::Status watched;
  WatchUntil(77, Never, &watched);
  EXPECT_EQ(watched.error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST_F(JobServiceTest, WhatAnEarlierProcessLeftIsEnded) {
  ASSERT_TRUE(MakePrivateDir(dir_.path() + "/state").ok());
  {
    const auto store = db::Store::Open(dir_.path() + "/state/tune.db").value();
    db::JobRow row{.kind = db::JobKind::kBench, .device_id = "cpu", .created_unix_ms = 1};
    ASSERT_TRUE(store->AddJob(row).ok());
    row.state = db::JobState::kRunning;
    row.started_unix_ms = 2;
    row.id = store->AddJob(row).value();
  }
  Start();
  const std::vector<v1::Job> left = List();
  ASSERT_EQ(left.size(), 2u);
  for (const v1::Job& job : left) EXPECT_EQ(job.state(), v1::JOB_STATE_FAILED);
  EXPECT_EQ(left[0].message(), "the process that ran it ended before it was done");
  EXPECT_EQ(left[1].message(), "the daemon stopped before it started");
}

TEST_F(JobServiceTest, AnUnknownLimitOrKindIsRefusedAndResultsAreGivenIfAskedFor) {
  Start();
  const v1::Sweep sweep = SubmitSweep();
  v1::ListJobsRequest request;
  v1::ListJobsResponse response;
  request.set_limit(5000);
  EXPECT_EQ(Call(*jobs_, &v1::JobService::Stub::ListJobs, request, &response).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
  request.set_limit(1);
  ASSERT_TRUE(Call(*jobs_, &v1::JobService::Stub::ListJobs, request, &response).ok());
  EXPECT_TRUE(response.jobs(0).results().empty());
  request.set_with_results(true);
  ASSERT_TRUE(Call(*jobs_, &v1::JobService::Stub::ListJobs, request, &response).ok());
  ASSERT_EQ(response.jobs_size(), 1);
  v1::Sweep found;
  ASSERT_TRUE(response.jobs(0).results(0).UnpackTo(&found));
  EXPECT_EQ(found.id(), sweep.id());
  ASSERT_TRUE(CancelJob(*jobs_, sweep.job_id()).ok());
}

TEST_F(JobServiceTest, AListGoesOnWhereAPageEnds) {
  ASSERT_TRUE(MakePrivateDir(dir_.path() + "/state").ok());
  {
    const auto store = db::Store::Open(dir_.path() + "/state/tune.db").value();
    for (int i = 0; i < 5; ++i) {
      ASSERT_TRUE(store->AddJob({.kind = db::JobKind::kBench, .state = db::JobState::kDone}).ok());
    }
  }
  Start();
  v1::ListJobsRequest request;
  request.set_limit(2);
  std::vector<int64_t> ids;
  for (int page = 0; page < 4; ++page) {
    v1::ListJobsResponse response;
    ASSERT_TRUE(Call(*jobs_, &v1::JobService::Stub::ListJobs, request, &response).ok());
    for (const v1::Job& job : response.jobs()) ids.push_back(job.id());
    EXPECT_EQ(response.next_page_token().empty(), page == 3);
    request.set_page_token(response.next_page_token());
  }
  EXPECT_THAT(ids, testing::ElementsAre(5, 4, 3, 2, 1));
  request.set_page_token("third");
  v1::ListJobsResponse response;
  EXPECT_EQ(Call(*jobs_, &v1::JobService::Stub::ListJobs, request, &response).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
}

class BenchJobTest : public JobServiceTest {
 protected:
  void SetUp() override {
    Start();
    Connect();
  }
  void Connect() {
    bench_ = v1::BenchService::NewStub(
        grpc::CreateChannel(server_->addresses().front(), grpc::InsecureChannelCredentials()));
  }
  int64_t SubmitBench() {
    v1::SubmitBenchRequest request;
    *request.mutable_kernel_source() = ScaleKernel();
    request.set_device("cpu");
    request.set_samples(5);
    v1::Job job;
    const grpc::Status status = Call(*bench_, &v1::BenchService::Stub::SubmitBench, request, &job);
    EXPECT_TRUE(status.ok()) << status.error_message();
    EXPECT_EQ(job.kind(), v1::JOB_KIND_BENCH);
    return job.id();
  }
  // Of a job, followed to its end.
  v1::BenchResult ResultOf(int64_t id) {
    v1::BenchResult result;
    v1::Job last;
    const grpc::Status status = FollowJob(*jobs_, id, [&](const v1::JobEvent& event) {
      for (const auto& one : ResultsIn<v1::BenchResult>(event)) result = one;
      last = event.job();
      return true;
    });
    EXPECT_TRUE(status.ok()) << status.error_message();
    EXPECT_EQ(last.state(), v1::JOB_STATE_DONE) << last.message();
    return result;
  }

  std::unique_ptr<v1::BenchService::Stub> bench_;
};

TEST_F(BenchJobTest, ABenchIsFollowedAndItsResultIsStored) {
  const int64_t id = SubmitBench();
  const v1::BenchResult result = ResultOf(id);
  EXPECT_EQ(result.kernel_name(), "scale");
  EXPECT_EQ(result.trial().measurement().samples_ns_size(), 5);
  EXPECT_EQ(ResultOf(id).SerializeAsString(), result.SerializeAsString())
      << "who follows it after its end gets the result";
}

TEST_F(BenchJobTest, ABenchThatWaitedIsRunByTheNextDaemon) {
  const v1::Sweep sweep = SubmitSweep();
  WatchUntil(sweep.job_id(), Runs);
  const int64_t id = SubmitBench();
  server_->Stop(absl::Now() + absl::Seconds(10));
  server_.reset();
  Start();
  ASSERT_TRUE(CancelJob(*jobs_, sweep.job_id()).ok()) << "which was taken up first";
  EXPECT_EQ(ResultOf(id).trial().outcome(), v1::OUTCOME_OK);
}

}  // namespace
}  // namespace tune::server
