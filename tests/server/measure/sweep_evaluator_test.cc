// SPDX-License-Identifier: Apache-2.0
#include "server/measure/sweep_evaluator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"
#include "base/status_macros.h"
#include "server/wire/spec.h"
#include "tests/server/supervision/scripted.h"
#include "tuner/device_profile.h"
#include "tuner/strategies/strategy.h"
#include "tuner/sweep/sweep.h"

namespace tune::server {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

// A kernel for the scripted worker: COMPILE and RUN are what happens, INDEX the nanoseconds of a
// RUN that is "samples".
std::shared_ptr<const Kernel> ScriptedKernel(const std::string& compile, const std::string& run,
                                             const std::string& index) {
  const std::string spec = absl::StrCat(R"spec(
name: "scripted" source: "s.cu" entry: "s"
dims { name: "n" default_value: 1000 }
dtypes: ["f32"]
params { name: "COMPILE" values: ")spec",
                                        compile, R"spec(" default_value: "'ok'" }
params { name: "RUN" values: ")spec",
                                        run, R"spec(" default_value: "'samples'" }
params { name: "INDEX" values: ")spec",
                                        index, R"spec(" default_value: "100" }
constraints { expression: "COMPILE == 'ok' or RUN == 'samples'" }
constraints { expression: "(COMPILE == 'ok' and RUN == 'samples') or INDEX == 100" }
args { name: "y" buffer { dtype: "f32" shape: "n" role: ROLE_OUTPUT } }
launch { grid: "1" block: "32" }
work { flops: "n" bytes: "8 * n" peak: "'f32'" }
reference { entry: "r" launch { grid: "1" block: "1" } }
)spec");
  absl::StatusOr<std::shared_ptr<const Kernel>> kernel =
      ReadKernel("scripted.textproto", spec, {{"s.cu", "text"}});
  EXPECT_TRUE(kernel.ok()) << kernel.status();
  return *kernel;
}

class SweepEvaluatorTest : public testing::Test {
 protected:
  // With an INDEX of 100, all else well; 8 ns is the floor of 8000 bytes at 1 TB/s.
  void Make(const std::string& compile, const std::string& run, const std::string& index) {
    kernel_ = ScriptedKernel(compile, run, index);
    cache_ = CompileCache::Open(dir_ / "cache").value();
    compilers_ = std::make_unique<Compilers>();
    AddCompiler(Language::kCuda, ScriptedCommand("compile", dir_));
    OpenDevice();
    absl::StatusOr<std::unique_ptr<SweepEvaluator>> evaluator = MakeEvaluator();
    ASSERT_TRUE(evaluator.ok()) << evaluator.status();
    evaluator_ = *std::move(evaluator);
  }
  void AddCompiler(Language language, const WorkerCommand& command) {
    CompilePoolOptions pool;
    pool.command = command;
    pool.workers = 2;
    pool.cache = cache_.get();
    pool.deadline = compile_deadline_;
    compilers_->Add({.for_host = ProfileOfTarget(target_).is_host,
                     .languages = {language},
                     .pool = std::make_unique<CompilePool>(pool)});
  }
  void OpenDevice() {
    DeviceSupervisorOptions options;
    options.id = "test:0";
    options.command = ScriptedCommand("device", dir_, {"--target", target_});
    options.run_deadline = run_deadline_;
    supervisor_ = std::make_unique<DeviceSupervisor>(options);
  }

  absl::StatusOr<std::unique_ptr<SweepEvaluator>> MakeEvaluator() {
    ASSIGN_OR_RETURN(problem_, kernel_->MakeProblem({}, "", target_));
    return SweepEvaluator::Create({.kernel = kernel_,
                                   .problem = problem_,
                                   .device = supervisor_.get(),
                                   .compilers = compilers_.get(),
                                   .budget = budget_,
                                   .cancelled = [this] { return cancelled_.load(); },
                                   .early = early_});
  }
  std::vector<Config> AllConfigs() {
    const Space space = kernel_->MakeSpace(problem_, evaluator_->traits()).value();
    std::vector<Config> configs;
    for (uint64_t i = 0; i < space.size(); ++i) configs.push_back(space.At(i));
    return configs;
  }
  // Every config's trial, by its text.
  std::map<std::string, Trial> Sweep() {
    const Space space = kernel_->MakeSpace(problem_, evaluator_->traits()).value();
    auto strategy = MakeStrategy("exhaustive", space).value();
    std::map<std::string, Trial> trials;
    SweepHooks hooks;
    hooks.store = [&](Trial& trial) {
      trials[ToText(trial.config)] = trial;
      return absl::OkStatus();
    };
    hooks.progress = [](const SweepSummary&, const Trial&) {};
    hooks.cancelled = &cancelled_;
    absl::StatusOr<SweepSummary> summary = RunSweep(space, *strategy, *evaluator_, {}, {}, hooks);
    EXPECT_TRUE(summary.ok()) << summary.status();
    return trials;
  }
  // Prepared while the configs compile.
  void StartEarlyWithReference(const std::string& behaviour) {
    evaluator_.reset();
    early_ = true;
    const std::string sick = absl::StrReplaceAll(
        kernel_->spec_text(),
        {{"default_value: \"'samples'\"", absl::StrCat("default_value: \"'", behaviour, "'\"")}});
    kernel_ = ReadKernel("s.textproto", sick, {{"s.cu", "text"}}).value();
    evaluator_ = MakeEvaluator().value();
    for (const Config& config : AllConfigs()) (void)evaluator_->Start(config);
  }
  std::vector<std::string> LogLines() { return LogLines(dir_); }
  static std::vector<std::string> LogLines(const TempDir& dir) {
    std::vector<std::string> lines;
    std::ifstream log(dir / "log");
    for (std::string line; std::getline(log, line);) lines.push_back(line);
    return lines;
  }

  TempDir dir_;
  std::string target_ = "sm_90a";
  bool early_ = false;
  absl::Duration compile_deadline_ = absl::Seconds(2);
  absl::Duration run_deadline_ = absl::Seconds(1);
  absl::Duration budget_ = absl::InfiniteDuration();
  std::atomic<bool> cancelled_{false};
  Problem problem_;
  std::shared_ptr<const Kernel> kernel_;
  std::unique_ptr<CompileCache> cache_;
  std::unique_ptr<Compilers> compilers_;
  std::unique_ptr<DeviceSupervisor> supervisor_;
  std::unique_ptr<SweepEvaluator> evaluator_;
};

std::string Text(const std::string& compile, const std::string& run, int index) {
  return absl::StrCat("COMPILE=", compile, " RUN=", run, " INDEX=", index);
}

TEST_F(SweepEvaluatorTest, MeasuresEveryConfig) {
  Make("['ok']", "['samples']", "range(100, 150)");
  const std::map<std::string, Trial> trials = Sweep();
  ASSERT_THAT(trials, SizeIs(50));
  const Trial& trial = trials.at(Text("ok", "samples", 123));
  EXPECT_EQ(trial.outcome, Outcome::kOk) << trial.message;
  EXPECT_EQ(trial.measurement.latency_ns_median, 123);
  EXPECT_THAT(trial.measurement.samples_ns, SizeIs(10));
  EXPECT_NEAR(trial.measurement.bytes_per_second, 8000 / 123e-9, 1e6);
  EXPECT_NEAR(trial.measurement.peak_fraction, 8.0 / 123, 1e-3);
  EXPECT_EQ(trial.measurement.clock, Clock::kHost);
  EXPECT_EQ(trial.compile_seconds, 0.25);
  EXPECT_FALSE(trial.compile_cached);
  EXPECT_GT(trial.finished_unix_ms, 0);
  EXPECT_EQ(evaluator_->roof().bound, Bound::kMemory);
  EXPECT_EQ(evaluator_->compiler_version(), "scripted 1");
  EXPECT_EQ(evaluator_->worker_restarts(), 0u);
}

TEST_F(SweepEvaluatorTest, TheSecondSweepCompilesNothing) {
  Make("['ok', 'outcome_3']", "['samples']", "[100, 101, 102]");
  Sweep();
  evaluator_ = MakeEvaluator().value();
  for (const auto& [config, trial] : Sweep()) EXPECT_TRUE(trial.compile_cached) << config;
  EXPECT_EQ(evaluator_->compile_cache_hits(), 4u);
}

// The measure of fault isolation: everything goes wrong at once, and no innocent config pays.
TEST_F(SweepEvaluatorTest, EveryBadConfigIsBlamedAndNoGoodOne) {
  Make("['ok', 'crash', 'hang', 'outcome_3', 'outcome_2', 'garbage']",
       "['samples', 'crash', 'hang', 'outcome_7', 'outcome_6', 'outcome_5', 'garbage', "
       "'oversized', 'toofast']",
       "range(100, 120)");
  const std::map<std::string, Trial> trials = Sweep();
  const std::map<std::string, Outcome> bad = {
      {Text("crash", "samples", 100), Outcome::kCompileFailed},
      {Text("hang", "samples", 100), Outcome::kCompileTimeout},
      {Text("outcome_3", "samples", 100), Outcome::kCompileFailed},
      {Text("outcome_2", "samples", 100), Outcome::kInvalidConfig},
      {Text("garbage", "samples", 100), Outcome::kCompileFailed},
      {Text("ok", "crash", 100), Outcome::kFaulted},
      {Text("ok", "hang", 100), Outcome::kTimedOut},
      {Text("ok", "outcome_7", 100), Outcome::kFaulted},
      {Text("ok", "outcome_6", 100), Outcome::kWrongResult},
      {Text("ok", "outcome_5", 100), Outcome::kLaunchFailed},
      {Text("ok", "garbage", 100), Outcome::kFaulted},
      {Text("ok", "oversized", 100), Outcome::kFaulted},
      {Text("ok", "toofast", 100), Outcome::kAboveRoof},
  };
  EXPECT_THAT(trials, SizeIs(20 + bad.size()));
  for (const auto& [config, trial] : trials) {
    const auto expected = bad.find(config);
    EXPECT_EQ(trial.outcome, expected == bad.end() ? Outcome::kOk : expected->second) << config;
    if (expected != bad.end() && config.find("outcome_") == std::string::npos) {
      EXPECT_NE(trial.message, "") << config;
    }
  }
  EXPECT_GE(evaluator_->worker_restarts(), 10u);
}

TEST_F(SweepEvaluatorTest, OnTheCpuNothingCompilesWhileSomethingRuns) {
  target_ = "cpu";
  Make("['ok']", "['samples']", "range(100, 130)");
  EXPECT_THAT(Sweep(), SizeIs(30));
  ASSERT_TRUE(evaluator_->Remeasure(AllConfigs()).ok());
  int compiling = 0, running = 0;
  for (const std::string& line : LogLines()) {
    if (line == "begin compile") ++compiling;
    if (line == "end compile") --compiling;
    if (absl::StartsWith(line, "begin run")) ++running;
    if (absl::StartsWith(line, "end run")) --running;
    EXPECT_FALSE(compiling > 0 && running > 0);
  }
}

// Four variants that hang for a minute each, and four whose compile does.
TEST_F(SweepEvaluatorTest, ABudgetOfTimeEndsCompilesAndRunsThatHangAndBlamesNobody) {
  compile_deadline_ = run_deadline_ = absl::Minutes(1);
  for (const char* target : {"sm_90a", "cpu"}) {
    evaluator_.reset();
    target_ = target;
    budget_ = absl::Seconds(3);
    const absl::Time start = absl::Now();
    Make("['ok', 'hang', 'once_hang']", "['samples', 'hang', 'once_slow_1']", "[100, 101]");
    const Space space = kernel_->MakeSpace(problem_, evaluator_->traits()).value();
    auto strategy = MakeStrategy("exhaustive", space).value();
    std::vector<Trial> trials;
    SweepHooks hooks;
    hooks.store = [&](Trial& trial) {
      trials.push_back(trial);
      return absl::OkStatus();
    };
    const SweepSummary summary =
        RunSweep(space, *strategy, *evaluator_, {.time = evaluator_->time_left()}, {}, hooks)
            .value();
    EXPECT_LT(absl::Now() - start, absl::Seconds(10)) << target;
    EXPECT_EQ(summary.end, SweepEnd::kTime);
    EXPECT_GE(summary.dropped, 1u);
    for (const Trial& trial : trials) EXPECT_EQ(trial.outcome, Outcome::kOk) << trial.message;
    EXPECT_EQ(supervisor_->Status().state, DeviceState::kHealthy);
    // The rest of the search does not prevent measuring the best again.
    evaluator_->ExpectRounds(1, absl::Seconds(60));
    const std::vector<Config> best = {
        space.At(*space.IndexOf(*kernel_->DefaultConfig(problem_, evaluator_->traits())))};
    absl::StatusOr<std::vector<Trial>> again = evaluator_->Remeasure(best);
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(again->at(0).outcome, Outcome::kOk);
  }
}

TEST_F(SweepEvaluatorTest, ARoundThatHangsEndsAtItsLimit) {
  run_deadline_ = absl::Minutes(1);
  Make("['ok']", "['samples', 'hang']", "[100]");
  const absl::Time start = absl::Now();
  evaluator_->ExpectRounds(1, absl::Milliseconds(500));
  EXPECT_TRUE(absl::IsDeadlineExceeded(evaluator_->Remeasure(AllConfigs()).status()));
  EXPECT_LT(absl::Now() - start, absl::Seconds(10));
}

TEST_F(SweepEvaluatorTest, AReferenceThatTakesTheWholeBudgetSaysSo) {
  Make("['ok', 'hang']", "['samples', 'hang']", "[100]");
  evaluator_.reset();
  budget_ = absl::Milliseconds(500);
  const std::string spec = kernel_->spec_text();
  // The reference is compiled, and runs, as the default config says.
  for (const char* healthy : {"'ok'", "'samples'"}) {
    const std::string sick = absl::StrReplaceAll(
        spec, {{absl::StrCat("default_value: \"", healthy, "\""), "default_value: \"'hang'\""}});
    ASSERT_NE(sick, spec);
    kernel_ = ReadKernel("s.textproto", sick, {{"s.cu", "text"}}).value();
    const absl::Time start = absl::Now();
    const absl::Status status = MakeEvaluator().status();
    EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("the budget of 500ms was spent"));
    EXPECT_THAT(std::string(status.message()), HasSubstr("reference"));
    EXPECT_LT(absl::Now() - start, absl::Seconds(10));
  }
}

TEST_F(SweepEvaluatorTest, RemeasuresInTheOrderGivenEachTimeInAFreshWorker) {
  Make("['ok', 'outcome_3']", "['samples', 'outcome_6', 'count']", "[100, 101]");
  std::vector<Config> configs = AllConfigs();
  std::reverse(configs.begin(), configs.end());
  for (int round = 0; round < 3; ++round) {
    absl::StatusOr<std::vector<Trial>> trials = evaluator_->Remeasure(configs);
    ASSERT_TRUE(trials.ok()) << trials.status();
    ASSERT_EQ(trials->size(), configs.size());
    std::map<std::string, Trial> by_text;
    for (size_t i = 0; i < configs.size(); ++i) {
      EXPECT_EQ((*trials)[i].config, configs[i]);
      by_text[ToText(configs[i])] = (*trials)[i];
    }
    EXPECT_THAT(by_text.at(Text("ok", "samples", 101)).measurement.samples_ns, SizeIs(10));
    EXPECT_EQ(by_text.at(Text("ok", "outcome_6", 100)).outcome, Outcome::kWrongResult);
    EXPECT_EQ(by_text.at(Text("outcome_3", "samples", 100)).outcome, Outcome::kCompileFailed);
    // Counts earlier runs of the process: the reference, the canary and the others of its turn.
    EXPECT_LE(std::stoi(by_text.at(Text("ok", "count", 100)).message), 2 + 4);
  }
  int compiles = 0;
  for (const std::string& line : LogLines()) compiles += line == "begin compile";
  EXPECT_EQ(compiles, 1 + 5) << "the reference, and each config once";
}

TEST_F(SweepEvaluatorTest, RemeasuringAbandonsWhatIsInFlight) {
  compile_deadline_ = absl::Seconds(60);
  Make("['ok', 'hang']", "['samples']", "range(100, 110)");
  for (const Config& config : AllConfigs()) ASSERT_TRUE(evaluator_->Start(config).ok());
  const Config good = kernel_->DefaultConfig(problem_, evaluator_->traits()).value();
  absl::StatusOr<std::vector<Trial>> trials = evaluator_->Remeasure({good});
  ASSERT_TRUE(trials.ok()) << trials.status();
  EXPECT_EQ(trials->at(0).outcome, Outcome::kOk);
  EXPECT_EQ(evaluator_->Next(absl::Milliseconds(100)).value(), std::nullopt);
}

TEST_F(SweepEvaluatorTest, EndsAtOnceInTheMiddleOfACompileOrARun) {
  compile_deadline_ = run_deadline_ = absl::Seconds(60);
  for (const char* what : {"hang", "slow_1"}) {
    for (const char* target : {"sm_90a", "cpu"}) {
      target_ = target;
      evaluator_.reset();
      Make(absl::StrCat("['ok', '", what, "']"), "['samples', 'hang']", "[100]");
      for (const Config& config : AllConfigs()) ASSERT_TRUE(evaluator_->Start(config).ok());
      while (evaluator_->Next(absl::Milliseconds(300)).value().has_value()) {
      }
      const absl::Time start = absl::Now();
      evaluator_.reset();
      EXPECT_LT(absl::Now() - start, absl::Seconds(2)) << what << " " << target;
    }
  }
}

TEST_F(SweepEvaluatorTest, ASweepThatIsCancelledEndsCleanly) {
  run_deadline_ = absl::Seconds(60);
  Make("['ok']", "['samples', 'hang']", "range(100, 103)");
  TrueAfter cancel(absl::Milliseconds(500));
  std::thread relay([&] {
    while (!cancel.flag()) absl::SleepFor(absl::Milliseconds(5));
    cancelled_ = true;
  });
  const std::map<std::string, Trial> trials = Sweep();
  EXPECT_LT(absl::Now() - cancel.set_at(), absl::Seconds(2));
  relay.join();
  for (const auto& [config, trial] : trials) EXPECT_EQ(trial.outcome, Outcome::kOk) << config;
}

TEST_F(SweepEvaluatorTest, WhileTheReferenceRunsTrialsCompile) {
  Make("['ok']", "['samples', 'hang']", "[100]");
  evaluator_.reset();
  supervisor_->Close();
  cache_ = CompileCache::Open(dir_ / "another-cache").value();
  compilers_ = std::make_unique<Compilers>();
  AddCompiler(Language::kCuda, ScriptedCommand("compile", dir_));
  const auto compiles = [&] {
    const std::vector<std::string> lines = LogLines();
    return std::count(lines.begin(), lines.end(), "end compile");
  };
  const auto before = compiles();
  StartEarlyWithReference("hang");
  // The reference, and both: while the device is at work on the reference.
  for (int i = 0; i < 100 && compiles() < before + 3; ++i) absl::SleepFor(absl::Milliseconds(20));
  EXPECT_GE(compiles(), before + 3);
  const absl::Time start = absl::Now();
  evaluator_.reset();
  EXPECT_LT(absl::Now() - start, absl::Seconds(1));
  // With a reference that is well they are measured.
  kernel_ = ScriptedKernel("['ok']", "['samples']", "range(100, 120)");
  evaluator_ = MakeEvaluator().value();
  EXPECT_THAT(Sweep(), SizeIs(20));
}

TEST_F(SweepEvaluatorTest, ARoundWaitsUntilTheDeviceIsPrepared) {
  Make("['ok']", "['samples']", "[100]");
  const std::vector<Config> configs = AllConfigs();
  evaluator_.reset();
  early_ = true;
  for (int i = 0; i < 5; ++i) {
    evaluator_ = MakeEvaluator().value();
    const auto trials = evaluator_->Remeasure(configs);  // as where all trials are known
    ASSERT_TRUE(trials.ok()) << trials.status();
    ASSERT_EQ(trials->size(), 1u);
    EXPECT_EQ(trials->front().outcome, Outcome::kOk) << trials->front().message;
    evaluator_.reset();
  }
}

TEST_F(SweepEvaluatorTest, ACompilerThatIsMissingIsASentence) {
  Make("['ok']", "['samples']", "[100]");
  evaluator_.reset();
  compilers_ = std::make_unique<Compilers>();
  AddCompiler(Language::kCuda,
              ScriptedCommand("compile", dir_, {"--broken", "install a compiler"}));
  const absl::Status status = MakeEvaluator().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("install a compiler"));
}

// A kernel in PTX, with its reference in CUDA C++; each text is a behaviour.
std::shared_ptr<const Kernel> PtxKernel(const std::string& ptx) {
  return ReadKernel("two.textproto", R"spec(
name: "two" language: PTX source: "k.ptx" entry: "k"
dims { name: "n" default_value: 1000 }
dtypes: "f32"
params { name: "THREADS" values: "[32, 64]" default_value: "32" }
args { name: "y" buffer { dtype: "f32" shape: "n" role: ROLE_OUTPUT } }
launch { grid: "1" block: "THREADS" }
work { flops: "n" bytes: "8 * n" peak: "'f32'" }
reference { source: "r.cu" entry: "r" launch { grid: "1" block: "1" } }
)spec",
                    {{"k.ptx", ptx}, {"r.cu", "ok"}})
      .value();
}

class TwoLanguagesTest : public SweepEvaluatorTest {
 protected:
  void MakePtx(const std::string& ptx) {
    kernel_ = PtxKernel(ptx);
    compilers_ = std::make_unique<Compilers>();
    AddCompiler(Language::kCuda, ScriptedCommand("compile", dir_));
    AddCompiler(Language::kPtx, ScriptedCommand("compile", ptx_dir_));
    OpenDevice();
    absl::StatusOr<std::unique_ptr<SweepEvaluator>> evaluator = MakeEvaluator();
    ASSERT_TRUE(evaluator.ok()) << evaluator.status();
    evaluator_ = *std::move(evaluator);
  }

  TempDir ptx_dir_;
};

TEST_F(TwoLanguagesTest, KernelAndReferenceGoEachToTheCompilerOfTheirOwn) {
  MakePtx("ok");
  EXPECT_EQ(evaluator_->compiler_version(), "scripted PTX 1");
  for (const auto& [config, trial] : Sweep()) {
    EXPECT_EQ(trial.outcome, Outcome::kOk) << config << ": " << trial.message;
  }
  const auto compiles = [](const std::vector<std::string>& lines) {
    return std::count(lines.begin(), lines.end(), "begin compile");
  };
  EXPECT_EQ(compiles(LogLines()), 1) << "the reference";
  EXPECT_EQ(compiles(LogLines(ptx_dir_)), 2) << "the variants";
}

TEST_F(TwoLanguagesTest, StepsThatDoNotFitWhatWasCompiledAreAnInvalidConfig) {
  MakePtx("threads 64");
  const std::map<std::string, Trial> trials = Sweep();
  EXPECT_EQ(trials.at("THREADS=64").outcome, Outcome::kOk) << trials.at("THREADS=64").message;
  EXPECT_EQ(trials.at("THREADS=32").outcome, Outcome::kInvalidConfig);
  EXPECT_THAT(trials.at("THREADS=32").message, HasSubstr("compiled for exactly 64"));
}

TEST_F(TwoLanguagesTest, ALanguageThatNobodyCompilesIsASentence) {
  kernel_ = PtxKernel("ok");
  compilers_ = std::make_unique<Compilers>();
  AddCompiler(Language::kCuda, ScriptedCommand("compile", dir_));
  OpenDevice();
  const absl::Status status = MakeEvaluator().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(status.message()), HasSubstr("nothing compiles PTX for sm_90a"));
}

}  // namespace
}  // namespace tune::server
