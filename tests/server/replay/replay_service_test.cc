// SPDX-License-Identifier: Apache-2.0
// ReplayService as tunectl reaches it: in this process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>

#include "absl/strings/str_replace.h"
#include "server/replay/replay_server.h"
#include "tune/v1/replay.grpc.pb.h"

namespace tune::server {
namespace {

using testing::HasSubstr;

v1::RecordingFile DataFile(const std::string& name) {
  std::ifstream in(std::string(TUNE_TEST_DATA) + "/" + name, std::ios::binary);
  EXPECT_TRUE(in.good()) << name;
  v1::RecordingFile file;
  file.set_name(name);
  file.set_content(std::string(std::istreambuf_iterator<char>(in), {}));
  return file;
}

v1::RecordingSource Recorded(const std::string& name) {
  v1::RecordingSource source;
  *source.add_files() = DataFile(name + ".json");
  *source.add_files() = DataFile(name + ".csv.gz");
  return source;
}

class ReplayServiceTest : public testing::Test {
 protected:
  void SetUp() override {
    auto server = ReplayServer::Start();
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    stub_ = v1::ReplayService::NewStub(server_->InProcessChannel());
  }

  v1::ReplayResponse Replay(const v1::ReplayRequest& request) {
    grpc::ClientContext context;
    v1::ReplayResponse response;
    const grpc::Status status = stub_->Replay(&context, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response;
  }

  std::unique_ptr<ReplayServer> server_;
  std::unique_ptr<v1::ReplayService::Stub> stub_;
};

TEST_F(ReplayServiceTest, AnExhaustiveReplayFindsTheOptimumThatIsDescribed) {
  v1::ReplayRequest request;
  *request.mutable_recording() = Recorded("convolution-A100");
  request.set_strategy("exhaustive");
  const v1::ReplayResponse replay = Replay(request);
  EXPECT_EQ(replay.recording().device(), "replay:NVIDIA A100-PCIE-40GB");
  EXPECT_EQ(replay.evaluations(), 4362u);
  EXPECT_EQ(replay.outcomes().at("ok"), 4201u);
  EXPECT_EQ(replay.optimum_ratio(), 1);
  EXPECT_DOUBLE_EQ(replay.best().measurement().latency_ns_median(), 553600);
  EXPECT_EQ(replay.recording().within_5_percent(), 1u);
  EXPECT_EQ(replay.best_latency_ns_size(), 4362);
}

TEST_F(ReplayServiceTest, StopRulesAndBudgetsEndAReplay) {
  v1::ReplayRequest request;
  *request.mutable_recording() = Recorded("convolution-A100");
  request.set_strategy("random");
  request.set_seed(3);
  request.mutable_budget()->set_trials(50);
  EXPECT_EQ(Replay(request).evaluations(), 50u);
  request.mutable_budget()->set_trials(4000);
  request.mutable_stop()->set_trials_without_improvement(30);
  const v1::ReplayResponse stopped = Replay(request);
  EXPECT_LT(stopped.evaluations(), 4000u);
  EXPECT_THAT(stopped.end_message(), HasSubstr("improve"));
  request.clear_stop();
  request.mutable_budget()->set_seconds(60);  // a config took 2.4 s at the median
  EXPECT_LT(Replay(request).evaluations(), 60u);
  EXPECT_GT(Replay(request).recorded_seconds(), 55);
}

TEST_F(ReplayServiceTest, AComparisonHasFiguresForEachStrategyAndRecording) {
  v1::CompareStrategiesRequest request;
  *request.add_recordings() = Recorded("convolution-A100");
  *request.add_recordings() = Recorded("convolution-A4000");
  *request.add_prior() = Recorded("convolution-A4000");
  request.add_strategies("random");
  request.add_strategies("exhaustive");
  request.set_seeds(5);
  request.set_budget_trials(60);
  request.set_score(true);
  grpc::ClientContext context;
  auto reader = stub_->CompareStrategies(&context, request);
  v1::CompareStrategiesEvent event;
  v1::StrategyComparison comparison;
  while (reader->Read(&event)) {
    if (event.has_result()) comparison = event.result();
  }
  const grpc::Status status = reader->Finish();
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(event.runs(), 2u * 2 * 5 * 2);
  EXPECT_THAT(comparison.budgets(), testing::ElementsAre(25, 50, 60));
  ASSERT_EQ(comparison.recordings_size(), 2);
  EXPECT_NEAR(comparison.recordings(0).random_ratios(0), 1.6579, 5e-5);
  EXPECT_EQ(comparison.recordings(1).score_evaluations(), 323u);
  const v1::ComparedRuns& exhaustive = comparison.recordings(0).runs(1);
  ASSERT_EQ(exhaustive.curve_median_size(), 60);
  EXPECT_EQ(exhaustive.curve_low(59), exhaustive.curve_high(59)) << "no chance in it";
  for (int i = 1; i < 60; ++i)
    EXPECT_LE(exhaustive.curve_median(i), exhaustive.curve_median(i - 1));
  EXPECT_LT(exhaustive.score(), comparison.recordings(0).runs(0).score());
  EXPECT_DOUBLE_EQ(comparison.strategies(0).ratios(2),
                   std::sqrt(comparison.recordings(0).runs(0).ratios(2) *
                             comparison.recordings(1).runs(0).ratios(2)));
}

TEST_F(ReplayServiceTest, ARecordingIsNoPriorOfItselfButOneOfAnotherProblemIs) {
  v1::ReplayRequest request;
  *request.mutable_recording() = Recorded("convolution-A4000");
  request.set_strategy("local_search");  // tries the best of its prior first
  request.mutable_budget()->set_trials(10);
  v1::RecordingSource& prior = *request.add_prior();
  prior = Recorded("convolution-A4000");
  EXPECT_GT(Replay(request).optimum_ratio(), 1);
  std::string& text = *prior.mutable_files(0)->mutable_content();
  ASSERT_EQ(absl::StrReplaceAll({{"4096", "8192"}}, &text), 2) << "the sides of its problem";
  EXPECT_EQ(Replay(request).optimum_ratio(), 1);
}

TEST_F(ReplayServiceTest, AStudyStopsWhenTheCallIsCancelled) {
  v1::CompareStrategiesRequest request;
  *request.add_recordings() = Recorded("convolution-A100");
  request.add_strategies("random");
  request.set_seeds(10'000);
  request.set_budget_trials(4000);
  grpc::ClientContext context;
  auto reader = stub_->CompareStrategies(&context, request);
  v1::CompareStrategiesEvent event;
  ASSERT_TRUE(reader->Read(&event));
  context.TryCancel();
  while (reader->Read(&event)) {
  }
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
  server_.reset();  // returns: the study has ended
}

TEST_F(ReplayServiceTest, ASweepOfOursIsARecording) {
  v1::ConvertRecordingRequest request;
  v1::Sweep& sweep = *request.mutable_recording()->mutable_sweep();
  sweep.set_id(12);
  sweep.set_kernel_name("saxpy");
  sweep.set_device_name("cpu:AMD EPYC");
  sweep.mutable_progress()->set_space_size(3);
  for (const int64_t threads : {128, 64, 128}) {
    v1::Trial& trial = *request.mutable_recording()->add_trials();
    v1::ConfigEntry& entry = *trial.mutable_config()->add_entries();
    entry.set_param("THREADS");
    entry.mutable_value()->set_integer(threads);
    trial.set_outcome(v1::OUTCOME_OK);
    trial.mutable_measurement()->set_latency_ns_median(1000.0 / threads);
  }
  request.set_format("spec");
  request.set_stem("mine");
  grpc::ClientContext context;
  v1::ConvertRecordingResponse response;
  const grpc::Status status = stub_->ConvertRecording(&context, request, &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(response.info().device(), "replay:cpu:AMD EPYC");
  EXPECT_EQ(response.info().configs(), 2u) << "the winner measured again is no config more";
  EXPECT_TRUE(response.info().sampled());
  ASSERT_EQ(response.files_size(), 1);
  EXPECT_EQ(response.files(0).name(), "mine.textproto");
  EXPECT_THAT(response.files(0).content(), HasSubstr("values: \"[64, 128]\""));
  EXPECT_THAT(response.files(0).content(), HasSubstr("default_value: \"128\""));
}

TEST_F(ReplayServiceTest, WrongRequestsSayWhatIsWrong) {
  v1::ReplayRequest request;
  v1::ReplayResponse response;
  auto error = [&] {
    grpc::ClientContext context;
    const grpc::Status status = stub_->Replay(&context, request, &response);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    return status.error_message();
  };
  EXPECT_THAT(error(), HasSubstr("no recording among the files"));
  *request.mutable_recording() = Recorded("convolution-A100");
  request.set_strategy("guess");
  EXPECT_THAT(error(), HasSubstr("exhaustive"));
  request.set_strategy("random");
  request.set_in_flight(5000);
  EXPECT_THAT(error(), HasSubstr("in flight"));
  request.set_in_flight(1);
  request.mutable_stop()->set_improvement_chance_min(2);
  EXPECT_THAT(error(), HasSubstr("chance"));
}

TEST_F(ReplayServiceTest, APriorIsRelativeToItsOwnBest) {
  v1::ReadPriorRequest request;
  *request.add_recordings() = Recorded("convolution-A100");
  *request.add_recordings() = Recorded("convolution-A4000");
  grpc::ClientContext context;
  v1::Prior prior;
  ASSERT_TRUE(stub_->ReadPrior(&context, request, &prior).ok());
  ASSERT_EQ(prior.sources_size(), 2);
  for (const v1::Prior::Source& source : prior.sources()) {
    EXPECT_EQ(source.observations_size(), 2500);
    EXPECT_EQ(source.observations(0).relative_latency(), 1);
    EXPECT_GE(source.observations(1).relative_latency(), 1);
  }
  EXPECT_LT(prior.ByteSizeLong(), 3u << 20) << "a daemon takes no more than 4 MiB";
}

}  // namespace
}  // namespace tune::server
