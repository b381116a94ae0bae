// SPDX-License-Identifier: Apache-2.0
// Reports and single measurements over RPC, of a real sweep on the CPU device.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>

#include "absl/strings/str_replace.h"
#include "server/server.h"
#include "tests/server/test_server.h"
#include "tune/v1/bench.grpc.pb.h"
#include "tune/v1/profile.grpc.pb.h"
#include "tune/v1/report.grpc.pb.h"

namespace tune::server {
namespace {

using testing::HasSubstr;

class ReportServiceTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    (void)StartLog("error", LogFormat::kText);
    dir_ = new TempDir();
    server_ = Server::Start({.state_dir = dir_->path() + "/state",
                             .addresses = {"unix:" + dir_->path() + "/d.sock"},
                             .worker_dir = TUNE_BIN_DIR})
                  .value()
                  .release();
    auto channel =
        grpc::CreateChannel(server_->addresses().front(), grpc::InsecureChannelCredentials());
    reports_ = v1::ReportService::NewStub(channel).release();
    bench_ = v1::BenchService::NewStub(channel).release();
    profiles_ = v1::ProfileService::NewStub(channel).release();
    jobs_ = v1::JobService::NewStub(channel).release();
    auto sweeps = v1::SweepService::NewStub(channel);
    v1::SubmitSweepRequest request;
    *request.mutable_kernel_source() = ScaleKernel({.faulty = true});
    (*request.mutable_dims())["n"] = 65536;
    request.set_device("cpu");
    request.set_strategy("exhaustive");
    request.mutable_budget()->set_seconds(300);
    request.set_cache_mode(v1::CACHE_MODE_WARM);
    v1::Sweep sweep;
    ASSERT_TRUE(Call(*sweeps, &v1::SweepService::Stub::SubmitSweep, request, &sweep).ok());
    sweep_id_ = AwaitEnd(*sweeps, sweep.id()).id();
  }
  static void TearDownTestSuite() {
    delete jobs_;
    delete profiles_;
    delete bench_;
    delete reports_;
    delete server_;
    delete dir_;
  }

  static grpc::Status Rooflines(const v1::GetRooflinesRequest& request,
                                v1::RooflineReport* report) {
    return Call(*reports_, &v1::ReportService::Stub::GetRooflines, request, report);
  }
  static grpc::Status SweepReport(const v1::GetSweepReportRequest& request,
                                  v1::SweepReport* report) {
    return Call(*reports_, &v1::ReportService::Stub::GetSweepReport, request, report);
  }

  // The last profile of the stream.
  static grpc::Status Profile(const v1::SubmitProfileRequest& request, v1::Profile* profile) {
    return RunJob(*profiles_, &v1::ProfileService::Stub::SubmitProfile, request, *jobs_,
                  [&](const v1::JobEvent& event) {
                    for (const v1::Profile& one : ResultsIn<v1::Profile>(event)) {
                      if (profile != nullptr) *profile = one;
                    }
                  });
  }
  static grpc::Status Bench(const v1::SubmitBenchRequest& request, v1::BenchResult* result) {
    return RunJob(*bench_, &v1::BenchService::Stub::SubmitBench, request, *jobs_,
                  [&](const v1::JobEvent& event) {
                    for (const auto& one : ResultsIn<v1::BenchResult>(event)) *result = one;
                  });
  }

  static TempDir* dir_;
  static Server* server_;
  static v1::ReportService::Stub* reports_;
  static v1::BenchService::Stub* bench_;
  static v1::ProfileService::Stub* profiles_;
  static v1::JobService::Stub* jobs_;
  static int64_t sweep_id_;
};

TempDir* ReportServiceTest::dir_ = nullptr;
Server* ReportServiceTest::server_ = nullptr;
v1::ReportService::Stub* ReportServiceTest::reports_ = nullptr;
v1::BenchService::Stub* ReportServiceTest::bench_ = nullptr;
v1::ProfileService::Stub* ReportServiceTest::profiles_ = nullptr;
v1::JobService::Stub* ReportServiceTest::jobs_ = nullptr;
int64_t ReportServiceTest::sweep_id_ = 0;

TEST_F(ReportServiceTest, ARooflineHasEveryTrialWithItsFloors) {
  v1::GetRooflinesRequest request;
  request.add_sweep_ids(sweep_id_);
  v1::RooflineReport report;
  const grpc::Status status = Rooflines(request, &report);
  ASSERT_TRUE(status.ok()) << status.error_message();
  ASSERT_EQ(report.rooflines_size(), 1);
  const v1::Roofline& roofline = report.rooflines(0);
  EXPECT_EQ(roofline.declared_bytes(), 2 * 65536 * 4);
  EXPECT_EQ(roofline.written_bytes(), 65536 * 4);
  EXPECT_EQ(roofline.declared_flops(), 65536);
  EXPECT_FALSE(roofline.driver().empty());
  EXPECT_GT(roofline.cache_bytes(), 0u);
  std::set<std::string> configs;
  int wrong = 0;
  for (const v1::RooflinePoint& point : roofline.points()) {
    configs.insert(point.trial().config().SerializeAsString());
    wrong += point.trial().outcome() == v1::OUTCOME_WRONG_RESULT;
    if (point.trial().outcome() != v1::OUTCOME_OK) continue;
    // Warm, and all of it fits into the cache: arithmetic is all it can be held against.
    ASSERT_GT(point.uses_size(), 0);
    EXPECT_EQ(point.uses(0).resource(), v1::ROOFLINE_RESOURCE_COMPUTE);
    const double median = point.trial().measurement().latency_ns_median();
    EXPECT_NEAR(point.floor_ns(), 65536 / point.uses(0).roof() * 1e9, 1e-3);
    EXPECT_DOUBLE_EQ(point.efficiency(), point.floor_ns() / median);
    EXPECT_FALSE(point.diagnosis().empty());
  }
  EXPECT_EQ(configs.size(), 8u);
  EXPECT_EQ(wrong, 1);
  EXPECT_NE(roofline.best_trial_id(), 0);
  EXPECT_THAT(roofline.diagnosis(), testing::Not(testing::IsEmpty()));
}

TEST_F(ReportServiceTest, SweepsAreFoundByKernelAndDevice) {
  v1::GetRooflinesRequest request;
  request.add_kernel_names("scale");
  request.set_device("cpu");
  v1::RooflineReport report;
  ASSERT_TRUE(Rooflines(request, &report).ok());
  EXPECT_EQ(report.rooflines(0).sweep().id(), sweep_id_);

  request.set_device("cuda:7");
  EXPECT_EQ(Rooflines(request, &report).error_code(), grpc::StatusCode::NOT_FOUND);
  v1::GetRooflinesRequest unknown;
  unknown.add_sweep_ids(4711);
  EXPECT_EQ(Rooflines(unknown, &report).error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST_F(ReportServiceTest, ASweepNamedTwiceIsReportedOnce) {
  v1::GetRooflinesRequest request;
  for (int i = 0; i < 100; ++i) request.add_sweep_ids(sweep_id_);
  v1::RooflineReport report;
  ASSERT_TRUE(Rooflines(request, &report).ok());
  EXPECT_EQ(report.rooflines_size(), 1);
  EXPECT_EQ(report.rooflines(0).points_omitted(), 0u);
  for (int i = 1; i <= 64; ++i) request.add_sweep_ids(sweep_id_ + i);
  EXPECT_EQ(Rooflines(request, &report).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(ReportServiceTest, AReportOfTooManyOrTooLongNamesIsRefused) {
  v1::GetRooflinesRequest many;
  for (int i = 0; i < 65; ++i) many.add_kernel_names("scale");
  v1::GetRooflinesRequest name;
  name.add_kernel_names(std::string(100'000, 'x'));
  v1::GetRooflinesRequest device;
  device.set_device(std::string(100'000, 'x'));
  for (const v1::GetRooflinesRequest& request : {many, name, device}) {
    v1::RooflineReport report;
    EXPECT_EQ(Rooflines(request, &report).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  }
}

TEST_F(ReportServiceTest, ASweepReportSaysWhatParametersAndOutcomesThereWere) {
  v1::GetSweepReportRequest request;
  request.set_sweep_id(sweep_id_);
  v1::SweepReport report;
  const grpc::Status status = SweepReport(request, &report);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(report.configs_ok(), 7u);
  ASSERT_EQ(report.params_size(), 2);
  for (const v1::ParamEffect& param : report.params()) {
    uint64_t configs = 0;
    for (const v1::ParamValue& value : param.values()) configs += value.configs();
    EXPECT_EQ(configs, 7u);
    EXPECT_GE(param.spread(), 1);
  }
  ASSERT_EQ(report.heatmap().cells_size(), 8);
  int empty = 0;
  for (const v1::HeatmapCell& cell : report.heatmap().cells()) empty += cell.configs() == 0;
  EXPECT_EQ(empty, 1);  // the wrong one
  ASSERT_GT(report.timeline_size(), 0);
  for (int i = 1; i < report.timeline_size(); ++i) {
    EXPECT_LE(report.timeline(i).best_latency_ns(), report.timeline(i - 1).best_latency_ns());
  }
  ASSERT_EQ(report.outcomes_size(), 2);
  EXPECT_EQ(report.outcomes(0).outcome(), v1::OUTCOME_OK);
  EXPECT_EQ(report.outcomes(0).count(), 7u) << "confirmations are no further configs";
  EXPECT_EQ(report.outcomes(1).outcome(), v1::OUTCOME_WRONG_RESULT);
  EXPECT_EQ(report.outcomes(1).examples_size(), 1);

  request.set_row_param("NO_SUCH");
  EXPECT_EQ(SweepReport(request, &report).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

// All four were tried, none was ok, and no constraint is in the way.
TEST_F(ReportServiceTest, AReportBlamesNothingThatIsNotThere) {
  v1::SubmitSweepRequest request;
  v1::KernelSource& source = *request.mutable_kernel_source();
  source = ScaleKernel({.items = "[1]"});
  source.set_spec_text(absl::StrReplaceAll(
      source.spec_text(), {{"constraints { expression: \"THREADS <= n\" }\n", ""}}));
  std::string& code = source.mutable_files()->at("scale.cu");
  code = absl::StrReplaceAll(code, {{"for (int item",
                                     "int broken = THREADS > 64 ? missing : 0;\n  "
                                     "for (int item"}});
  (*request.mutable_dims())["n"] = 4096;
  request.set_device("cpu");
  request.set_strategy("random");
  request.set_cache_mode(v1::CACHE_MODE_WARM);
  auto sweeps = v1::SweepService::NewStub(server_->InProcessChannel());
  v1::Sweep sweep;
  ASSERT_TRUE(Call(*sweeps, &v1::SweepService::Stub::SubmitSweep, request, &sweep).ok());
  sweep = AwaitEnd(*sweeps, sweep.id());
  EXPECT_EQ(sweep.progress().done(), 4u);
  EXPECT_FALSE(sweep.has_result());
  EXPECT_THAT(sweep.message(), HasSubstr("no config was ok, 4 of 4 ended as compile_failed: "
                                         "`tunectl report sweep"));
  v1::GetSweepReportRequest of_sweep;
  of_sweep.set_sweep_id(sweep.id());
  v1::SweepReport report;
  ASSERT_TRUE(SweepReport(of_sweep, &report).ok());
  for (const std::string& note : report.notes()) {
    EXPECT_THAT(note, testing::Not(HasSubstr("did not try every config")));
    EXPECT_THAT(note, testing::Not(HasSubstr("constraint")));
  }
  ASSERT_EQ(report.outcomes_size(), 1);
  EXPECT_EQ(report.outcomes(0).outcome(), v1::OUTCOME_COMPILE_FAILED);
  EXPECT_EQ(report.outcomes(0).count(), 4u);
  ASSERT_EQ(report.outcomes(0).examples_size(), 1);
  EXPECT_EQ(report.outcomes(0).examples(0).count(), 4u);
  EXPECT_THAT(report.outcomes(0).examples(0).message(), HasSubstr("missing"));
}

// Also while it is set up: a reference that hangs has minutes.
TEST_F(ReportServiceTest, ACancelledMeasurementFreesTheDevice) {
  v1::SubmitBenchRequest request;
  *request.mutable_kernel_source() = ScaleKernel();
  std::string& code = request.mutable_kernel_source()->mutable_files()->at("scale.cu");
  code = absl::StrReplaceAll(code, {{"if (i < n) y[i] = 3.0 * x[i];",
                                     "volatile double* out = y; while (i < n) out[i] = 3.0;"}});
  request.set_device("cpu");
  v1::Job job;
  ASSERT_TRUE(Call(*bench_, &v1::BenchService::Stub::SubmitBench, request, &job).ok());
  absl::SleepFor(absl::Seconds(10));
  EXPECT_TRUE(CancelJob(*jobs_, job.id()).ok());
  // The device is free again, long before the reference's own deadline of two minutes.
  *request.mutable_kernel_source() = ScaleKernel();
  v1::BenchResult measured;
  const grpc::Status next = Bench(request, &measured);
  EXPECT_TRUE(next.ok()) << next.error_message();
}

TEST_F(ReportServiceTest, OneConfigIsMeasuredWithAsManySamplesAsAskedFor) {
  v1::SubmitBenchRequest request;
  *request.mutable_kernel_source() = ScaleKernel();
  (*request.mutable_dims())["n"] = 65536;
  request.set_device("cpu");
  request.set_cache_mode(v1::CACHE_MODE_WARM);
  request.set_samples(7);
  v1::ConfigEntry* entry = request.mutable_config()->add_entries();
  entry->set_param("THREADS");
  entry->mutable_value()->set_integer(128);
  v1::BenchResult measured;
  const grpc::Status status = Bench(request, &measured);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(measured.trial().outcome(), v1::OUTCOME_OK) << measured.trial().message();
  EXPECT_EQ(measured.trial().measurement().samples_ns_size(), 7);
  ASSERT_EQ(measured.trial().config().entries_size(), 2);  // ITEMS took its default
  EXPECT_EQ(measured.declared_bytes(), 2 * 65536 * 4);

  entry->mutable_value()->set_integer(48);  // not one of its values
  EXPECT_EQ(Bench(request, &measured).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  entry->set_param("NO_SUCH");
  const grpc::Status unknown = Bench(request, &measured);
  EXPECT_THAT(unknown.error_message(), HasSubstr("it has: THREADS, ITEMS"));
  request.set_samples(1'000'000);
  EXPECT_EQ(Bench(request, &measured).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

// The kernel of a file has records like one of the catalogue.
TEST_F(ReportServiceTest, TheBestOfASourceIsWhatItsSweepFound) {
  v1::GetSweepReportRequest of_sweep;
  of_sweep.set_sweep_id(sweep_id_);
  v1::SweepReport report;
  ASSERT_TRUE(SweepReport(of_sweep, &report).ok());
  v1::SubmitBenchRequest request;
  *request.mutable_kernel_source() = ScaleKernel({.faulty = true});
  (*request.mutable_dims())["n"] = 65536;
  request.set_device("cpu");
  request.set_cache_mode(v1::CACHE_MODE_WARM);
  request.set_samples(3);
  request.set_best(true);
  v1::BenchResult measured;
  const grpc::Status status = Bench(request, &measured);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(measured.trial().config().SerializeAsString(),
            report.sweep().result().best().config().SerializeAsString());
  EXPECT_THAT(measured.reason(), HasSubstr("exact: this problem was tuned on"));

  (*request.mutable_dims())["mode"] = 1;  // has to match, and was never tuned
  const grpc::Status unknown = Bench(request, &measured);
  EXPECT_EQ(unknown.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_THAT(unknown.error_message(), HasSubstr("bench --default"));
}

// Of 40 elements: the default of 64 threads is not allowed, 32 are.
TEST_F(ReportServiceTest, AnInvalidDefaultIsNoReasonToRefuseAnotherConfig) {
  v1::ConfigEntry threads;
  threads.set_param("THREADS");
  threads.mutable_value()->set_integer(32);

  v1::SubmitProfileRequest profile;
  *profile.mutable_kernel_source() = ScaleKernel();
  (*profile.mutable_dims())["n"] = 40;
  profile.set_device("cpu");
  const grpc::Status alone = Profile(profile, nullptr);
  EXPECT_EQ(alone.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(alone.error_message(), HasSubstr("'THREADS <= n' does not hold; name a config"));
  *profile.add_configs()->add_entries() = threads;
  v1::Profile read;
  const grpc::Status named = Profile(profile, &read);
  ASSERT_TRUE(named.ok()) << named.error_message();
  EXPECT_EQ(read.outcome(), v1::OUTCOME_OK) << read.message();
  ASSERT_EQ(read.config().entries_size(), 2);
  EXPECT_EQ(read.config().entries(0).value().integer(), 32);

  v1::SubmitBenchRequest request;
  *request.mutable_kernel_source() = ScaleKernel();
  (*request.mutable_dims())["n"] = 40;
  request.set_device("cpu");
  request.set_samples(3);
  v1::BenchResult measured;
  EXPECT_EQ(Bench(request, &measured).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  *request.mutable_config()->add_entries() = threads;
  const grpc::Status status = Bench(request, &measured);
  EXPECT_TRUE(status.ok()) << status.error_message();
}

// A sum beside itself in two halves and once more.
constexpr char kTable[] = R"(
name: "sketch" source: "nobody" dtype: "f32"
sizes { name: "n" default_value: 1000000 on { target: "cpu" default_value: 3000 } }
sizes { name: "layers" default_value: 4 }
parts { name: "rest" kernel: "softmax" times: "2 * layers"
        dims { key: "rows" value: "8" } dims { key: "cols" value: "n" } }
fusions {
  name: "sums" times: "layers"
  fused { kernel: "add" dims { key: "n" value: "n" } }
  sequence { kernel: "add" dims { key: "n" value: "n // 2" } times: "2" }
  sequence { kernel: "add" dims { key: "n" value: "n" } }
}
)";

TEST_F(ReportServiceTest, AFusionIsHeldAgainstItsSequence) {
  auto sweeps = v1::SweepService::NewStub(
      grpc::CreateChannel(server_->addresses().front(), grpc::InsecureChannelCredentials()));
  v1::SubmitSweepRequest sweep;
  sweep.set_kernel_name("add");
  (*sweep.mutable_dims())["n"] = 3000;
  sweep.set_dtype("f32");
  sweep.set_device("cpu");
  sweep.mutable_budget()->set_trials(1);
  v1::Sweep tuned;
  ASSERT_TRUE(Call(*sweeps, &v1::SweepService::Stub::SubmitSweep, sweep, &tuned).ok());
  tuned = AwaitEnd(*sweeps, tuned.id());

  v1::GetFusionReportRequest request;
  request.set_table_text(kTable);
  request.set_device("cpu");
  v1::FusionReport report;
  const grpc::Status status =
      Call(*reports_, &v1::ReportService::Stub::GetFusionReport, request, &report);
  ASSERT_TRUE(status.ok()) << status.error_message();
  ASSERT_EQ(report.fusions_size(), 1);
  const v1::FusionFinding& finding = report.fusions(0);
  EXPECT_EQ(finding.times(), 4);
  EXPECT_EQ(finding.fused().bytes(), 3 * 4 * 3000);
  EXPECT_EQ(finding.unfused().bytes(), 2 * 3 * 4 * 3000);
  EXPECT_EQ(finding.bytes_ratio(), 2);
  EXPECT_FALSE(finding.bytes_counted());
  EXPECT_EQ(finding.fused().sweep_id(), tuned.id());
  EXPECT_GT(finding.fused().latency_ns(), 0);
  // The kernel of n // 2 elements was never tuned.
  EXPECT_EQ(finding.sequence(0).sweep_id(), 0);
  EXPECT_EQ(finding.unfused().latency_ns(), 0);
  EXPECT_EQ(finding.time_ratio(), 0);
  // Ceilings were measured before the sweep. A step is the rest eight times, and four sums.
  const double sum_ns = finding.fused().floor_ns();
  ASSERT_GT(sum_ns, 0);
  EXPECT_NEAR(report.fused_step().floor_ns(), 8 * report.parts(0).floor_ns() + 4 * sum_ns, 1e-3);
  EXPECT_NEAR(report.unfused_step().floor_ns(),
              8 * report.parts(0).floor_ns() + 4 * finding.unfused().floor_ns(), 1e-3);
  EXPECT_GT(report.fused_step().measured_share(), 0);
  EXPECT_THAT(report.notes(), testing::Contains(HasSubstr("has no counters")));

  (*request.mutable_sizes())["n"] = 6000;
  ASSERT_TRUE(Call(*reports_, &v1::ReportService::Stub::GetFusionReport, request, &report).ok());
  EXPECT_EQ(report.fusions(0).fused().sweep_id(), 0);
  // The half is what was tuned.
  EXPECT_EQ(report.fusions(0).sequence(0).sweep_id(), tuned.id());
}

TEST_F(ReportServiceTest, TheCataloguesFusionsHaveWorkOnTheCpu) {
  v1::GetFusionReportRequest request;
  request.set_device("cpu");
  v1::FusionReport report;
  const grpc::Status status =
      Call(*reports_, &v1::ReportService::Stub::GetFusionReport, request, &report);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_GE(report.fusions_size(), 4);
  for (const v1::FusionFinding& finding : report.fusions()) {
    EXPECT_GT(finding.bytes_ratio(), 1) << finding.name();
    EXPECT_FALSE(finding.doc().empty()) << finding.name();
  }
  for (const v1::FusedWork& part : report.parts()) EXPECT_GT(part.bytes(), 0) << part.name();
}

TEST_F(ReportServiceTest, MistakesInATableOfFusionsHaveTheirPlace) {
  const auto error = [](const std::string& from, const std::string& to) {
    v1::GetFusionReportRequest request;
    request.set_table_text(absl::StrReplaceAll(kTable, {{from, to}}));
    request.set_device("cpu");
    v1::FusionReport report;
    return Call(*reports_, &v1::ReportService::Stub::GetFusionReport, request, &report)
        .error_message();
  };
  EXPECT_THAT(error("name: \"sums\" times", "title: \"sums\" times"),
              HasSubstr("fusions.textproto:8:"));
  EXPECT_THAT(error("value: \"n // 2\"", "value: \"m // 2\""), HasSubstr("'add'"));
  EXPECT_THAT(error("kernel: \"softmax\"", "kernel: \"sofmax\""), HasSubstr("softmax"));
  EXPECT_THAT(error("key: \"cols\"", "key: \"columns\""), HasSubstr("'rest'"));
  EXPECT_THAT(error("times: \"2 * layers\"", "times: \"0 - layers\""), HasSubstr("below zero"));
  v1::GetFusionReportRequest request;
  request.set_table_text(kTable);
  request.set_device("cpu");
  (*request.mutable_sizes())["m"] = 1;
  v1::FusionReport report;
  EXPECT_THAT(
      Call(*reports_, &v1::ReportService::Stub::GetFusionReport, request, &report).error_message(),
      HasSubstr("has no size 'm'; it has: n layers"));
}

}  // namespace
}  // namespace tune::server
