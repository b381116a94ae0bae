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
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Minutes(2)));
    v1::WatchJobRequest request;
    request.set_job_id(id);
    auto reader = jobs_->WatchJob(&context, request);
    v1::Job job;
    while (reader->Read(&job)) {
      if (enough(job)) context.TryCancel();
    }
    const grpc::Status ended = reader->Finish();
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

}  // namespace
}  // namespace tune::server
