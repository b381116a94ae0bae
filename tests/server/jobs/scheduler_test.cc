// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/steady_time.h"
#include "tests/server/jobs/scheduler_fixture.h"

namespace tune::server {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

TEST_F(SchedulerTest, AJobIsStoredRunInTheDevicesCareAndItsEndIsDurable) {
  const auto work = Make("a");
  const std::shared_ptr<Job> job = Submit(work);
  ASSERT_TRUE(journal_.Await("a on cuda:0"));
  EXPECT_EQ(job->view().row.message, "at work");
  EXPECT_EQ(store_->GetJob(job->id()).value().state, db::JobState::kRunning);
  EXPECT_EQ(store_->GetJob(job->id()).value().owner, "me");
  work->LetGo();
  ASSERT_TRUE(journal_.Await("a ended OK"));
  const db::JobRow row = store_->GetJob(job->id()).value();
  EXPECT_EQ(row.state, db::JobState::kDone);
  EXPECT_EQ(row.message, "well");
  EXPECT_GT(row.finished_unix_ms, 0);
  EXPECT_GT(row.started_unix_ms, 0);
  EXPECT_THAT(journal_.lines(),
              ElementsAre("before cuda:0", "a on cuda:0", "after cuda:0", "a ended OK"));
}

TEST_F(SchedulerTest, AJobForAnyOfSeveralDevicesTakesTheFirstThatIsFree) {
  const auto holder = Make("holder");
  Submit(holder);
  ASSERT_TRUE(journal_.Await("holder on cuda:0"));
  const auto any = Make("any");
  const std::shared_ptr<Job> job = Submit(any, {"cuda:0", "cuda:1"});
  EXPECT_TRUE(journal_.Await("any on cuda:1"));
  EXPECT_EQ(job->view().row.device_id, "cuda:1");
}

TEST_F(SchedulerTest, AJobThatGoesOnOnAnotherDeviceKnowsWhereItWas) {
  const auto neighbour = Make("neighbour");
  Submit(neighbour, {"cuda:1"});
  ASSERT_TRUE(journal_.Await("neighbour on cuda:1"));
  const auto moves = Make("moves", true);
  moves->Do([this](JobContext& context) -> JobWork::End {
    if (!context.came_from().empty()) {
      journal_.Write("it came from " + context.came_from());
      return {};
    }
    while (!context.stop()) absl::SleepFor(absl::Milliseconds(5));
    return {.interrupted = true};
  });
  Submit(moves, {"cuda:0", "cuda:1"}, db::JobPriority::kBackground);
  ASSERT_TRUE(journal_.Await("moves on cuda:0"));
  const auto holder = Make("holder");
  Submit(holder);
  ASSERT_TRUE(journal_.Await("holder on cuda:0"));
  neighbour->LetGo();
  EXPECT_TRUE(journal_.Await("it came from cuda:0"));
}

TEST_F(SchedulerTest, AnOwnersJobsHaveADeviceForAsLongAsTheyMay) {
  const auto some = [](const std::string& owner) {
    return owner == "me" ? absl::Milliseconds(300) : absl::InfiniteDuration();
  };
  scheduler_->Stop();
  Start({.device_time_max_of = some});
  const auto long_one = Make("long");
  const std::shared_ptr<Job> job = Submit(long_one);
  const auto behind = Make("behind");
  const std::shared_ptr<Job> waiting = Submit(behind);
  // It is stopped when the time is used up, and what waited with it does not begin.
  ASSERT_TRUE(journal_.Await("long ended RESOURCE_EXHAUSTED"));
  ASSERT_TRUE(journal_.Await("behind ended RESOURCE_EXHAUSTED"));
  EXPECT_THAT(store_->GetJob(job->id()).value().message,
              HasSubstr("a larger --device-seconds-per-principal"));
  const auto refused = scheduler_->TakePlace("me").status();
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_THAT(refused.message(), HasSubstr("jobs of me have had a device for"));
  EXPECT_TRUE(scheduler_->TakePlace("somebody else").ok());
  // The next daemon knows of it.
  scheduler_->Stop();
  Start({.device_time_max_of = some});
  EXPECT_TRUE(absl::IsResourceExhausted(scheduler_->TakePlace("me").status()));
}

TEST_F(SchedulerTest, AJobWhoseOwnerHasStoredAsMuchAsMayBeIsStopped) {
  scheduler_->Stop();
  std::atomic<bool> full = false;
  Start({.may_store = [&](const std::string& owner) {
    return full && owner == "me" ? absl::ResourceExhaustedError("me has stored too much")
                                 : absl::OkStatus();
  }});
  const auto work = Make("long");
  const std::shared_ptr<Job> job = Submit(work);
  const auto behind = Make("behind");
  Submit(behind);
  ASSERT_TRUE(journal_.Await("long on cuda:0"));
  full = true;
  ASSERT_TRUE(journal_.Await("long ended RESOURCE_EXHAUSTED"));
  ASSERT_TRUE(journal_.Await("behind ended RESOURCE_EXHAUSTED"));
  EXPECT_EQ(store_->GetJob(job->id()).value().message, "me has stored too much");
  EXPECT_TRUE(absl::IsResourceExhausted(scheduler_->TakePlace("me").status()));
  EXPECT_TRUE(scheduler_->TakePlace("somebody else").ok());
}

TEST_F(SchedulerTest, InteractiveJobsComeBeforeBackgroundOnes) {
  const auto holder = Make("holder");
  Submit(holder);
  ASSERT_TRUE(journal_.Await("holder on cuda:0"));
  const auto background = Make("background", true);
  const std::shared_ptr<Job> later = Submit(background, {"cuda:0"}, db::JobPriority::kBackground);
  const auto interactive = Make("interactive");
  const std::shared_ptr<Job> sooner = Submit(interactive);
  EXPECT_EQ(sooner->view().row.message, "waiting for cuda:0, which holder has");
  EXPECT_EQ(later->view().row.message,
            "waiting for cuda:0, which holder has; 1 other job is ahead of it");
  EXPECT_TRUE(later->view().waiting);
  holder->LetGo();
  ASSERT_TRUE(journal_.Await("interactive on cuda:0"));
  interactive->LetGo();
  EXPECT_TRUE(journal_.Await("background on cuda:0"));
}

TEST_F(SchedulerTest, ABackgroundJobYieldsAndGoesOn) {
  const auto background = Make("background", true);
  const std::shared_ptr<Job> job = Submit(background, {"cuda:0"}, db::JobPriority::kBackground);
  ASSERT_TRUE(journal_.Await("background on cuda:0"));
  const auto interactive = Make("interactive");
  Submit(interactive);
  ASSERT_TRUE(journal_.Await("background stopped"));
  ASSERT_TRUE(journal_.Await("interactive on cuda:0"));
  EXPECT_EQ(store_->GetJob(job->id()).value().state, db::JobState::kQueued);
  background->LetGo();
  interactive->LetGo();
  ASSERT_TRUE(journal_.Await("background ended OK"));
  EXPECT_EQ(store_->GetJob(job->id()).value().state, db::JobState::kDone);
}

TEST_F(SchedulerTest, AJobThatYieldsCanBeCancelledMeanwhile) {
  const auto background = Make("background", true);
  background->Linger(true);
  const std::shared_ptr<Job> job = Submit(background, {"cuda:0"}, db::JobPriority::kBackground);
  ASSERT_TRUE(journal_.Await("background on cuda:0"));
  const auto interactive = Make("interactive");
  Submit(interactive);
  ASSERT_TRUE(journal_.Await("background stopped"));
  EXPECT_TRUE(absl::IsDeadlineExceeded(scheduler_->Cancel(job->id(), SteadyNow()).status()));
  background->Linger(false);
  EXPECT_TRUE(journal_.Await("background ended CANCELLED"));
  EXPECT_EQ(store_->GetJob(job->id()).value().state, db::JobState::kCancelled);
  EXPECT_TRUE(journal_.Await("interactive on cuda:0"));
}

TEST_F(SchedulerTest, NobodyYieldsWhereADeviceIsFreeOrAboutToBe) {
  const auto background = Make("background", true);
  const auto other = Make("other", true);
  other->Linger(true);
  const std::shared_ptr<Job> stays = Submit(background, {"cuda:0"}, db::JobPriority::kBackground);
  const std::shared_ptr<Job> yields = Submit(other, {"cuda:1"}, db::JobPriority::kBackground);
  ASSERT_TRUE(journal_.Await("background on cuda:0"));
  ASSERT_TRUE(journal_.Await("other on cuda:1"));
  Submit(Make("first"), {"cuda:1"});
  ASSERT_TRUE(journal_.Await("other stopped"));
  // cuda:1 is promised to the first, so the second needs the other device.
  Submit(Make("second"), {"cuda:1", "cuda:0"});
  EXPECT_TRUE(journal_.Await("background stopped"));
  EXPECT_TRUE(journal_.Await("second on cuda:0"));
  other->Linger(false);
  EXPECT_TRUE(journal_.Await("first on cuda:1"));
}

TEST_F(SchedulerTest, AJobThatTakesTooLongSaysSo) {
  const auto work = Make("slow");
  work->LimitTime(absl::Milliseconds(20));
  const std::shared_ptr<Job> job = Submit(work);
  ASSERT_TRUE(journal_.Await("slow ended DEADLINE_EXCEEDED"));
  const db::JobRow row = store_->GetJob(job->id()).value();
  EXPECT_EQ(row.state, db::JobState::kFailed);
  EXPECT_EQ(row.message, "slow took longer than 20ms and was stopped");
}

TEST_F(SchedulerTest, AJobThatTheDaemonStopsIsQueuedForTheNext) {
  const std::shared_ptr<Job> job = Submit(Make("profile"));
  ASSERT_TRUE(journal_.Await("profile on cuda:0"));
  scheduler_->Stop();
  EXPECT_EQ(store_->GetJob(job->id()).value().state, db::JobState::kQueued);
}

TEST_F(SchedulerTest, AJobThatRunsOnceFailsIfTheDaemonStopsIt) {
  const auto work = Make("gate");
  work->RunOnce();
  const std::shared_ptr<Job> job = Submit(work);
  ASSERT_TRUE(journal_.Await("gate on cuda:0"));
  scheduler_->Stop();
  EXPECT_TRUE(journal_.Await("gate ended UNAVAILABLE"));
  const db::JobRow row = store_->GetJob(job->id()).value();
  EXPECT_EQ(row.state, db::JobState::kFailed);
  EXPECT_EQ(row.message, "the daemon stopped before it was done");
}

TEST_F(SchedulerTest, AJobThatBeginsToBeCancelledEndsAtItsTurn) {
  const auto holder = Make("holder");
  Submit(holder);
  ASSERT_TRUE(journal_.Await("holder on cuda:0"));
  const std::shared_ptr<Job> waiting = Submit(Make("waiting"));
  scheduler_->BeginCancel(waiting->id());
  scheduler_->BeginCancel(12345);
  holder->LetGo();
  ASSERT_TRUE(journal_.Await("waiting ended CANCELLED"));
  EXPECT_EQ(store_->GetJob(waiting->id()).value().state, db::JobState::kCancelled);
}

TEST_F(SchedulerTest, CancelEndsAJobThatRunsAndOneThatWaits) {
  const std::shared_ptr<Job> running = Submit(Make("running"));
  ASSERT_TRUE(journal_.Await("running on cuda:0"));
  const std::shared_ptr<Job> waiting = Submit(Make("waiting"));
  const JobView cancelled = scheduler_->Cancel(waiting->id(), Soon()).value();
  EXPECT_EQ(cancelled.row.state, db::JobState::kCancelled);
  EXPECT_EQ(cancelled.row.message, "it had not started");
  EXPECT_TRUE(journal_.Await("waiting ended CANCELLED"));
  EXPECT_EQ(scheduler_->Cancel(running->id(), Soon()).value().row.state, db::JobState::kCancelled);
  EXPECT_TRUE(absl::IsNotFound(scheduler_->Cancel(running->id(), Soon()).status()));
  EXPECT_EQ(store_->GetJob(running->id()).value().state, db::JobState::kCancelled);
}

TEST_F(SchedulerTest, TooManyJobsAreRefused) {
  scheduler_->Stop();
  Start({.unfinished_max = 1});
  Submit(Make("one"));
  const absl::Status refused =
      scheduler_->Submit({.kind = db::JobKind::kBench}, {"cuda:0"}, Make("two")).status();
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("tunectl job cancel"));
}

TEST_F(SchedulerTest, StoppingTellsThoseWhoWaitAndKeepsWhatCanGoOn) {
  const std::shared_ptr<Job> running = Submit(Make("running", true));
  ASSERT_TRUE(journal_.Await("running on cuda:0"));
  Submit(Make("waiting"));
  scheduler_->Stop();
  EXPECT_TRUE(journal_.Await("waiting ended UNAVAILABLE"));
  EXPECT_EQ(store_->GetJob(running->id()).value().state, db::JobState::kQueued);
  EXPECT_TRUE(absl::IsUnavailable(
      scheduler_->Submit({.kind = db::JobKind::kBench}, {"cuda:0"}, Make("late")).status()));
}

TEST_F(SchedulerTest, AnExceptionOnTheThreadOfAJobEndsThatJobAlone) {
  for (const bool no_memory : {true, false}) {
    const auto thrower = Make(no_memory ? "hungry" : "odd");
    thrower->Do([no_memory](JobContext&) -> JobWork::End {
      if (no_memory) throw std::bad_alloc();
      throw std::runtime_error("odd");
    });
    const std::shared_ptr<Job> job = Submit(thrower);
    ASSERT_TRUE(
        journal_.Await(no_memory ? "hungry ended RESOURCE_EXHAUSTED" : "odd ended INTERNAL"));
    EXPECT_EQ(store_->GetJob(job->id()).value().state, db::JobState::kFailed);
  }
  const auto next = Make("next");
  next->LetGo();
  Submit(next);
  EXPECT_TRUE(journal_.Await("next ended OK")) << "the device goes on";
}

TEST_F(SchedulerTest, PrincipalsTakeTurnsHoweverManyJobsOneHas) {
  std::vector<std::shared_ptr<HeldWork>> greedy;
  for (int i = 0; i < 4; ++i) {
    greedy.push_back(Make(absl::StrCat("greedy", i)));
    SubmitAs("greedy", greedy.back());
  }
  ASSERT_TRUE(journal_.Await("greedy0 on cuda:0"));
  const auto one = Make("one");
  const auto two = Make("two");
  SubmitAs("modest", one);
  const std::shared_ptr<Job> second = SubmitAs("modest", two);
  EXPECT_EQ(second->view().row.message,
            "waiting for cuda:0, which greedy0 has; 2 other jobs are ahead of it")
      << "its principal's first, and one of the other's";
  absl::SleepFor(absl::Seconds(1));  // the other's time, against which these are short
  for (const auto& work : {one, two, greedy[0]}) work->LetGo();
  ASSERT_TRUE(journal_.Await("greedy1 on cuda:0"));
  EXPECT_THAT(Begun(), ElementsAre("greedy0", "one", "two", "greedy1"));
}

TEST_F(SchedulerTest, APrincipalThatHadTheDeviceIsBehindAlsoAfterARestart) {
  scheduler_->Stop();
  const int64_t now = absl::ToUnixMillis(absl::Now());
  ASSERT_TRUE(store_
                  ->AddJob({.kind = db::JobKind::kBench,
                            .state = db::JobState::kDone,
                            .owner = "heavy",
                            .started_unix_ms = now - 7'200'000,
                            .finished_unix_ms = now - 3'600'000})
                  .ok());
  Start({});
  EXPECT_EQ(scheduler_->queue().owners.at(0).owner, "heavy");
  EXPECT_EQ(scheduler_->queue().owners.at(0).device_time, absl::Hours(1));
  // The times that both have the device before the second job of the heavy one.
  absl::Duration heavy, light;
  std::atomic<int> heavy_begun = 0;
  const auto submit = [&](const std::string& owner, int number, absl::Duration time,
                          absl::Duration* sum) {
    const auto work = Make(absl::StrCat(owner, number));
    work->Do([&heavy_begun, owner, time, sum](JobContext&) {
      if (owner == "heavy") ++heavy_begun;
      const absl::Time begin = SteadyNow();
      absl::SleepFor(time);
      if (heavy_begun == 1) *sum += SteadyNow() - begin;
      return JobWork::End();
    });
    SubmitAs(owner, work);
  };
  const auto first = Make("first");
  SubmitAs("first", first);
  ASSERT_TRUE(journal_.Await("first on cuda:0"));
  for (int i = 0; i < 2; ++i) submit("heavy", i, absl::Milliseconds(400), &heavy);
  for (int i = 0; i < 40; ++i) submit("light", i, absl::Milliseconds(40), &light);
  first->LetGo();
  EXPECT_TRUE(journal_.Await("heavy1 ended OK"));
  scheduler_->Stop();
  EXPECT_GT(light, 2 * heavy) << "three times as much, or as much if its time were forgotten";
}

TEST_F(SchedulerTest, AJobThatHadItsTurnMakesRoomForAnotherPrincipal) {
  scheduler_->Stop();
  Start({.turn = absl::Milliseconds(100)});
  const auto greedy = Make("greedy", true);
  const std::shared_ptr<Job> job = SubmitAs("greedy", greedy);
  ASSERT_TRUE(journal_.Await("greedy on cuda:0"));
  job->control.got_on = true;
  SubmitAs("greedy", Make("its next"));
  absl::SleepFor(absl::Milliseconds(400));
  EXPECT_THAT(Begun(), ElementsAre("greedy")) << "for its own principal it makes no room";
  const auto modest = Make("modest");
  SubmitAs("modest", modest);
  ASSERT_TRUE(journal_.Await("greedy stopped"));
  ASSERT_TRUE(journal_.Await("modest on cuda:0"));
  EXPECT_EQ(store_->GetJob(job->id()).value().state, db::JobState::kQueued);
  greedy->LetGo();
  modest->LetGo();
  EXPECT_TRUE(journal_.Await("greedy ended OK")) << "it goes on afterwards";
}

TEST_F(SchedulerTest, AJobThatGotNowhereInATurnHasMoreOfThem) {
  scheduler_->Stop();
  Start({.turn = absl::Milliseconds(400)});
  SubmitAs("slow", Make("slow", true));  // says nothing of having got on
  ASSERT_TRUE(journal_.Await("slow on cuda:0"));
  SubmitAs("other", Make("other"));
  absl::SleepFor(absl::Milliseconds(800));
  EXPECT_THAT(Begun(), ElementsAre("slow")) << "or it would begin anew for ever";
  EXPECT_TRUE(journal_.Await("other on cuda:0")) << "but not for ever";
}

TEST_F(SchedulerTest, AJobThatCannotGoOnLaterIsBounded) {
  scheduler_->Stop();
  Start({.job_time_max_of = [](const std::string& owner) {
    return owner == "submitter" ? absl::Milliseconds(50) : absl::InfiniteDuration();
  }});
  const std::shared_ptr<Job> job = SubmitAs("submitter", Make("gate"));
  ASSERT_TRUE(journal_.Await("gate ended RESOURCE_EXHAUSTED"));
  EXPECT_THAT(store_->GetJob(job->id()).value().message,
              HasSubstr("a larger --job-seconds-per-principal"));
  SubmitAs("submitter", Make("sweep", true));
  absl::SleepFor(absl::Milliseconds(200));
  EXPECT_THAT(journal_.lines(), Not(Contains(HasSubstr("sweep ended")))) << "its budget bounds it";
}

TEST_F(SchedulerTest, PlacesOfTheQueueAreLeftToOthersAndToOperators) {
  scheduler_->Stop();
  Start({.unfinished_max = 8, .operator_jobs = 1, .is_operator = [](const std::string& owner) {
           return owner == "root";
         }});
  for (const std::string name : {"a", "a", "a", "a"}) SubmitAs(name, Make(name));
  EXPECT_THAT(Refusal("a").message(),
              HasSubstr("4 jobs of a wait or run already, and 4 places of the queue are left"));
  for (const std::string name : {"b", "b", "c", "d"}) SubmitAs(name, Make(name));
  EXPECT_THAT(Refusal("e").message(), HasSubstr("the queue is full: 8 jobs wait or run"));
  SubmitAs("root", Make("root"));
  EXPECT_THAT(Refusal("root").message(), HasSubstr("the queue is full: 9 jobs"));
}

TEST_F(SchedulerTest, JobsOfAPrincipalHoldSoManySourcesAndNoMore) {
  scheduler_->Stop();
  Start({.is_operator = [](const std::string& owner) { return owner == "root"; }});
  constexpr size_t kHalf = Scheduler::kSourceBytesMax / 2;
  const auto first = scheduler_->TakePlace("a", kHalf);
  {
    const auto second = scheduler_->TakePlace("a", kHalf);
    EXPECT_TRUE(first.ok() && second.ok());
    const absl::Status refused = scheduler_->TakePlace("a", 1).status();
    EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
    EXPECT_THAT(refused.message(), HasSubstr("MiB of sources"));
    EXPECT_TRUE(scheduler_->TakePlace("b", kHalf).ok());
    EXPECT_TRUE(scheduler_->TakePlace("root", 3 * kHalf).ok());
  }
  EXPECT_TRUE(scheduler_->TakePlace("a", kHalf).ok()) << "a place that is given back";
}

TEST_F(SchedulerTest, AnEndThatIsNotStoredIsNotToldAndHoldsNoDevice) {
  const auto work = Make("full");
  const std::shared_ptr<Job> job = Submit(work);
  ASSERT_TRUE(journal_.Await("full on cuda:0"));
  work->FailStore(absl::ResourceExhaustedError("disk full"));
  Feed::Cursor cursor;
  job->feed().ReadSince(cursor);
  work->LetGo();
  const auto next = Make("next");
  Submit(next);
  ASSERT_TRUE(journal_.Await("next on cuda:0")) << "the device goes to the next";
  EXPECT_EQ(job->view().row.message, "ended, but that is not stored yet: disk full");
  EXPECT_EQ(job->view().row.state, db::JobState::kRunning);
  EXPECT_FALSE(job->feed().ReadSince(cursor)->ended);
  work->FailStore(absl::OkStatus());
  EXPECT_TRUE(journal_.Await("full ended OK"));
  EXPECT_EQ(store_->GetJob(job->id()).value().state, db::JobState::kDone);
}

TEST_F(SchedulerTest, AStopDoesNotTellAnEndThatIsNotStored) {
  const auto work = Make("full");
  const std::shared_ptr<Job> job = Submit(work);
  ASSERT_TRUE(journal_.Await("full on cuda:0"));
  work->FailStore(absl::UnavailableError("disk fails"));
  Feed::Cursor cursor;
  job->feed().ReadSince(cursor);
  work->LetGo();
  Submit(Make("next"));
  ASSERT_TRUE(journal_.Await("next on cuda:0"));
  scheduler_->Stop();
  EXPECT_TRUE(journal_.Await("full ended UNAVAILABLE"));
  const std::optional<Feed::News> news = job->feed().ReadSince(cursor);
  ASSERT_TRUE(news.has_value() && news->ended);
  EXPECT_THAT(news->status.message(), HasSubstr("before the end of job"));
  EXPECT_EQ(store_->GetJob(job->id()).value().state, db::JobState::kRunning);
}

TEST_F(SchedulerTest, AJobWhoseStartIsNotStoredWaitsAndSaysSo) {
  const auto work = Make("full");
  work->FailStore(absl::ResourceExhaustedError("disk full"));
  const std::shared_ptr<Job> job = Submit(work);
  const auto next = Make("next");
  next->LetGo();
  Submit(next);
  ASSERT_TRUE(journal_.Await("next ended OK")) << "the device goes to the next";
  EXPECT_EQ(job->view().row.state, db::JobState::kQueued);
  EXPECT_EQ(job->view().row.message,
            "waiting for the disk: that it starts is not stored: disk full");
  EXPECT_EQ(store_->GetJob(job->id()).value().state, db::JobState::kQueued);
  EXPECT_THAT(Begun(), ElementsAre("next"));
  work->FailStore(absl::OkStatus());
  EXPECT_TRUE(journal_.Await("full on cuda:0")) << "it starts by itself";
}

TEST_F(SchedulerTest, AJobThatYieldedAndIsNotStoredSaysSo) {
  const auto background = Make("background", true);
  const std::shared_ptr<Job> job = Submit(background, {"cuda:0"}, db::JobPriority::kBackground);
  ASSERT_TRUE(journal_.Await("background on cuda:0"));
  background->FailStore(absl::UnavailableError("disk fails"));
  Submit(Make("interactive"));
  ASSERT_TRUE(journal_.Await("interactive on cuda:0"));
  EXPECT_THAT(job->view().row.message, HasSubstr("that it waits is not stored: disk fails"));
}

TEST_F(SchedulerTest, AJobThatPausesLeavesItsDeviceToOthers) {
  const auto pauses = Make("pauses", true);
  std::atomic<int> turns = 0;
  pauses->Do([&](JobContext&) -> JobWork::End {
    if (++turns > 1) return {.message = "well"};
    return {.interrupted = true, .pause = absl::Seconds(1), .message = "paused: the disk is full"};
  });
  const std::shared_ptr<Job> job = Submit(pauses);
  const auto next = Make("next");
  next->LetGo();
  Submit(next);
  ASSERT_TRUE(journal_.Await("next ended OK"));
  EXPECT_EQ(job->view().row.message, "paused: the disk is full");
  EXPECT_EQ(job->view().row.state, db::JobState::kQueued);
  EXPECT_TRUE(journal_.Await("pauses ended OK")) << "it goes on by itself";
}

TEST_F(SchedulerTest, TheQueueIsToldByPrincipal) {
  SubmitAs("alice", Make("a"));
  ASSERT_TRUE(journal_.Await("a on cuda:0"));
  SubmitAs("alice", Make("b"));
  SubmitAs("bob", Make("c"));
  absl::SleepFor(absl::Milliseconds(400));
  const Scheduler::Queue queue = scheduler_->queue();
  ASSERT_EQ(queue.owners.size(), 2u);
  EXPECT_EQ(queue.owners[0].owner, "alice");
  EXPECT_EQ(queue.owners[0].running, 1u);
  EXPECT_EQ(queue.owners[0].waiting, 1u);
  EXPECT_GT(queue.owners[0].device_time, absl::ZeroDuration()) << "what runs counts already";
  EXPECT_EQ(queue.owners[1].waiting, 1u);
  EXPECT_GE(queue.oldest_wait, absl::Milliseconds(400));
}

TEST_F(SchedulerTest, AJobRunsIfItsDeviceBecomesUsableWhileItIsConsidered) {
  const auto work = Make("a");
  // Each of the scheduler's threads is told once that the device is away, and then that it is back.
  work->WaitBecause([test = std::this_thread::get_id()](const std::string&) {
    thread_local bool was_asked = false;
    const bool is_away = std::this_thread::get_id() != test && !std::exchange(was_asked, true);
    return is_away ? "away" : "";
  });
  Submit(work);
  EXPECT_TRUE(journal_.Await("a on cuda:0"));
}

TEST_F(SchedulerTest, AJobOfAnyKindWaitsForADeviceThatIsOutOfUse) {
  std::atomic<bool> is_away = true;
  scheduler_->Stop();
  Start({.why_out_of_use = [&](const std::string& device_id) {
    return is_away && device_id == "cuda:0" ? "device cuda:0 cannot be used" : "";
  }});
  const std::shared_ptr<Job> job = Submit(Make("a"));
  Submit(Make("any"), {"cuda:0", "cuda:1"});
  EXPECT_TRUE(journal_.Await("any on cuda:1"));
  EXPECT_EQ(job->view().row.state, db::JobState::kQueued);
  EXPECT_EQ(job->view().row.message, "waiting: device cuda:0 cannot be used");
  EXPECT_THAT(journal_.lines(), Not(Contains("a on cuda:0")));
  is_away = false;
  EXPECT_TRUE(journal_.Await("a on cuda:0"));
}

TEST_F(SchedulerTest, AJobTakesTheDeviceThatIsBackWhileItsOtherOneIsBusy) {
  Submit(Make("holder"), {"cuda:1"});
  ASSERT_TRUE(journal_.Await("holder on cuda:1"));
  std::atomic<bool> is_away = true;
  const auto work = Make("any");
  work->WaitBecause(
      [&](const std::string& device_id) { return is_away && device_id == "cuda:0" ? "away" : ""; });
  Submit(work, {"cuda:0", "cuda:1"});
  absl::SleepFor(absl::Milliseconds(100));  // the thread of cuda:0 waits
  is_away = false;
  EXPECT_TRUE(journal_.Await("any on cuda:0"));
}

TEST_F(SchedulerTest, AJobWaitsForADeviceThatIsBeingTried) {
  std::optional<DeviceTurns::Turn> turn = turns_.TryTake("cuda:0", "a try");
  const auto work = Make("a");
  const std::shared_ptr<Job> job = Submit(work);
  const absl::Time deadline = Soon();
  while (job->view().row.message != "waiting for cuda:0, which a try has" &&
         SteadyNow() < deadline) {
    std::this_thread::yield();
  }
  EXPECT_TRUE(job->view().waiting);
  turn.reset();
  EXPECT_TRUE(journal_.Await("a on cuda:0"));
}

}  // namespace
}  // namespace tune::server
