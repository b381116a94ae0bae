// SPDX-License-Identifier: Apache-2.0
// Comparisons as clients use them, on the CPU device with the real workers. Times of a shared host
// are noise, so what is asserted about them is what no noise can hide.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_replace.h"
#include "db/store.h"
#include "server/comparison/comparison_work.h"
#include "tests/server/test_server.h"
#include "tune/v1/comparison.grpc.pb.h"
#include "tune/v1/job.grpc.pb.h"
#include "tuner/device/fill.h"

namespace tune::server {
namespace {

using testing::Contains;
using testing::HasSubstr;

// The scale kernel under another name; `changes` are made to its source, then to its spec.
v1::KernelSource Scale(const std::string& name,
                       const std::vector<std::pair<std::string, std::string>>& source = {},
                       const std::vector<std::pair<std::string, std::string>>& spec = {}) {
  v1::KernelSource kernel = ScaleKernel();
  std::string& code = kernel.mutable_files()->at("scale.cu");
  std::string& text = *kernel.mutable_spec_text();
  for (const auto& [from, to] : source) {
    EXPECT_THAT(code, HasSubstr(from));
    absl::StrReplaceAll({{from, to}}, &code);
  }
  for (const auto& [from, to] : spec) {
    EXPECT_THAT(text, HasSubstr(from));
    absl::StrReplaceAll({{from, to}}, &text);
  }
  absl::StrReplaceAll({{"name: \"scale\"", absl::StrCat("name: \"", name, "\"")}}, &text);
  return kernel;
}

const std::string kStore = "if (i < n) y[i] = (FAULTY ? 2.0f : 3.0f) * x[i];";
const std::string kSlow =
    "for (int k = 0; k < 3000; ++k) { volatile float* out = y; if (i < n) out[i] = 3.0f * x[i]; }";

class ComparisonServiceTest : public testing::Test {
 protected:
  void SetUp() override {
    absl::StatusOr<std::unique_ptr<Server>> server =
        Server::Start({.state_dir = dir_.path(),
                       .worker_dir = TUNE_BIN_DIR,
                       .limits = {.compile_workers = 2},
                       .compile_deadline = absl::Minutes(5)});
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    comparisons_ = v1::CompareService::NewStub(server_->InProcessChannel());
    jobs_ = v1::JobService::NewStub(server_->InProcessChannel());
  }

  static v1::SubmitComparisonRequest Request(const std::vector<v1::KernelSource>& kernels) {
    v1::SubmitComparisonRequest request;
    for (const v1::KernelSource& kernel : kernels) {
      *request.add_entries()->mutable_kernel_source() = kernel;
    }
    request.set_device("cpu");
    request.set_rounds(3);
    request.set_leg_seconds(0.002);
    return request;
  }

  grpc::Status Run(const v1::SubmitComparisonRequest& request, v1::Comparison* comparison) {
    v1::GetComparisonRequest get;
    const auto follow = [&](const v1::JobEvent& event) {
      for (const auto& one : ResultsIn<v1::Comparison>(event)) get.set_comparison_id(one.id());
      steps_.push_back(event.job().message());
      const std::vector<v1::PeerOrder> orders = ResultsIn<v1::PeerOrder>(event);
      if (!orders.empty()) Answer(orders.back());
    };
    const grpc::Status status =
        RunJob(*comparisons_, &v1::CompareService::Stub::SubmitComparison, request, *jobs_, follow);
    if (!status.ok()) return status;
    return Call(*comparisons_, &v1::CompareService::Stub::GetComparison, get, comparison);
  }
  v1::Comparison RunOk(const v1::SubmitComparisonRequest& request) {
    v1::Comparison comparison;
    const grpc::Status status = Run(request, &comparison);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return comparison;
  }
  std::string RefusalOf(const v1::SubmitComparisonRequest& request) {
    v1::Comparison comparison;
    const grpc::Status status = Run(request, &comparison);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    return status.error_message();
  }

  static v1::ComparisonEntry Peer(const std::string& label) {
    v1::ComparisonEntry entry;
    entry.set_label(label);
    entry.mutable_peer()->set_language("C++");
    entry.mutable_peer()->set_versions("a test");
    return entry;
  }

  // What a client does: computes three times what the order says x holds, or as its label says.
  void Answer(const v1::PeerOrder& order) {
    labels_.push_back(order.label());
    v1::AnswerPeerRequest said;
    said.set_job_id(order.job_id());
    said.set_lease(order.lease());
    said.set_number(order.number());
    v1::AnswerPeerResponse heard;
    const auto say = [&] {
      return Call(*comparisons_, &v1::CompareService::Stub::AnswerPeer, said, &heard).ok();
    };
    for (const v1::PeerArg& arg : order.args()) {
      if (!order.check() || arg.name() != "x") continue;
      std::vector<float> y(static_cast<size_t>(arg.shape(0)));
      const auto key = FillKey(order.seed(), arg.fill_key().c_str());
      for (size_t i = 0; i < y.size(); ++i) {
        y[i] = (order.label() == "liar" ? 2.0f : 3.0f) *
               FillFloat(arg.fill_kind(), static_cast<float>(arg.fill_low()),
                         static_cast<float>(arg.fill_high()), key, i);
      }
      said.mutable_piece()->set_buffer("y");
      said.mutable_piece()->set_elements(y.data(), y.size() * sizeof(float));
      EXPECT_TRUE(say());
    }
    said.mutable_report()->set_outcome(order.label() == "broken" ? v1::OUTCOME_LAUNCH_FAILED
                                                                 : v1::OUTCOME_OK);
    said.mutable_report()->set_clock(v1::CLOCK_HOST);
    if (order.label() == "broken") said.mutable_report()->set_message("no such algorithm");
    if (!order.check()) said.mutable_report()->add_samples_ns(5e6);
    EXPECT_TRUE(say());
  }

  std::vector<std::string> labels_;  // of the turns of peers
  const TempDir dir_;
  std::unique_ptr<Server> server_;
  std::unique_ptr<v1::CompareService::Stub> comparisons_;
  std::unique_ptr<v1::JobService::Stub> jobs_;
  std::vector<std::string> steps_;
};

TEST_F(ComparisonServiceTest, RatiosAreToTheFirstAndEverythingIsStored) {
  const v1::Comparison run = RunOk(Request({Scale("plain"), Scale("slow", {{kStore, kSlow}})}));
  EXPECT_EQ(run.state(), v1::JOB_STATE_DONE);
  ASSERT_EQ(run.problems_size(), 1);
  const v1::ComparedProblem& problem = run.problems(0);
  EXPECT_EQ(problem.work_bytes(), 2 * 4 * 4096);
  EXPECT_GT(problem.floor_ns(), 0);
  ASSERT_EQ(problem.kernels_size(), 2);
  const v1::ComparedKernel& first = problem.kernels(0);
  const v1::ComparedKernel& second = problem.kernels(1);
  EXPECT_EQ(first.label(), "plain");
  EXPECT_EQ(first.ratio(), 1);
  EXPECT_EQ(second.outcome(), v1::OUTCOME_OK) << second.message();
  EXPECT_EQ(second.agreement(), v1::OUTCOME_OK) << second.agreement_message();
  EXPECT_GT(second.ratio(), 3);
  EXPECT_LT(second.ratio_low(), second.ratio());
  EXPECT_EQ(second.rounds(), 3);
  EXPECT_FALSE(second.compiler().empty());
  EXPECT_THAT(second.config_source(), HasSubstr("never tuned"));

  v1::GetComparisonRequest get;
  get.set_comparison_id(run.id());
  get.set_with_rounds(true);
  v1::Comparison stored;
  ASSERT_TRUE(Call(*comparisons_, &v1::CompareService::Stub::GetComparison, get, &stored).ok());
  EXPECT_EQ(stored.problems(0).kernels(1).ratio(), second.ratio());
  EXPECT_EQ(stored.problems(0).kernels(1).round_results_size(), 3);
  EXPECT_GT(stored.problems(0).kernels(1).round_results(0).samples_ns_size(), 0);
  v1::ListComparisonsResponse list;
  ASSERT_TRUE(Call(*comparisons_, &v1::CompareService::Stub::ListComparisons, {}, &list).ok());
  ASSERT_EQ(list.comparisons_size(), 1);
  EXPECT_THAT(list.comparisons(0).subject(), HasSubstr("plain, slow: n=4096"));
  v1::GetJobRequest job;
  job.set_job_id(run.job_id());
  v1::Job row;
  ASSERT_TRUE(Call(*jobs_, &v1::JobService::Stub::GetJob, job, &row).ok());
  EXPECT_EQ(row.kind(), v1::JOB_KIND_COMPARISON);
}

TEST_F(ComparisonServiceTest, PeersHaveTurnsAndAreJudged) {
  v1::SubmitComparisonRequest request = Request({Scale("plain")});
  for (const char* label : {"peer", "liar", "broken"}) *request.add_entries() = Peer(label);
  const v1::Comparison run = RunOk(request);
  ASSERT_EQ(run.problems_size(), 1);
  ASSERT_EQ(run.problems(0).kernels_size(), 4);
  const v1::ComparedKernel& peer = run.problems(0).kernels(1);
  EXPECT_EQ(peer.outcome(), v1::OUTCOME_OK) << peer.message();
  EXPECT_EQ(peer.agreement(), v1::OUTCOME_OK) << peer.agreement_message();
  EXPECT_EQ(peer.rounds(), 3);
  EXPECT_EQ(peer.measurement().latency_ns_median(), 5e6);
  EXPECT_EQ(peer.language(), "C++");
  EXPECT_EQ(peer.compiler(), "a test");
  EXPECT_GT(peer.ratio(), 1);
  const v1::ComparedKernel& liar = run.problems(0).kernels(2);
  EXPECT_EQ(liar.agreement(), v1::OUTCOME_WRONG_RESULT);
  EXPECT_THAT(liar.agreement_message(), HasSubstr("against the reference of plain: y["));
  EXPECT_EQ(run.problems(0).kernels(3).message(), "no such algorithm");
  // A check and three rounds of each, but of the one that failed its check.
  EXPECT_EQ(labels_.size(), 9u);
}

TEST_F(ComparisonServiceTest, APeerIsNotTheFirstAndHasALabel) {
  v1::SubmitComparisonRequest request;
  *request.add_entries() = Peer("peer");
  EXPECT_THAT(RefusalOf(request), HasSubstr("the first of a comparison is a kernel"));
  request = Request({Scale("plain")});
  *request.add_entries() = Peer("");
  EXPECT_THAT(RefusalOf(request), HasSubstr("a peer has a label"));
}

TEST_F(ComparisonServiceTest, AKernelThatComputesSomethingElseDiffers) {
  // Right by its own reference, and not what the first computes.
  const v1::KernelSource other =
      Scale("double", {{kStore, "if (i < n) y[i] = 2.0f * x[i];"}, {"3.0 * x[i]", "2.0 * x[i]"}});
  const v1::Comparison run = RunOk(Request({Scale("triple"), other}));
  const v1::ComparedKernel& kernel = run.problems(0).kernels(1);
  EXPECT_EQ(kernel.outcome(), v1::OUTCOME_OK) << kernel.message();
  EXPECT_EQ(kernel.agreement(), v1::OUTCOME_WRONG_RESULT);
  EXPECT_THAT(kernel.agreement_message(), HasSubstr("against the reference of triple: y["));
  EXPECT_GT(kernel.agreement_error().bad_elements(), 0);
}

TEST_F(ComparisonServiceTest, AWrongKernelKeepsNobodyElseFromItsTurn) {
  const v1::KernelSource wrong = Scale("wrong", {{kStore, "if (i < n) y[i] = 2.0f * x[i];"}});
  const v1::KernelSource broken = Scale("broken", {{kStore, "y[i] = lost;"}});
  const v1::Comparison run = RunOk(Request({wrong, broken, Scale("right")}));
  EXPECT_EQ(run.problems(0).kernels(0).outcome(), v1::OUTCOME_WRONG_RESULT);
  EXPECT_EQ(run.problems(0).kernels(1).outcome(), v1::OUTCOME_COMPILE_FAILED);
  EXPECT_THAT(run.problems(0).kernels(1).message(), HasSubstr("lost"));
  EXPECT_EQ(run.problems(0).kernels(2).outcome(), v1::OUTCOME_OK);
  EXPECT_EQ(run.problems(0).kernels(2).rounds(), 3);
  EXPECT_EQ(run.problems(0).kernels(2).ratio(), 0) << "the first has no time";
}

TEST_F(ComparisonServiceTest, ASweptDimGivesAProblemForEachOfItsValues) {
  v1::SubmitComparisonRequest request = Request({Scale("one"), Scale("two")});
  request.set_sweep_dim("n");
  for (const int64_t n : {1024, 2048, 4096}) request.add_sweep_values(n);
  request.set_rounds(1);
  const v1::Comparison run = RunOk(request);
  ASSERT_EQ(run.problems_size(), 3);
  EXPECT_EQ(run.problems(2).problem().dims(0).value(), 4096);
  EXPECT_EQ(run.problems(2).kernels(1).rounds(), 1);
  EXPECT_EQ(run.problems(2).kernels(1).ratio_high(), 0) << "one round has no interval";
  // Of steps that follow each other at once, the last alone is told.
  EXPECT_THAT(steps_, Contains(HasSubstr(" of 3): ")));
}

TEST_F(ComparisonServiceTest, ConfigsAreGivenOrTheDefault) {
  v1::SubmitComparisonRequest request = Request({Scale("given"), Scale("default")});
  v1::ConfigEntry* entry = request.mutable_entries(0)->mutable_config()->add_entries();
  entry->set_param("THREADS");
  entry->mutable_value()->set_integer(128);
  request.mutable_entries(1)->set_default_config(true);
  const v1::Comparison run = RunOk(request);
  EXPECT_EQ(run.problems(0).kernels(0).config().entries(0).value().integer(), 128);
  EXPECT_EQ(run.problems(0).kernels(0).config_source(), "given");
  EXPECT_EQ(run.problems(0).kernels(1).config().entries(0).value().integer(), 64);
}

TEST_F(ComparisonServiceTest, TheFirstsFillsAndWorkHoldForAll) {
  const v1::KernelSource other =
      Scale("other", {},
            {{"role: ROLE_INPUT", "role: ROLE_INPUT fill { kind: CONSTANT low: 1 }"},
             {"bytes: \"2 * n * dtype_bytes\"", "bytes: \"n\""}});
  const v1::Comparison run = RunOk(Request({Scale("first"), other}));
  const v1::ComparedKernel& kernel = run.problems(0).kernels(1);
  EXPECT_EQ(kernel.agreement(), v1::OUTCOME_OK) << kernel.agreement_message();
  EXPECT_THAT(kernel.notes(), Contains(HasSubstr("'x' is filled as the first kernel's spec says")));
  EXPECT_THAT(kernel.notes(), Contains(HasSubstr("declares 4096 bytes")));
}

// Right on an x of twos alone: by `x[i] == 2` it tells what it was given.
const std::string kOfTwos = "if (i < n) y[i] = x[i] == 2.0f ? 6.0f : 0.0f;";

std::string Elements(float value) {
  const std::vector<float> elements(4096, value);
  return {reinterpret_cast<const char*>(elements.data()), elements.size() * sizeof(float)};
}

TEST_F(ComparisonServiceTest, AFileOfTheFirstIsWhatTheOthersAreGiven) {
  const std::pair<std::string, std::string> filed = {"role: ROLE_INPUT",
                                                     "role: ROLE_INPUT file: \"x.bin\""};
  v1::KernelSource first = Scale("filed", {}, {filed});
  (*first.mutable_files())["x.bin"] = Elements(2);
  v1::KernelSource third = Scale("third", {{kStore, kOfTwos}}, {filed});
  (*third.mutable_files())["x.bin"] = Elements(5);
  const v1::Comparison run = RunOk(Request({first, Scale("second", {{kStore, kOfTwos}}), third}));
  for (const int i : {1, 2}) {
    const v1::ComparedKernel& kernel = run.problems(0).kernels(i);
    EXPECT_EQ(kernel.outcome(), v1::OUTCOME_OK) << kernel.message();
    EXPECT_EQ(kernel.agreement(), v1::OUTCOME_OK) << kernel.agreement_message();
    EXPECT_THAT(kernel.notes(), Contains(HasSubstr("'x' is filled as the first")));
  }
}

TEST_F(ComparisonServiceTest, AFillOfTheFirstGoesBeforeTheFilesOfTheOthers) {
  const v1::KernelSource first =
      Scale("first", {}, {{"role: ROLE_INPUT", "role: ROLE_INPUT fill { kind: CONSTANT low: 2 }"}});
  v1::KernelSource other = Scale("filed", {{kStore, kOfTwos}},
                                 {{"role: ROLE_INPUT", "role: ROLE_INPUT file: \"x.bin\""}});
  (*other.mutable_files())["x.bin"] = Elements(5);
  const v1::Comparison run = RunOk(Request({first, other}));
  const v1::ComparedKernel& kernel = run.problems(0).kernels(1);
  EXPECT_EQ(kernel.outcome(), v1::OUTCOME_OK) << kernel.message();
  EXPECT_EQ(kernel.agreement(), v1::OUTCOME_OK) << kernel.agreement_message();
}

TEST_F(ComparisonServiceTest, AKernelWithASymbolAgreesInSecondPlace) {
  const std::string symbol =
      "args { name: \"factor\" symbol { dtype: \"f32\" shape: \"1\" "
      "fill { kind: CONSTANT low: 3 } } }\n";
  const v1::KernelSource other =
      Scale("symbolic",
            {{"#ifdef TUNE_REFERENCE", "__constant__ float factor[1];\n#ifdef TUNE_REFERENCE"},
             {kStore, "if (i < n) y[i] = factor[0] * x[i];"}},
            {{"args { name: \"x\"", symbol + "args { name: \"x\""}});
  const v1::Comparison run = RunOk(Request({Scale("plain"), other}));
  const v1::ComparedKernel& kernel = run.problems(0).kernels(1);
  EXPECT_EQ(kernel.outcome(), v1::OUTCOME_OK) << kernel.message();
  EXPECT_EQ(kernel.agreement(), v1::OUTCOME_OK) << kernel.agreement_message();
}

TEST(ComparisonTimeTest, PeersHaveAnHourForEachProblemAndADayAtMost) {
  const TempDir dir;
  const auto store = db::Store::Open(dir.path() + "/tune.db").value();
  const auto workers =
      Workers::Create({.state_dir = dir.path(), .worker_dir = TUNE_BIN_DIR}).value();
  PeerLeases leases;
  const auto time_max_of = [&](size_t problems, bool with_peer) {
    ComparisonPlan plan;
    plan.problems.resize(problems, std::vector<ComparedWorkload>(2));
    for (auto& items : plan.problems) {
      if (with_peer) items.back().peer.emplace();
    }
    return ComparisonWork(*store, *workers, leases, std::move(plan)).time_max();
  };
  EXPECT_EQ(time_max_of(64, false), absl::InfiniteDuration());
  EXPECT_EQ(time_max_of(1, true), absl::Hours(1));
  EXPECT_EQ(time_max_of(6, true), absl::Hours(6));
  EXPECT_EQ(time_max_of(64, true), absl::Hours(24));
}

TEST_F(ComparisonServiceTest, WhatCannotBeComparedIsRefusedWithWhatToDo) {
  EXPECT_THAT(RefusalOf(Request({})), HasSubstr("1 to 16 kernels"));
  EXPECT_THAT(RefusalOf(Request({Scale("same"), Scale("same")})), HasSubstr("label of its own"));
  const v1::KernelSource renamed = Scale("renamed", {}, {{"name: \"y\"", "name: \"z\""}});
  EXPECT_THAT(RefusalOf(Request({Scale("scale"), renamed})),
              HasSubstr("scale writes y; renamed writes z"));
  const v1::KernelSource no_mode =
      Scale("fixed", {}, {{"dims { name: \"mode\"", "dims { name: \"other\""}});
  EXPECT_THAT(RefusalOf(Request({Scale("scale"), no_mode})), HasSubstr("fixed: "));
  v1::SubmitComparisonRequest twice = Request({Scale("scale")});
  twice.set_sweep_dim("n");
  twice.add_sweep_values(64);
  (*twice.mutable_dims())["n"] = 128;
  EXPECT_THAT(RefusalOf(twice), HasSubstr("n is swept and has one value too"));
}

}  // namespace
}  // namespace tune::server
