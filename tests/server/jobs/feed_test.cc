// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/feed.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <memory>
#include <optional>

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

TEST(FeedTest, ANewReaderGetsTheStateAllResultsAndNoOldSteps) {
  Feed feed;
  feed.AddStep(StepWithId(1));
  feed.AddResult(StepWithId(2));
  Feed::Cursor cursor = feed.Now();
  const std::optional<Feed::News> news = feed.ReadSince(cursor);
  ASSERT_TRUE(news.has_value());
  EXPECT_TRUE(news->steps.empty());
  ASSERT_EQ(news->results.size(), 1u);
  EXPECT_EQ(IdOf(news->results[0]), 2);
  EXPECT_FALSE(news->ended);
  EXPECT_FALSE(feed.ReadSince(cursor).has_value()) << "nothing has changed";
}

TEST(FeedTest, ChangesBetweenReadsAreOnePieceOfNews) {
  Feed feed;
  Feed::Cursor cursor = feed.Now();
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
  Feed::Cursor slow = feed.Now();
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

class CountingWatcher : public WatchTicker::Watcher {
 public:
  explicit CountingWatcher(int64_t job_id = 1) : job_id_(job_id) {}
  int64_t job_id() const override { return job_id_; }
  void Tick() override {
    if (++ticks == 1) ticked.count_down();
  }
  void Close() override { closed = true; }

  std::atomic<int> ticks = 0;
  std::atomic<bool> closed = false;
  std::latch ticked{1};

 private:
  const int64_t job_id_;
};

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

TEST(WatchTickerTest, OnlySoManyMayWatchAJobAndAllJobs) {
  WatchTicker ticker({.period = absl::Hours(1), .watchers_max = 3, .watchers_per_job_max = 2});
  const auto first = std::make_shared<CountingWatcher>(7);
  ASSERT_TRUE(ticker.Add(first).ok());
  ASSERT_TRUE(ticker.Add(std::make_shared<CountingWatcher>(7)).ok());
  const absl::Status of_job = ticker.Add(std::make_shared<CountingWatcher>(7));
  EXPECT_TRUE(absl::IsResourceExhausted(of_job)) << of_job;
  EXPECT_THAT(std::string(of_job.message()), HasSubstr("watch job 7 already"));
  EXPECT_THAT(std::string(of_job.message()), HasSubstr("--watchers-per-job"));
  ASSERT_TRUE(ticker.Add(std::make_shared<CountingWatcher>(8)).ok());
  const absl::Status in_all = ticker.Add(std::make_shared<CountingWatcher>(9));
  EXPECT_TRUE(absl::IsResourceExhausted(in_all)) << in_all;
  EXPECT_THAT(std::string(in_all.message()), HasSubstr("--watchers"));
  EXPECT_EQ(ticker.watchers(), 3u);
  ticker.Remove(first.get());
  EXPECT_TRUE(ticker.Add(std::make_shared<CountingWatcher>(7)).ok()) << "one has left";
}

}  // namespace
}  // namespace tune::server
