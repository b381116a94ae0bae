// SPDX-License-Identifier: Apache-2.0
#include "tuner/device/replay/formats.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/gzip.h"

namespace tune::replay {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> Configs(const Recording& recording) {
  std::vector<std::string> configs;
  for (size_t i = 0; i < recording.trials.size(); ++i) {
    configs.push_back(ToText(recording.ConfigOf(i)));
  }
  return configs;
}

Recording Sample() {
  RecordingBuilder builder({.name = "sample",
                            .kernel = "saxpy",
                            .device = "NVIDIA H200",
                            .problem = "n=65536 f32",
                            .params = {{"THREADS", {int64_t{64}, int64_t{128}}},
                                       {"MODE", {std::string("a,\"b\""), std::string("regs")}},
                                       {"PAD", {false, true}},
                                       {"SCALE", {0.5, 2.0}}},
                            .constraints = {"THREADS <= 128 and PAD in [True, False]"}});
  auto add = [&](int64_t threads, const char* mode, bool pad, double scale, RecordedTrial trial) {
    EXPECT_TRUE(builder.Add({threads, std::string(mode), pad, scale}, trial).ok());
  };
  add(64, "regs", true, 0.5,
      {.latency_ns = 1234.5,
       .latency_ns_std = 12.25,
       .evaluate_seconds = 0.75,
       .registers = 32,
       .spill_bytes = 8,
       .shared_bytes = 1024});
  add(64, "a,\"b\"", false, 2.0, {.latency_ns = 999.0 / 7});
  add(128, "regs", true, 0.5, {.outcome = Outcome::kCompileFailed, .evaluate_seconds = 2});
  add(128, "regs", false, 0.5, {.outcome = Outcome::kInvalidConfig});
  add(128, "regs", false, 2.0, {.outcome = Outcome::kLaunchFailed});
  auto recording = std::move(builder).Build();
  EXPECT_TRUE(recording.ok()) << recording.status();
  return *std::move(recording);
}

TEST(FormatsTest, TheNeutralFormKeepsEverything) {
  const Recording sample = Sample();
  const auto files = WriteRecording(sample, RecordingFormat::kNeutral, "sample");
  ASSERT_EQ(files.size(), 2u);
  EXPECT_EQ(files[1].name, "sample.csv.gz");
  auto read = ReadRecording(files);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->name, sample.name);
  EXPECT_EQ(read->kernel, sample.kernel);
  EXPECT_EQ(read->device, sample.device);
  EXPECT_EQ(read->problem, sample.problem);
  EXPECT_EQ(read->constraints, sample.constraints);
  EXPECT_EQ(read->digits, sample.digits);
  EXPECT_EQ(Configs(*read), Configs(sample));
  ASSERT_EQ(read->trials.size(), sample.trials.size());
  for (size_t i = 0; i < sample.trials.size(); ++i) {
    EXPECT_EQ(read->trials[i].outcome, sample.trials[i].outcome);
    EXPECT_DOUBLE_EQ(read->trials[i].latency_ns, sample.trials[i].latency_ns);
    EXPECT_DOUBLE_EQ(read->trials[i].latency_ns_std, sample.trials[i].latency_ns_std);
    EXPECT_DOUBLE_EQ(read->trials[i].evaluate_seconds, sample.trials[i].evaluate_seconds);
    EXPECT_EQ(read->trials[i].registers, sample.trials[i].registers);
    EXPECT_EQ(read->trials[i].shared_bytes, sample.trials[i].shared_bytes);
  }
  // A recording that was read writes the same bytes.
  const auto again = WriteRecording(*read, RecordingFormat::kNeutral, "sample");
  EXPECT_EQ(again[0].content, files[0].content);
  EXPECT_EQ(again[1].content, files[1].content);
}

TEST(FormatsTest, OtherPeoplesFormatsKeepConfigsTimesAndFailures) {
  const Recording sample = Sample();
  for (const RecordingFormat format : {RecordingFormat::kKernelTuner, RecordingFormat::kT4}) {
    auto read = ReadRecording(WriteRecording(sample, format, "sample"));
    ASSERT_TRUE(read.ok()) << ToText(format) << ": " << read.status();
    EXPECT_EQ(Configs(*read), Configs(sample)) << ToText(format);
    EXPECT_EQ(read->device, sample.device);
    EXPECT_EQ(read->kernel, sample.kernel);
    EXPECT_TRUE(read->sampled) << "neither says whether all valid configs are in it";
    ASSERT_EQ(read->trials.size(), sample.trials.size());
    for (size_t i = 0; i < sample.trials.size(); ++i) {
      EXPECT_EQ(read->trials[i].outcome, sample.trials[i].outcome) << ToText(format) << i;
      EXPECT_DOUBLE_EQ(read->trials[i].latency_ns, sample.trials[i].latency_ns);
      EXPECT_DOUBLE_EQ(read->trials[i].evaluate_seconds, sample.trials[i].evaluate_seconds);
    }
  }
}

constexpr char kCache[] = R"({
"device_name": "NVIDIA RTX A4000",
"kernel_name": "convolution_kernel",
"problem_size": [4096, 4096],
"tune_params_keys": ["block_size_x", "read_only"],
"tune_params": {"block_size_x": [16, 32], "read_only": [0, 1]},
"objective": "time",
"cache": {
"16,0": {"block_size_x": 16, "read_only": 0, "time": 3.875, "times": [3.5, 4.25],
  "compile_time": 918.6, "verification_time": 0, "benchmark_time": 126.4, "GFLOP/s": NaN,
  "strategy_time": 5, "framework_time": 105, "timestamp": "2022-12-23 12:10:59"},
"16,1": {"block_size_x": 16, "read_only": 1, "time": "RuntimeFailedConfig",
  "compile_time": 900, "verification_time": null, "benchmark_time": null, "strategy_time": 0,
  "framework_time": 100, "timestamp": "2022-12-23 12:10:59"},
"32,0": {"time": "CompilationFailedConfig", "timestamp": "2022-12-23 12:10:59"},
"32,1": {"time": 1e20, "timestamp": "2022-12-23 12:10:59"},)";

void ExpectTheCache(const absl::StatusOr<Recording>& read, size_t size) {
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->device, "NVIDIA RTX A4000");
  EXPECT_EQ(read->problem, "4096 4096");
  ASSERT_EQ(read->trials.size(), size);
  EXPECT_DOUBLE_EQ(read->trials[0].latency_ns, 3.875e6);
  EXPECT_DOUBLE_EQ(read->trials[0].latency_ns_std, 0.75 / std::sqrt(2.0) * 1e6);
  EXPECT_DOUBLE_EQ(read->trials[0].evaluate_seconds, 1.15);
  EXPECT_EQ(read->trials[1].outcome, Outcome::kLaunchFailed);
  EXPECT_DOUBLE_EQ(read->trials[1].evaluate_seconds, 1.0);
  EXPECT_EQ(read->trials[2].outcome, Outcome::kCompileFailed);
}

TEST(FormatsTest, ACacheThatIsStillWrittenIsRead) {
  const std::string open = kCache;
  ExpectTheCache(ReadRecording({{"a4000.json", open}}), 4);                         // running
  ExpectTheCache(ReadRecording({{"a4000.json", open + "\n\"48,0\": {\"blo"}}), 4);  // killed
  ExpectTheCache(ReadRecording({{"a4000.json", open.substr(0, open.size() - 1) + "}}"}}), 4);
  const auto last = ReadRecording({{"a4000.json", open}});
  EXPECT_EQ(last->trials[3].outcome, Outcome::kLaunchFailed) << "1e20 stands for a failure";
  EXPECT_EQ(ToText(last->ConfigOf(3)), "block_size_x=32 read_only=1") << "from the key";
}

TEST(FormatsTest, GzipIsRecognised) {
  ExpectTheCache(ReadRecording({{"a4000.json.gz", Gzip(kCache)}}), 4);
  const std::string packed = Gzip(kCache);
  const auto cut = ReadRecording({{"a.json.gz", packed.substr(0, packed.size() / 2)}});
  EXPECT_THAT(cut.status().message(), HasSubstr("a.json.gz: damaged"));
  EXPECT_FALSE(Gunzip(Gzip(std::string(1000, 'x')), 10).ok());
  EXPECT_EQ(*Gunzip(packed + Gzip("more"), 1 << 20), kCache + std::string("more"));
  const std::string text = std::string(100'000, 'x') + "end" + std::string(100'000, 'y');
  EXPECT_EQ(*GunzipUntil(Gzip(text), "end", 1 << 20), text.substr(0, 100'000));
  EXPECT_EQ(*GunzipUntil(Gzip(text), "none", 1 << 20), text);
}

TEST(FormatsTest, ADefinitionGivesValuesAndConstraints) {
  constexpr char kT1[] = R"({"ConfigurationSpace": {"TuningParameters": [
      {"Name": "block_size_x", "Type": "int",
       "Values": "[f(i) for i in range(4)]", "Default": 16}]}})";
  constexpr char kGoodT1[] = R"({"ConfigurationSpace": {"TuningParameters": [
      {"Name": "read_only", "Type": "int", "Values": "[0, 1]", "Default": 0},
      {"Name": "block_size_x", "Type": "int", "Values": "[64] + [16 * i for i in [2, 1]]",
       "Default": 16}],
      "Conditions": [{"Expression": "block_size_x < 64", "Parameters": ["block_size_x"]}]},
      "KernelSpecification": {"KernelName": "k", "ProblemSize": [1, 2]}})";
  EXPECT_THAT(ReadRecording({{"c.json", kCache}, {"t1.json", kT1}}).status().message(),
              HasSubstr("t1.json: ConfigurationSpace.TuningParameters: 'block_size_x'"));
  auto read = ReadRecording({{"c.json", kCache}, {"t1.json", kGoodT1}});
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_THAT(read->constraints, ElementsAre("block_size_x < 64"));
  EXPECT_THAT(Configs(*read),
              ElementsAre("read_only=0 block_size_x=32", "read_only=0 block_size_x=16",
                          "read_only=1 block_size_x=32", "read_only=1 block_size_x=16"));
}

TEST(FormatsTest, T4UnitsAndInvalidity) {
  constexpr char kT4[] = R"({"schema_version": "1.0.0", "results": [
    {"configuration": {"z": 2, "a": 1}, "invalidity": "correct", "correctness": 1,
     "times": {"compilation_time": 10, "benchmark": 20, "validation": 30, "framework": 40,
               "runtimes": [1.0, 3.0]},
     "measurements": [{"name": "GFLOP/s", "value": 77, "unit": ""},
                      {"name": "time", "value": 0.002, "unit": "s"}], "objectives": ["GFLOP/s"]},
    {"configuration": {"z": 1, "a": 1}, "invalidity": "timeout", "correctness": 0, "times": {}},
    {"configuration": {"z": 1, "a": 2}, "invalidity": "correctness", "correctness": 0,
     "times": {}}]})";
  auto read = ReadRecording({{"results.json", kT4}});
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_THAT(Configs(*read), ElementsAre("z=1 a=1", "z=1 a=2", "z=2 a=1"));
  EXPECT_EQ(read->trials[0].outcome, Outcome::kTimedOut);
  EXPECT_EQ(read->trials[1].outcome, Outcome::kWrongResult);
  EXPECT_DOUBLE_EQ(read->trials[2].latency_ns, 2e6);
  EXPECT_DOUBLE_EQ(read->trials[2].evaluate_seconds, 0.1);
}

TEST(FormatsTest, T4WithoutATimeOfBenchmarkingHasThatOfItsLaunches) {
  const auto seconds = [](const std::string& metadata, const std::string& benchmark,
                          const std::string& runtimes) {
    auto read = ReadRecording(
        {{"results.json",
          absl::StrCat(R"({"schema_version": "1.0.0", )", metadata, R"( "results": [
        {"configuration": {"a": 1}, "invalidity": "correct", "correctness": 1,
         "times": {"compilation_time": 400, "validation": 300, )",
                       benchmark, R"("runtimes": )", runtimes,
                       R"(}, "measurements": [{"name": "time", "value": 1000, "unit": "ms"}],
         "objectives": ["time"]}]})")}});
    EXPECT_TRUE(read.ok()) << read.status();
    return read.ok() ? read->trials[0].evaluate_seconds : -1;
  };
  EXPECT_DOUBLE_EQ(seconds("", "", "[1000, 1000, 1000]"), 3.7);
  EXPECT_DOUBLE_EQ(seconds("", R"("benchmark": 3010, )", "[1000, 1000, 1000]"), 3.71);
  EXPECT_DOUBLE_EQ(seconds("", "", "[]"), 0.7);
  // The file's times are in seconds, the launches' in the unit of the measurement.
  const std::string in_seconds = R"("metadata": {"timeunit": "seconds"},)";
  EXPECT_DOUBLE_EQ(seconds(in_seconds, "", "[1000, 1000]"), 702);
  EXPECT_DOUBLE_EQ(seconds(in_seconds, "", "[1, 1]"), 702);
}

TEST(FormatsTest, ErrorsSayWhere) {
  auto error = [](std::vector<RecordingFile> files) {
    const auto read = ReadRecording(files);
    EXPECT_FALSE(read.ok());
    return std::string(read.status().message());
  };
  const std::string header =
      R"({"name": "x", "data": "x.csv", "parameters": [{"name": "A", "values": [1, 2]}]})";
  EXPECT_THAT(error({}), HasSubstr("no recording among the files"));
  EXPECT_THAT(error({{"x.json", header}}), HasSubstr("x.csv: it must stand beside it"));
  EXPECT_THAT(error({{"x.json", "{\n\n oops"}}), HasSubstr("x.json: not JSON from line 3 on"));
  EXPECT_THAT(error({{"x.json", "[1]"}}), HasSubstr("x.json: no recording"));
  EXPECT_THAT(error({{"x.json", header}, {"x.csv", "A\n1\n"}}), HasSubstr("no column 'time_ms'"));
  EXPECT_THAT(error({{"x.json", header}, {"x.csv", "B,time_ms\n1,2\n"}}),
              HasSubstr("line 1: no column 'A'"));
  EXPECT_THAT(error({{"x.json", header}, {"x.csv", "A,time_ms\n1,2\n3,1\n"}}),
              HasSubstr("line 3: param 'A' has no value 3"));
  EXPECT_THAT(error({{"x.json", header}, {"x.csv", "A,time_ms\n1\n"}}), HasSubstr("1 cells for 2"));
  EXPECT_THAT(error({{"x.json", header}, {"x.csv", "A,time_ms\n1,fast\n"}}), HasSubstr("'fast'"));
  EXPECT_THAT(error({{"x.json", header}, {"x.csv", "A,time_ms\n"}}), HasSubstr("no configs"));
  EXPECT_THAT(error({{"c.json", kCache}, {"d.json", kCache}}), HasSubstr("two recordings"));
  EXPECT_FALSE(ParseFormat("xml").ok());
}

}  // namespace
}  // namespace tune::replay
