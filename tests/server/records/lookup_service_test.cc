// SPDX-License-Identifier: Apache-2.0
// Look-ups and their misses over a real server, on the CPU device.
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "server/server.h"
#include "tests/server/test_server.h"
#include "tune/v1/record.grpc.pb.h"

namespace tune::server {
namespace {

class LookupServiceTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    (void)StartLog("error", LogFormat::kText);
    dir_ = new TempDir();
    StartServer();
  }
  static void StartServer() {
    server_ = Server::Start({.state_dir = dir_->path() + "/state",
                             .addresses = {"unix:" + dir_->path() + "/d.sock"},
                             .worker_dir = TUNE_BIN_DIR})
                  .value()
                  .release();
    stubs_ = new Stubs(
        grpc::CreateChannel(server_->addresses().front(), grpc::InsecureChannelCredentials()));
  }
  static void StopServer() {
    delete stubs_;
    delete server_;
  }
  static void TearDownTestSuite() {
    StopServer();
    delete dir_;
  }

  // What was tuned before is there at once.
  static void Tune(int64_t n) {
    v1::SubmitSweepRequest request;
    *request.mutable_kernel_source() = ScaleKernel();
    (*request.mutable_dims())["n"] = n;
    request.set_device("cpu");
    request.mutable_budget()->set_trials(4);
    v1::Sweep sweep;
    const grpc::Status status =
        Call(*stubs_->sweeps, &v1::SweepService::Stub::SubmitSweep, request, &sweep);
    ASSERT_TRUE(status.ok()) << status.error_message();
    ASSERT_EQ(AwaitEnd(*stubs_->sweeps, sweep.id()).state(), v1::JOB_STATE_DONE);
  }
  static v1::LookupResponse Lookup(int64_t n) {
    v1::LookupRequest request;
    request.set_kernel_name("scale");
    (*request.mutable_dims())["n"] = n;
    request.set_device("cpu");
    v1::LookupResponse response;
    const grpc::Status status =
        Call(*stubs_->records, &v1::RecordService::Stub::Lookup, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response;
  }
  static v1::RecordedMiss RecordMiss(const v1::RecordMissesRequest& request) {
    v1::RecordMissesResponse response;
    const grpc::Status status =
        Call(*stubs_->records, &v1::RecordService::Stub::RecordMisses, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response.misses_size() == 1 ? response.misses(0) : v1::RecordedMiss();
  }

  static v1::Sweep CancelSweep(int64_t id) {
    v1::GetSweepRequest request;
    request.set_sweep_id(id);
    v1::Sweep sweep;
    EXPECT_TRUE(Call(*stubs_->sweeps, &v1::SweepService::Stub::GetSweep, request, &sweep).ok());
    EXPECT_TRUE(CancelJob(*stubs_->jobs, sweep.job_id()).ok());
    return sweep;
  }
  // As if the job had ended then.
  static void LongAgo(int64_t job_id) {
    sqlite3* store = nullptr;
    ASSERT_EQ(sqlite3_open((dir_->path() + "/state/tune.db").c_str(), &store), SQLITE_OK);
    sqlite3_busy_timeout(store, 10'000);
    const std::string change = absl::StrCat(
        "UPDATE job SET started_unix_ms = 1, finished_unix_ms = 2 WHERE id = ", job_id);
    EXPECT_EQ(sqlite3_exec(store, change.c_str(), nullptr, nullptr, nullptr), SQLITE_OK)
        << sqlite3_errmsg(store);
    sqlite3_close(store);
  }

  static inline TempDir* dir_ = nullptr;
  static inline Server* server_ = nullptr;
  static inline Stubs* stubs_ = nullptr;
};

// Of a kernel that the records alone know. What is found is the next look-up's answer.
TEST_F(LookupServiceTest, AMissIsTunedInTheBackgroundOnceHoweverManyMissIt) {
  Tune(4096);

  v1::RecordMissesRequest request;
  v1::LookupRequest& question = *request.add_questions();
  question.set_kernel_name("scale");
  (*question.mutable_dims())["n"] = 3333;
  question.set_device("cpu");
  const auto record = [&] { return RecordMiss(request); };
  std::vector<v1::RecordedMiss> misses(8);
  std::vector<std::thread> ranks;
  for (v1::RecordedMiss& miss : misses) ranks.emplace_back([&] { miss = record(); });
  for (std::thread& rank : ranks) rank.join();
  int queued = 0;
  for (const v1::RecordedMiss& miss : misses) {
    EXPECT_EQ(miss.sweep_id(), misses[0].sweep_id()) << miss.note();
    queued += miss.note() == "queued";
  }
  EXPECT_EQ(queued, 1);
  ASSERT_GT(misses[0].sweep_id(), 0);
  // A question that is asked again has the same answer, until there is a better one.
  const v1::LookupResponse first = Lookup(3333);
  EXPECT_EQ(first.match(), v1::MATCH_NEAREST) << first.reason();

  const v1::Sweep done = AwaitEnd(*stubs_->sweeps, misses[0].sweep_id());
  ASSERT_EQ(done.state(), v1::JOB_STATE_DONE) << done.message();
  EXPECT_EQ(done.priority(), v1::JOB_PRIORITY_BACKGROUND);
  const v1::LookupResponse better = Lookup(3333);
  EXPECT_EQ(better.match(), v1::MATCH_EXACT);
  EXPECT_GT(better.snapshot_id(), first.snapshot_id());
  EXPECT_EQ(Lookup(3333).SerializeAsString(), better.SerializeAsString());
  EXPECT_EQ(record().note(), "already tuned");

  question.set_device("NVIDIA H200");
  EXPECT_NE(record().note().find("not queued: this host has no NVIDIA H200"), std::string::npos)
      << record().note();
  question.set_kernel_name("no_such");
  EXPECT_NE(record().note().find("no kernel 'no_such'; there is: "), std::string::npos);
  question.set_kernel_name("sofmax");
  EXPECT_NE(record().note().find("no kernel 'sofmax'; did you mean 'softmax'?"), std::string::npos)
      << record().note();
}

TEST_F(LookupServiceTest, AMissThatLeftNoRecordIsTriedAgainAfterAPause) {
  v1::RecordMissesRequest request;
  request.add_questions()->set_kernel_name("add");
  request.mutable_questions(0)->set_device("cpu");
  (*request.mutable_questions(0)->mutable_dims())["n"] = 5555;
  const v1::RecordedMiss miss = RecordMiss(request);
  ASSERT_EQ(miss.note(), "queued");
  const v1::Sweep sweep = CancelSweep(miss.sweep_id());
  const v1::RecordedMiss rests = RecordMiss(request);
  EXPECT_EQ(rests.sweep_id(), miss.sweep_id());
  EXPECT_NE(rests.note().find("left no record; whoever misses it after"), std::string::npos)
      << rests.note();

  StopServer();
  LongAgo(sweep.job_id());
  StartServer();
  const v1::RecordedMiss again = RecordMiss(request);
  EXPECT_EQ(again.note(), "queued");
  EXPECT_GT(again.sweep_id(), miss.sweep_id());
  EXPECT_EQ(RecordMiss(request).note(), "already queued");
  CancelSweep(again.sweep_id());
}

TEST_F(LookupServiceTest, AnAnswerSaysWhatItIsExpectedToLoseAndWhatItLaunches) {
  for (const int64_t n : {1024, 4096}) Tune(n);
  const v1::LookupResponse exact = Lookup(4096);
  EXPECT_EQ(exact.expectation().basis(), v1::BASIS_MEASURED);
  EXPECT_EQ(exact.expectation().loss(), 0);
  ASSERT_GE(exact.launches_size(), 1);
  EXPECT_EQ(exact.launches(0).grid_size(), 3);

  const v1::LookupResponse between = Lookup(8000);
  EXPECT_EQ(between.match(), v1::MATCH_NEAREST) << between.reason();
  const v1::Expectation& expected = between.expectation();
  EXPECT_EQ(expected.basis(), v1::BASIS_NEIGHBOURS);
  EXPECT_TRUE(expected.chosen_between());
  ASSERT_GE(expected.neighbours_size(), 2);
  double weights = 0;
  for (const v1::Neighbour& neighbour : expected.neighbours()) weights += neighbour.weight();
  EXPECT_NEAR(weights, 1, 1e-9);
  EXPECT_LE(expected.loss_low(), expected.loss());
  EXPECT_LE(expected.loss(), expected.loss_high());
  EXPECT_NE(between.reason().find("its config is chosen from the sweeps of"), std::string::npos);

  v1::LookupManyRequest many;
  for (const int64_t n : {4096, 8000, 8000}) {
    v1::LookupRequest& question = *many.add_questions();
    question.set_kernel_name("scale");
    (*question.mutable_dims())["n"] = n;
    question.set_device("cpu");
  }
  many.mutable_questions(2)->set_require_exact(true);
  v1::LookupManyResponse answers;
  ASSERT_TRUE(Call(*stubs_->records, &v1::RecordService::Stub::LookupMany, many, &answers).ok());
  ASSERT_EQ(answers.outcomes_size(), 3);
  EXPECT_EQ(answers.outcomes(0).answer().match(), v1::MATCH_EXACT);
  EXPECT_EQ(answers.outcomes(1).answer().reason(), between.reason());
  EXPECT_FALSE(answers.outcomes(2).has_answer());
  EXPECT_NE(answers.outcomes(2).error().find("no exact record: nearest"), std::string::npos);
}

TEST_F(LookupServiceTest, WhatIsNoQuestionIsRefused) {
  grpc::GenericStub stub(
      grpc::CreateChannel(server_->addresses().front(), grpc::InsecureChannelCredentials()));
  const grpc::Slice garbage("\xff\xff\xff\xff");
  const grpc::ByteBuffer request(&garbage, 1);
  grpc::ByteBuffer response;
  grpc::ClientContext context;
  absl::Notification done;
  grpc::Status status;
  stub.UnaryCall(&context, "/tune.v1.RecordService/Lookup", {}, &request, &response,
                 [&](grpc::Status ended) {
                   status = std::move(ended);
                   done.Notify();
                 });
  ASSERT_TRUE(done.WaitForNotificationWithTimeout(absl::Seconds(10)));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << status.error_message();
}

}  // namespace
}  // namespace tune::server
