// SPDX-License-Identifier: Apache-2.0
#include "server/worker/convert.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "server/worker/convert_counters.h"

namespace tune::server {
namespace {

using testing::ElementsAre;

// Through the bytes, as on the socket.
template <typename Proto>
Proto Sent(const Proto& proto) {
  Proto received;
  EXPECT_TRUE(received.ParseFromString(proto.SerializeAsString()));
  return received;
}

TEST(ConvertTest, CompilePlanSurvives) {
  const CompilePlan plan = {.language = Language::kCuda,
                            .target = "sm_90a",
                            .source_name = "x.cu",
                            .source_text = std::string("te\0\xff", 4),
                            .headers = {{"a.h", "A"}, {"b.h", "B"}},
                            .defines = {{"N", "1"}, {"M", "2"}},
                            .options = {"-O3"},
                            .entries = {"main", "other"}};
  const CompilePlan copy = FromWire(Sent(ToWire(plan))).value();
  EXPECT_EQ(copy.target, plan.target);
  EXPECT_EQ(copy.source_name, plan.source_name);
  EXPECT_EQ(copy.source_text, plan.source_text);
  ASSERT_EQ(copy.headers.size(), 2u);
  EXPECT_EQ(copy.headers[1].name, "b.h");
  EXPECT_EQ(copy.headers[1].text, "B");
  EXPECT_EQ(copy.defines, plan.defines);
  EXPECT_EQ(copy.options, plan.options);
  EXPECT_EQ(copy.entries, plan.entries);
  EXPECT_EQ(copy.language, plan.language);
}

TEST(ConvertTest, RunRequestSurvives) {
  RunRequest request;
  request.program.binary = std::string("\0\xff", 2);
  StepPlan& step = request.program.steps.emplace_back();
  step.launch = {.entry = "k",
                 .grid = {1, 2, 3},
                 .block = {4, 5, 6},
                 .cluster = {7, 8, 9},
                 .shared_bytes = 10};
  step.args = {
      BufferPlan{"x", DType::kBF16, 12, Role::kInOut, {Fill::Kind::kUniform, -1, 2}},
      ScalarPlan{"n", DType::kI64, Value(int64_t{5})}, ScalarPlan{"scale", DType::kF32, Value(0.5)},
      TensorMapPlan{"m", {.name = "x", .block_shape = {2}}, {4, 3}, {8}, {2, 1}, 128, 256, true}};
  request.program.steps.push_back({.launch = {.entry = "second"}});
  request.program.steps[1].zero = {BufferPlan{"s", DType::kF32, 7, Role::kScratch, {}}};
  request.policy = {CacheMode::kWarm, 1, 2, 3.0, 4.0, 5.0, 6.0};
  absl::StatusOr<RunRequest> copy = FromWire(Sent(ToWire(request)));
  ASSERT_TRUE(copy.ok()) << copy.status();
  EXPECT_EQ(copy->program.binary, request.program.binary);
  ASSERT_EQ(copy->program.steps.size(), 2u);
  EXPECT_EQ(copy->program.steps[1].launch.entry, "second");
  ASSERT_EQ(copy->program.steps[1].zero.size(), 1u);
  EXPECT_EQ(copy->program.steps[1].zero[0].count, 7);
  EXPECT_EQ(copy->program.steps[1].zero[0].role, Role::kScratch);
  const StepPlan& first = copy->program.steps[0];
  EXPECT_THAT(first.launch.cluster, ElementsAre(7, 8, 9));
  EXPECT_EQ(first.launch.shared_bytes, 10);
  ASSERT_EQ(first.args.size(), 4u);
  const auto& buffer = std::get<BufferPlan>(first.args[0]);
  EXPECT_EQ(buffer.dtype, DType::kBF16);
  EXPECT_EQ(buffer.role, Role::kInOut);
  EXPECT_EQ(buffer.fill.kind, Fill::Kind::kUniform);
  EXPECT_EQ(buffer.fill.low, -1);
  EXPECT_EQ(std::get<ScalarPlan>(first.args[1]).value, Value(int64_t{5}));
  EXPECT_EQ(std::get<ScalarPlan>(first.args[2]).value, Value(0.5));
  const auto& map = std::get<TensorMapPlan>(first.args[3]);
  EXPECT_THAT(map.strides_bytes, ElementsAre(8));
  EXPECT_EQ(map.l2_promotion_bytes, 256);
  EXPECT_EQ(copy->policy.cache_mode, CacheMode::kWarm);
  EXPECT_EQ(copy->policy.hopeless_ratio, 6.0);
}

TEST(ConvertTest, RunReportSurvives) {
  RunReport report;
  report.message = "said";
  report.samples_ns = {1.5, 2.5};
  report.stopped_early = true;
  report.clock = Clock::kCupti;
  report.telemetry = {1, 2, 3, 4, 5};
  report.error = {1, 2, 3, 4, "y[3]"};
  report.resources.registers = 77;
  absl::StatusOr<RunReport> copy = FromWire(Sent(ToWire(report)));
  ASSERT_TRUE(copy.ok()) << copy.status();
  EXPECT_THAT(copy->samples_ns, ElementsAre(1.5, 2.5));
  EXPECT_TRUE(copy->stopped_early);
  EXPECT_EQ(copy->clock, Clock::kCupti);
  EXPECT_EQ(copy->telemetry.throttle_reasons, 5u);
  EXPECT_EQ(copy->error.worst, "y[3]");
  EXPECT_EQ(copy->resources.registers, 77);
}

TEST(ConvertTest, TextThatIsNotUtf8IsMadeReadable) {
  Artifact variant;
  variant.binary = "b";
  variant.log = "caf\xc3\xa9 \xff\xe2\x82 \xed\xa0\x80 \xf0\x9f\x98\x80";
  absl::StatusOr<Artifact> copy = FromWire(Sent(ToWire(variant)));
  ASSERT_TRUE(copy.ok()) << copy.status();
  EXPECT_EQ(copy->log, "caf\xc3\xa9 ??? ??? \xf0\x9f\x98\x80");
}

TEST(ConvertTest, WhatACompilerSaysBehindANulIsKept) {
  Artifact variant;
  variant.log = std::string("one\0two\0", 8) + "k.cu:3: error: lost";
  absl::StatusOr<Artifact> copy = FromWire(Sent(ToWire(variant)));
  ASSERT_TRUE(copy.ok()) << copy.status();
  EXPECT_EQ(copy->log, "one\\0two\\0k.cu:3: error: lost");
}

TEST(ConvertTest, FactsOfEntriesTravelWhereTheyAreKnown) {
  Artifact artifact;
  artifact.entries = {{.name = "unknown"},
                      {.name = "none", .parameters = std::vector<ParameterFact>()},
                      {.name = "known",
                       .parameters = std::vector<ParameterFact>{{8, "const float*"}, {4, ".u32"}},
                       .threads = 128,
                       .threads_max = 256}};
  EXPECT_EQ(FromWire(Sent(ToWire(artifact)))->entries, artifact.entries);
}

TEST(ConvertTest, RefusesWhatDoesNotExist) {
  worker::v1::Artifact compiled;
  compiled.set_outcome(static_cast<v1::Outcome>(77));
  EXPECT_FALSE(FromWire(compiled).ok());
  worker::v1::Run run;
  run.mutable_program()->add_steps()->mutable_launch()->add_grid(1);
  EXPECT_FALSE(FromWire(run).ok()) << "a grid of one dimension";
  RunRequest request;
  request.program.steps.emplace_back();
  run = ToWire(request);
  EXPECT_TRUE(FromWire(run).ok());
  run.mutable_program()->mutable_steps(0)->add_args()->mutable_buffer()->set_dtype(
      static_cast<worker::v1::DType>(99));
  EXPECT_FALSE(FromWire(run).ok()) << "an unknown data type";
  run = ToWire(request);
  run.mutable_program()->mutable_steps(0)->add_args();
  EXPECT_FALSE(FromWire(run).ok()) << "an argument of no kind";
  worker::v1::Compile compile;
  compile.set_language(static_cast<v1::Language>(99));
  EXPECT_FALSE(FromWire(compile).ok()) << "an unknown language";
}

TEST(ConvertTest, RefusesSamplesThatCannotBe) {
  for (double sample_ns :
       {0.0, -1.0, std::numeric_limits<double>::quiet_NaN(),
        std::numeric_limits<double>::infinity(), std::numeric_limits<double>::denorm_min(),
        std::numeric_limits<double>::max()}) {
    RunReport report;
    report.samples_ns = {1, sample_ns};
    EXPECT_FALSE(FromWire(ToWire(report)).ok()) << sample_ns;
  }
  EXPECT_FALSE(FromWire(ToWire(RunReport{})).ok()) << "ok without a sample";
}

TEST(ConvertTest, WhatNoWorkerCanMeanIsPutRight) {
  worker::v1::Artifact compiled;
  compiled.set_outcome(v1::OUTCOME_OK);
  for (double seconds :
       {-1.0, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    compiled.set_seconds(seconds);
    EXPECT_EQ(FromWire(compiled)->seconds, 0) << seconds;
  }
  RunReport report;
  report.samples_ns = {1};
  report.error.worst = std::string(1 << 20, 'x');
  EXPECT_LT(FromWire(ToWire(report))->error.worst.size(), 1000);
  worker::v1::DeviceInfo info;
  info.set_memory_bytes(std::numeric_limits<int64_t>::min());
  EXPECT_FALSE(FromWire(info).ok()) << "less than no memory";
}

TEST(ConvertTest, NumbersThatAreNoneAreNotCounted) {
  worker::v1::CountReport report;
  report.set_outcome(v1::OUTCOME_OK);
  for (double value :
       {1.0, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    v1::Counter* counter = report.add_counters();
    counter->set_name("bytes");
    counter->set_value(value);
  }
  (*report.mutable_quantities())["rate"] = std::numeric_limits<double>::quiet_NaN();
  absl::StatusOr<CountReport> counted = FromWire(report);
  ASSERT_TRUE(counted.ok()) << counted.status();
  ASSERT_EQ(counted->counters.size(), 1u);
  EXPECT_EQ(counted->counters[0].value, 1);
  EXPECT_TRUE(counted->quantities.empty());

  worker::v1::CeilingsReply ceilings;
  v1::Ceiling* ceiling = ceilings.add_ceilings();
  ceiling->set_policy(v1::CEILING_POLICY_BURST);
  ceiling->set_source(v1::CEILING_SOURCE_MEASURED);
  ceiling->set_process_count(1);
  ceiling->set_value(1e12);
  ceiling->set_theoretical(std::numeric_limits<double>::quiet_NaN());
  *ceilings.add_ceilings() = *ceiling;
  ceilings.mutable_ceilings(1)->set_value(-std::numeric_limits<double>::infinity());
  absl::StatusOr<std::vector<Ceiling>> measured = FromWire(ceilings);
  ASSERT_TRUE(measured.ok()) << measured.status();
  ASSERT_EQ(measured->size(), 1u);
  EXPECT_EQ((*measured)[0].theoretical, 0);
}

}  // namespace
}  // namespace tune::server
