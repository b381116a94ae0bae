// SPDX-License-Identifier: Apache-2.0
// Sweeps that a later daemon goes on with, on real workers: on which device, with how much of their
// budget, and of which code. Between two daemons a test changes what the next one finds.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "db/sqlite_connection.h"
#include "server/server.h"
#include "tests/server/test_server.h"
#include "tune/v1/comparison.grpc.pb.h"

namespace tune::server {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class TakenUpAgainTest : public testing::Test {
 protected:
  TakenUpAgainTest() {
    (void)StartLog("off", LogFormat::kText);
    std::filesystem::create_directories(workers());
    for (const char* name : {"tune-device-cpu", "tune-compile-cpu"}) Link(name);
  }
  ~TakenUpAgainTest() override { Stop(); }

  std::string workers() const { return dir_.path() + "/workers"; }
  void Link(const std::string& name) {
    std::filesystem::remove(workers() + "/" + name);
    std::filesystem::create_symlink(absl::StrCat(TUNE_BIN_DIR, "/", name), workers() + "/" + name);
  }
  // A worker that is a script.
  void Script(const std::string& name, const std::string& text) {
    const std::string path = workers() + "/" + name;
    std::filesystem::remove(path);
    std::ofstream(path) << "#!/bin/sh\n" << text << "\n";
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  }

  void Start(const std::vector<std::string>& include_roots = {}) {
    server_ = Server::Start({.state_dir = dir_.path() + "/state",
                             .worker_dir = workers(),
                             .include_roots = include_roots})
                  .value();
    stubs_ = std::make_unique<Stubs>(server_->InProcessChannel());
  }
  void Stop() {
    stubs_.reset();
    server_.reset();
  }
  // REQUIRES: no daemon runs.
  void Execute(const std::string& sql) {
    auto connection = db::SqliteConnection::Open(dir_.path() + "/state/tune.db",
                                                 db::SqliteConnection::Mode::kReadWriteCreate)
                          .value();
    const absl::Status status = connection->Execute(sql);
    ASSERT_TRUE(status.ok()) << status;
  }
  int64_t Count(const std::string& sql) {
    auto connection = db::SqliteConnection::Open(dir_.path() + "/state/tune.db",
                                                 db::SqliteConnection::Mode::kReadOnly)
                          .value();
    return connection->QueryInteger(sql.c_str()).value();
  }

  v1::SubmitSweepRequest MakeRequest(const v1::KernelSource& source, double seconds = 300) {
    v1::SubmitSweepRequest request;
    *request.mutable_kernel_source() = source;
    (*request.mutable_dims())["n"] = 4096;
    request.set_device("cpu");
    request.set_strategy("exhaustive");
    request.mutable_budget()->set_seconds(seconds);
    request.set_cache_mode(v1::CACHE_MODE_WARM);
    return request;
  }
  v1::Sweep Submit(const v1::SubmitSweepRequest& request) {
    v1::Sweep sweep;
    const grpc::Status status =
        Call(*stubs_->sweeps, &v1::SweepService::Stub::SubmitSweep, request, &sweep);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return sweep;
  }
  v1::Sweep Get(int64_t id) {
    v1::GetSweepRequest request;
    request.set_sweep_id(id);
    v1::Sweep sweep;
    const grpc::Status status =
        Call(*stubs_->sweeps, &v1::SweepService::Stub::GetSweep, request, &sweep);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return sweep;
  }
  v1::Job GetJob(int64_t id) {
    v1::GetJobRequest request;
    request.set_job_id(id);
    v1::Job job;
    const grpc::Status status = Call(*stubs_->jobs, &v1::JobService::Stub::GetJob, request, &job);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return job;
  }
  // Has the daemon try the CPU again, whose worker is mended.
  void MendCpu() {
    Link("tune-device-cpu");
    v1::RetryDeviceRequest retry;
    retry.set_id("cpu");
    v1::RetryDeviceResponse tried;
    const grpc::Status status =
        Call(*stubs_->devices, &v1::DeviceService::Stub::RetryDevice, retry, &tried);
    EXPECT_TRUE(status.ok()) << status.error_message();
  }
  // Waits until so many trials were told.
  void AwaitTrials(int64_t id, size_t count) {
    std::set<int64_t> trials;
    FollowJob(*stubs_->jobs, Get(id).job_id(), [&](const v1::JobEvent& event) {
      for (const v1::Trial& trial : ResultsIn<v1::Trial>(event)) trials.insert(trial.id());
      return trials.size() < count;
    });
    EXPECT_GE(trials.size(), count);
  }
  // A sweep that was started and that the daemon left.
  int64_t LeaveOne(double seconds = 300) {
    Start();
    const int64_t id = Submit(MakeRequest(ScaleKernel({.items = "range(1, 40)"}), seconds)).id();
    AwaitTrials(id, 2);
    Stop();
    return id;
  }
  v1::LookupResponse Lookup(const std::string& kernel) {
    v1::LookupRequest request;
    request.set_kernel_name(kernel);
    (*request.mutable_dims())["n"] = 4096;
    request.set_device("cpu");
    v1::LookupResponse response;
    const grpc::Status status =
        Call(*stubs_->records, &v1::RecordService::Stub::Lookup, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response;
  }

  TempDir dir_;
  std::unique_ptr<Server> server_;
  std::unique_ptr<Stubs> stubs_;
};

// Devices are looked at one after the other: the first takes long, and the sweep's is behind it.
TEST_F(TakenUpAgainTest, ASweepOfAnotherDeviceFailsAndStoresNothing) {
  const int64_t id = LeaveOne();
  Execute("UPDATE sweep SET device_name = 'cpu:Another Processor'");
  Script("tune-device-cuda", "sleep 3; exit 1");
  Start();
  const v1::Sweep sweep = AwaitEnd(*stubs_->sweeps, id);
  EXPECT_EQ(sweep.state(), v1::JOB_STATE_FAILED);
  EXPECT_THAT(sweep.message(),
              AllOf(HasSubstr("was cpu:Another Processor"), HasSubstr("submit the sweep again")));
  Stop();
  EXPECT_EQ(Count("SELECT count(*) FROM trial_key WHERE device_name = 'cpu:Another Processor'"), 0);
  EXPECT_EQ(Count("SELECT count(*) FROM record"), 0);
}

TEST_F(TakenUpAgainTest, ASweepOfAnotherTargetFailsToo) {
  const int64_t id = LeaveOne();
  Execute("UPDATE sweep SET target = 'sm_90a'");
  Start();
  EXPECT_EQ(AwaitEnd(*stubs_->sweeps, id).state(), v1::JOB_STATE_FAILED);
}

TEST_F(TakenUpAgainTest, SweepsWaitForADeviceThatIsAway) {
  const int64_t first = LeaveOne();
  Script("tune-device-cpu", "exit 1");
  Start();
  // Until the device was tried, and for some time after it.
  const absl::Time deadline = absl::Now() + absl::Seconds(60);
  while (!absl::StrContains(Get(first).message(), "cannot be used") && absl::Now() < deadline) {
    ASSERT_NE(Get(first).state(), v1::JOB_STATE_FAILED) << Get(first).message();
    absl::SleepFor(absl::Milliseconds(50));
  }
  absl::SleepFor(absl::Seconds(2));
  const v1::Sweep waiting = Get(first);
  EXPECT_EQ(waiting.state(), v1::JOB_STATE_QUEUED) << waiting.message();
  EXPECT_THAT(waiting.message(), AllOf(HasSubstr("waiting: device cpu"), HasSubstr("cpu")));
  MendCpu();
  const v1::Sweep done = AwaitEnd(*stubs_->sweeps, first);
  EXPECT_EQ(done.state(), v1::JOB_STATE_DONE) << done.message();
  EXPECT_GT(done.result().confirm_rounds(), 0);
}

// A comparison stands for all kinds but sweeps.
TEST_F(TakenUpAgainTest, AQueuedComparisonWaitsForADeviceThatIsAway) {
  Start();
  const int64_t sweep = Submit(MakeRequest(ScaleKernel({.items = "range(1, 40)"}))).id();
  AwaitTrials(sweep, 1);
  v1::SubmitComparisonRequest request;
  for (const char* label : {"a", "b"}) {
    auto& entry = *request.add_entries();
    *entry.mutable_kernel_source() = ScaleKernel();
    entry.set_label(label);
  }
  request.set_device("cpu");
  request.set_rounds(2);
  request.set_leg_seconds(0.002);
  v1::Job queued;
  const auto comparisons = v1::CompareService::NewStub(server_->InProcessChannel());
  const grpc::Status submitted =
      Call(*comparisons, &v1::CompareService::Stub::SubmitComparison, request, &queued);
  ASSERT_TRUE(submitted.ok()) << submitted.error_message();
  Stop();
  Script("tune-device-cpu", "exit 1");
  Start();
  const absl::Time deadline = absl::Now() + absl::Seconds(30);
  while (!absl::StrContains(GetJob(queued.id()).message(), "exit") && absl::Now() < deadline) {
    ASSERT_NE(GetJob(queued.id()).state(), v1::JOB_STATE_FAILED) << GetJob(queued.id()).message();
    absl::SleepFor(absl::Milliseconds(50));
  }
  EXPECT_THAT(GetJob(queued.id()).message(), HasSubstr("waiting: device cpu cannot be used: the "));
  EXPECT_TRUE(CancelJob(*stubs_->jobs, Get(sweep).job_id()).ok());
  MendCpu();
  FollowJob(*stubs_->jobs, queued.id(), [](const v1::JobEvent&) { return true; });
  EXPECT_EQ(GetJob(queued.id()).state(), v1::JOB_STATE_DONE) << GetJob(queued.id()).message();
}

// Nothing of its time is left, and it has trials that were ok.
TEST_F(TakenUpAgainTest, ASweepWithoutTimeLeftConfirmsWhatItHas) {
  const int64_t id = LeaveOne();
  Execute("UPDATE sweep SET spent_seconds = 300");
  const int64_t tried = Count("SELECT count(*) FROM trial");
  Start();
  const v1::Sweep sweep = AwaitEnd(*stubs_->sweeps, id);
  EXPECT_EQ(sweep.state(), v1::JOB_STATE_DONE) << sweep.message();
  EXPECT_EQ(sweep.end(), v1::SWEEP_END_TIME);
  EXPECT_GT(sweep.result().confirm_rounds(), 0) << sweep.message();
  Stop();
  EXPECT_EQ(Count("SELECT count(*) FROM trial WHERE purpose = 1"), tried);
  EXPECT_EQ(Count("SELECT count(*) FROM record"), 1);
}

TEST_F(TakenUpAgainTest, TheTimeThatASweepSpentIsKept) {
  LeaveOne();
  EXPECT_EQ(Count("SELECT spent_seconds > 0 AND spent_seconds < 300 FROM sweep"), 1);
  EXPECT_EQ(Count("SELECT device_ids = '[\"cpu\"]' FROM sweep"), 1);
}

v1::KernelSource Including() {
  v1::KernelSource source = ScaleKernel();
  source.set_spec_text(absl::StrReplaceAll(
      source.spec_text(), {{"dtypes: \"f32\"", "dtypes: \"f32\"\ninclude_roots: \"lib\""},
                           {"name: \"scale\"", "name: \"including\""},
                           {"[32, 64, 128, 512]", "[32, 64]"}}));
  std::string& text = (*source.mutable_files())["scale.cu"];
  text = absl::StrCat("#include <lib_for_test.h>\n",
                      absl::StrReplaceAll(text, {{"2.0f : 3.0f)", "2.0f : FACTOR)"}}));
  return source;
}

class IncludeRootsTest : public TakenUpAgainTest {
 protected:
  void Write(const std::string& text) {
    const std::string folder = dir_.path() + "/lib";
    std::filesystem::create_directories(folder);
    std::ofstream(folder + "/lib_for_test.h") << text;
    // As some tools leave it: the time says nothing.
    std::filesystem::last_write_time(folder + "/lib_for_test.h",
                                     std::filesystem::file_time_type(std::chrono::hours(1)));
  }
  void StartWith(const std::string& text) {
    Stop();
    Write(text);
    Start({"lib=" + dir_.path() + "/lib"});
  }
};

constexpr char kRight[] = "#define FACTOR 3.0f\n";
constexpr char kOther[] = "#define FACTOR (3.0f)\n";  // which may compile to the same
constexpr char kWrong[] = "#define FACTOR 2.0f\n";

TEST_F(IncludeRootsTest, WhatOtherHeadersMadeIsNotReused) {
  StartWith(kWrong);
  const v1::Sweep wrong = AwaitEnd(*stubs_->sweeps, Submit(MakeRequest(Including())).id());
  EXPECT_EQ(wrong.progress().outcomes().at("wrong_result"), 4) << wrong.message();
  StartWith(kRight);
  const v1::Sweep right = AwaitEnd(*stubs_->sweeps, Submit(MakeRequest(Including())).id());
  EXPECT_EQ(right.progress().reused(), 0);
  ASSERT_EQ(right.state(), v1::JOB_STATE_DONE) << right.message();
  EXPECT_GT(right.result().confirm_rounds(), 0) << right.message();
  EXPECT_EQ(Lookup("including").match(), v1::MATCH_EXACT);
  const v1::Sweep again = AwaitEnd(*stubs_->sweeps, Submit(MakeRequest(Including())).id());
  EXPECT_EQ(again.progress().reused(), 4) << "the same headers";
}

TEST_F(IncludeRootsTest, ARecordOfOtherHeadersIsNearestAtBest) {
  StartWith(kRight);
  const v1::Sweep tuned = AwaitEnd(*stubs_->sweeps, Submit(MakeRequest(Including())).id());
  ASSERT_GT(tuned.result().confirm_rounds(), 0) << tuned.message();
  StartWith(kRight);
  EXPECT_EQ(Lookup("including").match(), v1::MATCH_EXACT) << "written anew, and equal";
  StartWith(kOther);
  const v1::LookupResponse other = Lookup("including");
  EXPECT_EQ(other.match(), v1::MATCH_NEAREST);
  EXPECT_THAT(other.reason(), HasSubstr("the headers of its include roots differ"));
  EXPECT_EQ(other.record().include_digest().size(), 64u);
  Stop();
  Start();  // which offers no headers
  const v1::LookupResponse without = Lookup("including");
  EXPECT_EQ(without.match(), v1::MATCH_NEAREST);
  EXPECT_THAT(without.reason(), HasSubstr("the headers of its include roots are not offered here"));
}

TEST_F(IncludeRootsTest, HeadersThatChangeWhileTheDaemonRunsCompileNothing) {
  StartWith(kRight);
  Write(kWrong);
  const v1::Sweep sweep = AwaitEnd(*stubs_->sweeps, Submit(MakeRequest(Including())).id());
  EXPECT_EQ(sweep.state(), v1::JOB_STATE_FAILED);
  EXPECT_THAT(sweep.message(), HasSubstr("start tunerd again"));
  Stop();
  EXPECT_EQ(Count("SELECT count(*) FROM trial"), 0);
}

}  // namespace
}  // namespace tune::server
