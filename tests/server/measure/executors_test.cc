// SPDX-License-Identifier: Apache-2.0
#include "server/measure/executors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/server/measure/fake_executor.h"
#include "tests/server/measure/fake_session.h"

namespace tune::server {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

absl::Status Fails(Attempt& attempt) {
  attempt.trial.outcome = Outcome::kCompileFailed;
  return absl::OkStatus();
}

TEST(MeasureTrialTest, ATrialHasWhatTheReportSays) {
  FakeSession session;
  session.measure = [](size_t, const Program&) {
    RunReport report = Timed(123);
    report.stopped_early = true;
    report.resources.registers = 40;
    return Leg{report};
  };
  Trial trial;
  trial.resources = {.registers = 32, .spill_bytes = 8};
  const RunRequest request{.policy = {.cache_mode = CacheMode::kWarm}};
  ASSERT_TRUE(MeasureTrial(session, 2, request, trial).ok());
  EXPECT_THAT(session.calls, ElementsAre("measure 2"));
  EXPECT_EQ(trial.measurement.latency_ns_median, 123);
  EXPECT_EQ(trial.measurement.cache_mode, CacheMode::kWarm);
  EXPECT_EQ(trial.measurement.clock, Clock::kCupti);
  EXPECT_TRUE(trial.measurement.stopped_early);
  EXPECT_EQ(trial.resources.registers, 40) << "the driver's word";
  EXPECT_EQ(trial.resources.spill_bytes, 8) << "which the driver did not say";
  EXPECT_GT(trial.finished_unix_ms, 0);
}

TEST(MeasureTrialTest, AFailedTrialHasItsMessageCut) {
  FakeSession session;
  session.measure = [](size_t, const Program&) {
    return Leg{
        {.outcome = Outcome::kWrongResult, .message = std::string(2 * kMaxTrialMessageBytes, 'x')}};
  };
  Trial trial;
  ASSERT_TRUE(MeasureTrial(session, 0, {}, trial).ok());
  EXPECT_EQ(trial.outcome, Outcome::kWrongResult);
  EXPECT_LE(trial.message.size(), kMaxTrialMessageBytes);
  EXPECT_THAT(trial.message, HasSubstr("... (cut)"));
}

TEST(VariantExecutorTest, RunsTheProgramAgainstTheRival) {
  FakeSession session;
  const Compilers compilers;
  VariantExecutor executor(compilers, session, {.samples_max = 7});
  executor.SetRival(50);
  const AttemptPtr attempt = AttemptAt(1);
  attempt->binary = "code";
  ASSERT_TRUE(executor.Measure(*attempt).ok());
  ASSERT_EQ(session.measured.size(), 1u);
  EXPECT_EQ(session.measured[0].program.binary, "code");
  EXPECT_EQ(session.measured[0].policy.samples_max, 7);
  EXPECT_EQ(session.measured[0].policy.rival_latency_ns, 50);
}

// 8000 bytes: at 1 TB/s no less than 8 ns are believed.
class AppraisingExecutorTest : public testing::Test {
 protected:
  static std::vector<Ceiling> Ceilings(double bytes_per_second) {
    return {{.name = "dram_copy", .value = bytes_per_second, .source = CeilingSource::kMeasured}};
  }
  AppraisingExecutorTest() {
    problem_.work = {.bytes = 8000};
    inner_.measure = [this](Attempt& attempt) {
      attempt.trial.message = "as measured";
      attempt.trial.measurement.latency_ns_median = median_ns_;
      attempt.trial.measurement.cache_mode = CacheMode::kCold;
      return absl::OkStatus();
    };
  }
  Trial MeasureOne(AppraisingExecutor& executor) {
    const AttemptPtr attempt = AttemptAt(1);
    EXPECT_TRUE(executor.Measure(*attempt).ok());
    return attempt->trial;
  }

  FakeExecutor inner_;
  ProblemPlan problem_;
  double median_ns_ = 16;
};

TEST_F(AppraisingExecutorTest, ATrialHasItsShareOfTheRoof) {
  AppraisingExecutor executor(inner_, problem_, 0, [] { return Ceilings(1e12); });
  executor.SetCeilings(Ceilings(1e12));
  const Trial trial = MeasureOne(executor);
  EXPECT_EQ(trial.outcome, Outcome::kOk);
  EXPECT_NEAR(trial.measurement.peak_fraction, 0.5, 1e-9);
}

TEST_F(AppraisingExecutorTest, TheFirstTrialAboveTheRoofHasTheCeilingsMeasuredAgain) {
  int raised = 0;
  AppraisingExecutor executor(inner_, problem_, 0, [&] {
    ++raised;
    return Ceilings(1e12);
  });
  executor.SetCeilings(Ceilings(1e11));  // of a busy host: a tenth of what it should be
  Trial trial = MeasureOne(executor);
  EXPECT_EQ(trial.outcome, Outcome::kOk);
  EXPECT_EQ(trial.message, "as measured");
  EXPECT_EQ(executor.roof().ceiling, 1e12);
  median_ns_ = 1;
  trial = MeasureOne(executor);
  EXPECT_EQ(trial.outcome, Outcome::kAboveRoof);
  EXPECT_THAT(trial.message, HasSubstr("memory ceiling allows no less than"));
  EXPECT_EQ(raised, 1);
}

TEST_F(AppraisingExecutorTest, ACeilingThatIsNotHigherLeavesTheTrialAboveTheRoof) {
  AppraisingExecutor executor(inner_, problem_, 0, []() -> absl::StatusOr<std::vector<Ceiling>> {
    return absl::UnavailableError("busy");
  });
  executor.SetCeilings(Ceilings(1e12));
  median_ns_ = 1;
  EXPECT_EQ(MeasureOne(executor).outcome, Outcome::kAboveRoof);
}

TEST(BoundedExecutorTest, BinariesBeyondTheBoundAreFetchedWhenTheirTurnComes) {
  FakeExecutor inner;
  inner.compile = [](Attempt& attempt) {
    attempt.binary = "12345678";
    return absl::OkStatus();
  };
  std::vector<std::string> ran;
  inner.measure = [&](Attempt& attempt) {
    ran.push_back(attempt.binary);
    return absl::OkStatus();
  };
  BoundedExecutor executor(inner, /*bytes_max=*/10, [](const ProgramPlan&) {
    return CompileResult{.artifact = {.binary = "fetched"}};
  });
  const auto ignore = [](const absl::Status&) {};
  const AttemptPtr attempts[] = {AttemptAt(0), AttemptAt(1), AttemptAt(2)};
  executor.Compile(attempts[0], ignore);
  executor.Compile(attempts[1], ignore);
  EXPECT_EQ(attempts[1]->binary, "");
  EXPECT_TRUE(executor.Measure(*attempts[0]).ok());
  executor.Compile(attempts[2], ignore);  // the first takes no space any more
  EXPECT_TRUE(executor.Measure(*attempts[1]).ok());
  EXPECT_TRUE(executor.Measure(*attempts[2]).ok());
  EXPECT_THAT(ran, ElementsAre("12345678", "fetched", "12345678"));
}

TEST(BoundedExecutorTest, AnAttemptThatIsDroppedTakesNoSpace) {
  FakeExecutor inner;
  inner.compile = [](Attempt& attempt) {
    attempt.binary = "12345678";
    return absl::OkStatus();
  };
  BoundedExecutor executor(inner, /*bytes_max=*/10, nullptr);
  for (int x = 0; x < 3; ++x) {
    const AttemptPtr attempt = AttemptAt(x);
    executor.Compile(attempt, [](const absl::Status&) {});
    EXPECT_EQ(attempt->binary, "12345678");
  }
}

TEST(BoundedExecutorTest, AVariantThatDoesNotCompileAgainIsTheHarnesssFault) {
  FakeExecutor inner;
  BoundedExecutor executor(inner, 10, [](const ProgramPlan&) {
    return CompileResult{.artifact = {.outcome = Outcome::kCompileTimeout, .log = "too long"}};
  });
  const absl::Status status = executor.Measure(*AttemptAt(1));
  EXPECT_TRUE(absl::IsUnavailable(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("does not compile again: too long"));
}

AttemptPtr AttemptWithCode(int64_t x, const std::string& code) {
  const AttemptPtr attempt = AttemptAt(x);
  attempt->trial.resources.binary_sha256 = code;
  return attempt;
}

TEST(RememberingExecutorTest, EqualMachineCodeIsMeasuredOnce) {
  FakeExecutor inner;
  inner.measure = [](Attempt& attempt) {
    attempt.trial.measurement.latency_ns_median = 100;
    return absl::OkStatus();
  };
  RememberingExecutor executor(inner, /*count_max=*/10);
  const AttemptPtr twin = AttemptWithCode(2, "aa");
  ASSERT_TRUE(executor.Measure(*AttemptWithCode(1, "aa")).ok());
  ASSERT_TRUE(executor.Measure(*twin).ok());
  ASSERT_TRUE(executor.Measure(*AttemptWithCode(3, "bb")).ok());
  EXPECT_THAT(inner.measured, ElementsAre(1, 3));
  EXPECT_EQ(XOf(twin->trial), 2);
  EXPECT_EQ(twin->trial.measurement.latency_ns_median, 100);
  EXPECT_EQ(twin->trial.message, "same machine code and launch as X=1, whose result this is");
}

TEST(RememberingExecutorTest, ATwinHasNoSamplesOfItsOwn) {
  FakeExecutor inner;
  inner.measure = [](Attempt& attempt) {
    attempt.trial.measurement.samples_ns = {1, 2, 3};
    return absl::OkStatus();
  };
  RememberingExecutor executor(inner, /*count_max=*/10);
  const AttemptPtr first = AttemptWithCode(1, "aa");
  const AttemptPtr twin = AttemptWithCode(2, "aa");
  ASSERT_TRUE(executor.Measure(*first).ok());
  ASSERT_TRUE(executor.Measure(*twin).ok());
  EXPECT_EQ(first->trial.measurement.samples_ns.size(), 3u);
  EXPECT_THAT(twin->trial.measurement.samples_ns, IsEmpty());
}

TEST(RememberingExecutorTest, TheOldestBeyondTheLimitAreMeasuredAgain) {
  FakeExecutor inner;
  RememberingExecutor executor(inner, /*count_max=*/2);
  int64_t x = 0;
  for (const char* code : {"aa", "bb", "cc", "bb", "aa"}) {
    ASSERT_TRUE(executor.Measure(*AttemptWithCode(++x, code)).ok());
  }
  EXPECT_THAT(inner.measured, ElementsAre(1, 2, 3, 5));
}

TEST(RememberingExecutorTest, UnknownCodeAndFailedRunsAreNotRemembered) {
  FakeExecutor inner;
  RememberingExecutor executor(inner, /*count_max=*/10);
  ASSERT_TRUE(executor.Measure(*AttemptWithCode(1, "")).ok());
  ASSERT_TRUE(executor.Measure(*AttemptWithCode(2, "")).ok());
  inner.measure = [](Attempt&) { return absl::CancelledError("no time"); };
  ASSERT_FALSE(executor.Measure(*AttemptWithCode(3, "aa")).ok());
  ASSERT_FALSE(executor.Measure(*AttemptWithCode(4, "aa")).ok());
  EXPECT_THAT(inner.measured, ElementsAre(1, 2, 3, 4));
}

class AlternatingExecutorTest : public testing::Test {
 protected:
  void Compile(int64_t x) {
    executor_.Compile(AttemptAt(x), [this, x](const absl::Status&) { done_.push_back(x); });
  }

  FakeExecutor inner_;
  int pauses_ = 0;
  AlternatingExecutor executor_{inner_, [this]() -> absl::StatusOr<CompilePause> {
                                  ++pauses_;
                                  return CompilePause();
                                }};
  std::vector<int64_t> done_;
};

TEST_F(AlternatingExecutorTest, NothingIsMeasuredBeforeTheBatchIsCompiledInItsOrder) {
  inner_.holds = true;
  for (int64_t x : {1, 2, 3}) Compile(x);
  EXPECT_THAT(inner_.compiled, IsEmpty());
  executor_.Release();
  EXPECT_THAT(inner_.compiled, ElementsAre(1, 2, 3));
  inner_.Complete(2);
  inner_.Complete(0);
  EXPECT_THAT(done_, IsEmpty());
  inner_.Complete(1);
  EXPECT_THAT(done_, ElementsAre(1, 2, 3));
}

TEST_F(AlternatingExecutorTest, TheNextBatchWaitsUntilTheLastIsMeasured) {
  Compile(1);
  Compile(2);
  executor_.Release();
  Compile(3);
  executor_.Release();
  EXPECT_TRUE(executor_.Measure(*AttemptAt(1)).ok());
  executor_.Release();
  EXPECT_THAT(inner_.compiled, ElementsAre(1, 2));
  EXPECT_TRUE(executor_.Measure(*AttemptAt(2)).ok());
  EXPECT_EQ(pauses_, 1) << "for the batch as a whole";
  executor_.Release();
  EXPECT_THAT(inner_.compiled, ElementsAre(1, 2, 3));
  EXPECT_TRUE(executor_.Measure(*AttemptAt(3)).ok());
  EXPECT_EQ(pauses_, 2);
}

TEST_F(AlternatingExecutorTest, AVariantThatDoesNotCompileIsFinishedAtOnce) {
  inner_.holds = true;
  inner_.compile = Fails;
  Compile(1);
  Compile(2);
  executor_.Release();
  inner_.Complete(1);
  EXPECT_THAT(done_, ElementsAre(2));
  inner_.Complete(0);
  EXPECT_THAT(done_, ElementsAre(2, 1));
  Compile(3);
  executor_.Release();  // of the last batch nothing was to be measured
  EXPECT_THAT(inner_.compiled, ElementsAre(1, 2, 3));
}

TEST_F(AlternatingExecutorTest, ClearForgetsTheBatchAndWhatWaits) {
  Compile(1);
  executor_.Release();
  Compile(2);
  executor_.Clear();
  Compile(3);
  executor_.Release();
  EXPECT_THAT(inner_.compiled, ElementsAre(1, 3));
}

}  // namespace
}  // namespace tune::server
