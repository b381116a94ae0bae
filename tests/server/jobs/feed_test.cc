// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/feed.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>

#include "server/jobs/watch_ticker.h"
#include "tune/v1/trial.pb.h"

namespace tune::server {
namespace {

using testing::HasSubstr;

Feed::Step StepWithId(int64_t id) {
  auto trial = std::make_shared<v1::Trial>();
  trial->set_id(id);
  return trial;
}

int64_t IdOf(const Feed::Step& step) { return static_cast<const v1::Trial&>(*step).id(); }

TEST(FeedTest, ANewReaderGetsTheStateAllResultsAndTheNewestSteps) {
  Feed feed;
  feed.AddStep(StepWithId(1));
  feed.AddResult(StepWithId(2));
  Feed::Cursor cursor;
  const std::optional<Feed::News> news = feed.ReadSince(cursor);
  ASSERT_TRUE(news.has_value());
  ASSERT_EQ(news->steps.size(), 1u);
  EXPECT_EQ(IdOf(news->steps[0]), 1);
  ASSERT_EQ(news->results.size(), 1u);
  EXPECT_EQ(IdOf(news->results[0]), 2);
  EXPECT_FALSE(news->ended);
  EXPECT_FALSE(feed.ReadSince(cursor).has_value()) << "nothing has changed";
}

TEST(FeedTest, ChangesBetweenReadsAreOnePieceOfNews) {
  Feed feed;
  Feed::Cursor cursor;
  feed.ReadSince(cursor);
  for (int id = 1; id <= 3; ++id) {
    feed.AddStep(StepWithId(id));
    feed.Touch();
  }
  const std::optional<Feed::News> news = feed.ReadSince(cursor);
  ASSERT_TRUE(news.has_value());
  ASSERT_EQ(news->steps.size(), 3u);
  EXPECT_EQ(IdOf(news->steps.front()), 1);
  EXPECT_EQ(IdOf(news->steps.back()), 3);
}

TEST(FeedTest, ASlowReaderMissesStepsButNoResultAndNotTheEnd) {
  Feed feed;
  Feed::Cursor slow;
  feed.ReadSince(slow);
  for (int id = 1; id <= 1000; ++id) {
    feed.AddStep(StepWithId(id));
    if (id % 10 == 0) feed.AddResult(StepWithId(id));
  }
  feed.End(absl::CancelledError("enough"));
  feed.End(absl::OkStatus());
  const std::optional<Feed::News> news = feed.ReadSince(slow);
  ASSERT_TRUE(news.has_value());
  ASSERT_EQ(news->steps.size(), Feed::kStepsKept);
  EXPECT_EQ(IdOf(news->steps.front()), 1000 - 63);
  EXPECT_EQ(IdOf(news->steps.back()), 1000);
  EXPECT_EQ(news->results.size(), 100u);
  EXPECT_TRUE(news->ended);
  EXPECT_TRUE(absl::IsCancelled(news->status)) << "the first end counts";
}

TEST(FeedTest, OfLargeStepsTheNewestAloneIsKept) {
  Feed feed;
  Feed::Cursor slow;
  feed.ReadSince(slow);
  for (int id = 1; id <= 3; ++id) {
    auto trial = std::make_shared<v1::Trial>();
    trial->set_id(id);
    trial->set_message(std::string(Feed::kStepBytesKept, 'x'));
    feed.AddStep(std::move(trial));
  }
  const std::optional<Feed::News> news = feed.ReadSince(slow);
  ASSERT_TRUE(news.has_value());
  ASSERT_EQ(news->steps.size(), 1u);
  EXPECT_EQ(IdOf(news->steps[0]), 3);
  feed.AddStep(StepWithId(4));
  feed.AddStep(StepWithId(5));
  EXPECT_EQ(feed.ReadSince(slow)->steps.size(), 2u) << "small ones are kept again";
}

using Kind = WatchClaim::Kind;

class CountingWatcher : public WatchTicker::Watcher {
 public:
  explicit CountingWatcher(int64_t job_id = 1, std::string principal = "me",
                           Kind kind = Kind::kWatcher)
      : job_id_(job_id), claim_{std::move(principal), kind} {}
  int64_t job_id() const override { return job_id_; }
  WatchClaim claim() const override { return claim_; }
  void Tick() override {
    if (++ticks == 1) ticked.count_down();
  }
  void Close() override { closed = true; }

  std::atomic<int> ticks = 0;
  std::atomic<bool> closed = false;
  std::latch ticked{1};

 private:
  const int64_t job_id_;
  const WatchClaim claim_;
};

// Throws at each tick.
class FailingWatcher : public CountingWatcher {
 public:
  void Tick() override {
    CountingWatcher::Tick();
    throw std::bad_alloc();
  }
};

TEST(WatchTickerTest, AWatcherThatThrowsIsLetGoAndTheOthersAreTicked) {
  WatchTicker ticker({.period = absl::Milliseconds(1)});
  auto failing = std::make_shared<FailingWatcher>();
  ASSERT_TRUE(ticker.Add(failing).ok());
  failing->ticked.wait();
  auto other = std::make_shared<CountingWatcher>();
  ASSERT_TRUE(ticker.Add(other).ok());
  other->ticked.wait();
  ticker.Stop();
  EXPECT_EQ(failing->ticks, 1);
}

TEST(WatchTickerTest, NewWatcherIsTickedAtOnce) {
  WatchTicker ticker({.period = absl::Hours(1)});
  auto watcher = std::make_shared<CountingWatcher>();
  ASSERT_TRUE(ticker.Add(watcher).ok());
  watcher->ticked.wait();
}

TEST(WatchTickerTest, RemovedWatcherIsLetGo) {
  WatchTicker ticker({.period = absl::Hours(1)});
  auto watcher = std::make_shared<CountingWatcher>();
  ASSERT_TRUE(ticker.Add(watcher).ok());
  watcher->ticked.wait();
  ticker.Remove(watcher.get());
  ticker.Stop();
  EXPECT_EQ(watcher.use_count(), 1);
  EXPECT_FALSE(watcher->closed) << "it had left";
}

TEST(WatchTickerTest, StopTicksAndClosesWatchers) {
  WatchTicker ticker({.period = absl::Hours(1)});
  auto early = std::make_shared<CountingWatcher>();
  ASSERT_TRUE(ticker.Add(early).ok());
  early->ticked.wait();
  ticker.Stop();
  EXPECT_GE(early->ticks, 2) << "a last look at the state";
  EXPECT_TRUE(early->closed);
  auto late = std::make_shared<CountingWatcher>();
  ASSERT_TRUE(ticker.Add(late).ok());
  EXPECT_TRUE(late->closed);
}

std::shared_ptr<CountingWatcher> WatcherOf(const std::string& principal, int64_t job_id,
                                           Kind kind = Kind::kWatcher) {
  return std::make_shared<CountingWatcher>(job_id, principal, kind);
}

TEST(WatchTickerTest, NobodyHasMoreWatchesThanItLeavesToOthers) {
  WatchTicker ticker({.period = absl::Hours(1), .watchers_max = 8, .watchers_per_job_max = 4});
  ASSERT_TRUE(ticker.Add(WatcherOf("greedy", 7)).ok());
  ASSERT_TRUE(ticker.Add(WatcherOf("greedy", 7)).ok());
  const absl::Status of_job = ticker.Add(WatcherOf("greedy", 7));
  EXPECT_TRUE(absl::IsResourceExhausted(of_job)) << of_job;
  EXPECT_THAT(std::string(of_job.message()), HasSubstr("2 clients watch job 7 already"));
  EXPECT_THAT(std::string(of_job.message()), HasSubstr("--watchers-per-job"));
  EXPECT_TRUE(ticker.Add(WatcherOf("other", 7)).ok());
  ASSERT_TRUE(ticker.Add(WatcherOf("greedy", 8)).ok());
  const auto fourth = WatcherOf("greedy", 9);
  ASSERT_TRUE(ticker.Add(fourth).ok());
  const absl::Status in_all = ticker.Add(WatcherOf("greedy", 10));
  EXPECT_TRUE(absl::IsResourceExhausted(in_all)) << in_all;
  EXPECT_THAT(std::string(in_all.message()), HasSubstr("4 of them of greedy"));
  EXPECT_THAT(std::string(in_all.message()), HasSubstr("--watchers"));
  EXPECT_EQ(ticker.watchers(), 5u);
  EXPECT_TRUE(ticker.Add(WatcherOf("third", 10)).ok()) << "who comes anew finds room";
  ticker.Remove(fourth.get());
  EXPECT_FALSE(ticker.Add(WatcherOf("greedy", 9)).ok()) << "three are left, and it has three";
}

TEST(WatchTickerTest, OwnersOperatorsAndStreamsThatCarryAJobAreNotKeptOut) {
  WatchTicker ticker({.period = absl::Hours(1), .watchers_max = 2, .watchers_per_job_max = 2});
  ASSERT_TRUE(ticker.Add(WatcherOf("reader", 7)).ok());
  ASSERT_TRUE(ticker.Add(WatcherOf("another", 7)).ok());
  ASSERT_FALSE(ticker.Add(WatcherOf("third", 7)).ok());
  EXPECT_TRUE(ticker.Add(WatcherOf("third", 7, Kind::kOperator)).ok());
  EXPECT_TRUE(ticker.Add(WatcherOf("third", 7, Kind::kCarrier)).ok());
  EXPECT_EQ(ticker.watchers(), 2u) << "those are in no count";
  EXPECT_TRUE(ticker.Add(WatcherOf("owner", 7, Kind::kOwner)).ok());
  EXPECT_TRUE(ticker.Add(WatcherOf("owner", 7, Kind::kOwner)).ok());
  EXPECT_FALSE(ticker.Add(WatcherOf("owner", 7, Kind::kOwner)).ok())
      << "an owner has a share of its own, not any number";
}

}  // namespace
}  // namespace tune::server
