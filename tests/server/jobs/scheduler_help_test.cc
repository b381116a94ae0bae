// SPDX-License-Identifier: Apache-2.0
// Devices that help a job which runs on another one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tests/server/jobs/scheduler_fixture.h"

namespace tune::server {
namespace {

using testing::Contains;
using testing::Not;

class SchedulerHelpTest : public SchedulerTest {
 protected:
  // A job of two devices that runs on cuda:0 and has the help of cuda:1.
  std::shared_ptr<HeldWork> Spread(const std::string& owner = "me",
                                   db::JobPriority priority = db::JobPriority::kInteractive) {
    const auto first = Make("first");
    Submit(first, {"cuda:1"});
    EXPECT_TRUE(journal_.Await("first on cuda:1"));
    const auto spread = Make("spread", true);
    spread->WantHelp();
    job_ = Submit(spread, {"cuda:0", "cuda:1"}, priority, owner);
    EXPECT_TRUE(journal_.Await("spread on cuda:0"));
    first->LetGo();
    EXPECT_TRUE(journal_.Await("spread has help of cuda:1"));
    return spread;
  }

  std::shared_ptr<Job> job_;
};

TEST_F(SchedulerHelpTest, AFreeDeviceHelpsAJobUntilItEnds) {
  const auto spread = Spread();
  EXPECT_EQ(job_->view().row.device_id, "cuda:0");
  spread->LetGo();
  ASSERT_TRUE(journal_.Await("spread has no help of cuda:1"));
  ASSERT_TRUE(journal_.Await("spread ended OK"));
  const auto next = Make("next");
  Submit(next, {"cuda:1"});
  EXPECT_TRUE(journal_.Await("next on cuda:1"));
}

TEST_F(SchedulerHelpTest, AnInteractiveJobTakesTheDeviceFromABackgroundJobsHelp) {
  const auto spread = Spread("me", db::JobPriority::kBackground);
  const auto interactive = Make("interactive");
  Submit(interactive, {"cuda:1"});
  ASSERT_TRUE(journal_.Await("interactive on cuda:1"));
  EXPECT_THAT(journal_.lines(), Contains("spread has no help of cuda:1"));
  EXPECT_THAT(journal_.lines(), Not(Contains("spread stopped"))) << "it goes on where it is";
  spread->LetGo();
  EXPECT_TRUE(journal_.Await("spread ended OK"));
}

TEST_F(SchedulerHelpTest, AnotherPrincipalGetsADeviceThatHelpedForATurn) {
  scheduler_->Stop();
  Start({.turn = absl::Milliseconds(200)});
  Spread();
  job_->control.got_on = true;
  const auto other = Make("other");
  Submit(other, {"cuda:1"}, db::JobPriority::kInteractive, "alice");
  ASSERT_TRUE(journal_.Await("other on cuda:1"));
  EXPECT_THAT(journal_.lines(), Contains("spread has no help of cuda:1"));
}

TEST_F(SchedulerHelpTest, AJobThatWaitsComesBeforeHelp) {
  const auto first = Make("first");
  Submit(first, {"cuda:1"});
  ASSERT_TRUE(journal_.Await("first on cuda:1"));
  const auto waits = Make("waits");
  const auto spread = Make("spread", true);
  spread->WantHelp();
  Submit(spread, {"cuda:0", "cuda:1"});
  ASSERT_TRUE(journal_.Await("spread on cuda:0"));
  Submit(waits, {"cuda:1"});
  first->LetGo();
  ASSERT_TRUE(journal_.Await("waits on cuda:1"));
  EXPECT_THAT(journal_.lines(), Not(Contains("spread has help of cuda:1")));
}

TEST_F(SchedulerHelpTest, ADeviceThatCannotHelpIsNotAskedAgain) {
  const auto spread = Spread("me", db::JobPriority::kBackground);
  spread->FailHelp(absl::UnavailableError("lost"));
  const auto interactive = Make("interactive");
  Submit(interactive, {"cuda:1"});
  ASSERT_TRUE(journal_.Await("interactive on cuda:1"));
  interactive->LetGo();
  ASSERT_TRUE(journal_.Await("interactive ended OK"));
  absl::SleepFor(absl::Milliseconds(600));  // the device's thread looks at least twice
  const std::vector<std::string> lines = journal_.lines();
  EXPECT_EQ(std::count(lines.begin(), lines.end(), "spread has help of cuda:1"), 1);
}

TEST_F(SchedulerHelpTest, HelpIsChargedAndEndsWhenTheJobIsCancelledOrItsTimeIsUsedUp) {
  scheduler_->Stop();
  std::map<std::string, absl::Duration> had;
  std::mutex mutex;
  Start({.device_time_max_of =
             [](const std::string& owner) {
               return owner == "me" ? absl::InfiniteDuration() : absl::Seconds(3);
             },
         .had_device =
             [&](const std::string& owner, const std::string& device, absl::Duration time) {
               std::lock_guard lock(mutex);
               had[owner + " " + device] += time;
             }});
  const absl::Time start = SteadyNow();
  Spread("alice");
  ASSERT_TRUE(journal_.Await("spread ended RESOURCE_EXHAUSTED"));
  ASSERT_TRUE(journal_.Await("spread has no help of cuda:1"));
  EXPECT_LT(SteadyNow() - start, absl::Seconds(10));
  scheduler_->Stop();
  std::lock_guard lock(mutex);
  EXPECT_GT(had["alice cuda:1"], absl::Milliseconds(100));
  EXPECT_GE(had["alice cuda:0"] + had["alice cuda:1"], absl::Seconds(3));
  EXPECT_LT(had["alice cuda:0"], absl::Milliseconds(2800)) << "both used up the three seconds";
}

}  // namespace
}  // namespace tune::server
