// SPDX-License-Identifier: Apache-2.0
#include "server/measure/trial_pipeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/synchronization/notification.h"
#include "tests/server/measure/fake_executor.h"

namespace tune::server {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

constexpr absl::Duration kLong = absl::Seconds(30);

class TrialPipelineTest : public testing::Test {
 protected:
  void Make(std::function<absl::Status()> prepare = nullptr) {
    pipeline_.emplace(executor_, std::move(prepare), [this] { return interrupted_.load(); });
  }
  void Start(std::vector<int64_t> xs) {
    for (const int64_t x : xs) ASSERT_TRUE(pipeline_->Start(AttemptAt(x)).ok());
  }
  // The next trials, by what they tried.
  std::vector<int64_t> Take(size_t count) {
    std::vector<int64_t> taken;
    while (taken.size() < count) {
      const auto trial = pipeline_->Next(kLong);
      EXPECT_TRUE(trial.ok()) << trial.status();
      if (!trial.ok() || !*trial) break;
      EXPECT_GT((*trial)->finished_unix_ms, 0);
      taken.push_back(XOf(**trial));
    }
    return taken;
  }

  FakeExecutor executor_;
  std::atomic<bool> interrupted_{false};
  std::optional<TrialPipeline> pipeline_;
};

TEST_F(TrialPipelineTest, WhatCompiledIsMeasuredAndWhatDidNotIsFinished) {
  executor_.compile = [](Attempt& attempt) {
    if (XOf(attempt.trial) == 2) attempt.trial.outcome = Outcome::kCompileFailed;
    return absl::OkStatus();
  };
  Make();
  Start({1, 2, 3});
  const AttemptPtr invalid = AttemptAt(4);
  invalid->trial.outcome = Outcome::kInvalidConfig;
  ASSERT_TRUE(pipeline_->Start(invalid).ok());
  EXPECT_THAT(Take(4), UnorderedElementsAre(1, 2, 3, 4));
  EXPECT_THAT(executor_.compiled, ElementsAre(1, 2, 3));
  EXPECT_THAT(executor_.measured, ElementsAre(1, 3));
  EXPECT_EQ(pipeline_->Next(absl::ZeroDuration()).value(), std::nullopt);
}

TEST_F(TrialPipelineTest, AnotherThreadHelpsAndWhatFailsThereIsMeasuredHere) {
  absl::Notification helped;
  executor_.measure = [&](Attempt&) {
    helped.WaitForNotification();
    return absl::OkStatus();
  };
  Make();
  Start({1, 2, 3, 4});
  std::vector<int64_t> by_help;
  const absl::Status status = pipeline_->Help(
      [&](Attempt& attempt) -> absl::Status {
        if (by_help.size() == 2) return absl::UnavailableError("the device is lost");
        by_help.push_back(XOf(attempt.trial));
        attempt.binary.clear();
        return absl::OkStatus();
      },
      [] { return false; });
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  helped.Notify();
  EXPECT_THAT(Take(4), UnorderedElementsAre(1, 2, 3, 4));
  EXPECT_EQ(by_help.size(), 2u);
  EXPECT_EQ(executor_.measured.size(), 2u);
}

TEST_F(TrialPipelineTest, HelpEndsOnceItIsToLeaveOrNothingMoreIsMeasured) {
  Make();
  const auto none = [](Attempt&) { return absl::OkStatus(); };
  EXPECT_TRUE(pipeline_->Help(none, [] { return true; }).ok());
  interrupted_ = true;
  EXPECT_TRUE(pipeline_->Help(none, [] { return false; }).ok());
  EXPECT_TRUE(pipeline_->AwaitRest([] { return false; }));
}

TEST_F(TrialPipelineTest, AttemptsCompileWhileOneIsMeasured) {
  absl::Notification second;
  executor_.measure = [&](Attempt&) {
    second.WaitForNotification();
    return absl::OkStatus();
  };
  Make();
  Start({1});
  executor_.compile = [&](Attempt&) {
    second.Notify();
    return absl::OkStatus();
  };
  Start({2});
  EXPECT_THAT(Take(2), ElementsAre(1, 2));
}

TEST_F(TrialPipelineTest, NamesWhatRunsAndWhatWasCutShort) {
  executor_.measure = [&](Attempt& attempt) {
    if (XOf(attempt.trial) == 2) return absl::CancelledError("no time");
    EXPECT_THAT(pipeline_->WhatWasCutShort(), HasSubstr("X=1 was still running after"));
    return absl::OkStatus();
  };
  Make();
  EXPECT_EQ(pipeline_->WhatWasCutShort(), "");
  Start({1});
  EXPECT_THAT(Take(1), ElementsAre(1));
  EXPECT_EQ(pipeline_->WhatWasCutShort(), "");
  Start({2});
  while (pipeline_->WhatWasCutShort().empty()) absl::SleepFor(absl::Milliseconds(1));
  interrupted_ = true;
  EXPECT_TRUE(pipeline_->AwaitRest([] { return false; }));
  EXPECT_THAT(pipeline_->WhatWasCutShort(), HasSubstr("X=2 was still running after"));
}

TEST_F(TrialPipelineTest, ALostDeviceEndsIt) {
  executor_.measure = [](Attempt&) { return absl::FailedPreconditionError("quarantined"); };
  Make();
  Start({1});
  EXPECT_EQ(pipeline_->Next(kLong).status(), absl::FailedPreconditionError("quarantined"));
  EXPECT_EQ(pipeline_->Start(AttemptAt(2)), absl::FailedPreconditionError("quarantined"));
}

TEST_F(TrialPipelineTest, AMissingCompilerEndsItAndACancelledCompileDoesNot) {
  executor_.compile = [](Attempt& attempt) {
    return XOf(attempt.trial) == 1 ? absl::CancelledError("withdrawn")
                                   : absl::UnavailableError("no compiler");
  };
  Make();
  Start({1});
  EXPECT_EQ(pipeline_->Next(absl::ZeroDuration()).value(), std::nullopt);
  Start({2});
  EXPECT_EQ(pipeline_->Next(kLong).status(), absl::UnavailableError("no compiler"));
}

TEST_F(TrialPipelineTest, NothingIsMeasuredOrReportedBeforeTheDeviceIsPrepared) {
  absl::Notification go;
  Make([&] {
    go.WaitForNotification();
    return absl::OkStatus();
  });
  executor_.compile = [](Attempt& attempt) {
    if (XOf(attempt.trial) == 1) attempt.trial.outcome = Outcome::kCompileFailed;
    return absl::OkStatus();
  };
  Start({1, 2});
  EXPECT_EQ(pipeline_->Next(absl::Milliseconds(20)).value(), std::nullopt);
  EXPECT_TRUE(absl::IsCancelled(pipeline_->AwaitPrepared([] { return true; })));
  go.Notify();
  EXPECT_TRUE(pipeline_->AwaitPrepared([] { return false; }).ok());
  EXPECT_THAT(Take(2), ElementsAre(1, 2));
}

TEST_F(TrialPipelineTest, WhatIsWrongWithTheReferenceComesBeforeAnyTrial) {
  Make([] { return absl::InvalidArgumentError("the reference is wrong"); });
  executor_.compile = [](Attempt& attempt) {
    attempt.trial.outcome = Outcome::kCompileFailed;
    return absl::OkStatus();
  };
  (void)pipeline_->Start(AttemptAt(1));
  EXPECT_EQ(pipeline_->Next(kLong).status(), absl::InvalidArgumentError("the reference is wrong"));
  EXPECT_EQ(pipeline_->AwaitPrepared([] { return false; }),
            absl::InvalidArgumentError("the reference is wrong"));
}

TEST_F(TrialPipelineTest, AtRestItMeasuresNothingAndForgetsAttemptsWhenCleared) {
  executor_.measure = [this](Attempt&) {
    while (!interrupted_) absl::SleepFor(absl::Milliseconds(1));
    return absl::CancelledError("cut short");
  };
  Make();
  Start({1, 2});
  absl::SleepFor(absl::Milliseconds(5));
  interrupted_ = true;
  EXPECT_TRUE(pipeline_->AwaitRest([] { return false; }));
  pipeline_->Clear();
  interrupted_ = false;
  executor_.measure = nullptr;
  Start({3});
  EXPECT_THAT(Take(1), ElementsAre(3));
  EXPECT_EQ(pipeline_->Next(absl::ZeroDuration()).value(), std::nullopt);
}

}  // namespace
}  // namespace tune::server
