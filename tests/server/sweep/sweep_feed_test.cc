// SPDX-License-Identifier: Apache-2.0
#include "server/sweep/sweep_feed.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <memory>
#include <optional>

namespace tune::server {
namespace {

using testing::HasSubstr;

SweepView ViewWithDone(uint64_t done) {
  SweepView view;
  view.progress.done = done;
  return view;
}

Trial TrialWithId(int64_t id) {
  Trial trial;
  trial.id = id;
  return trial;
}

TEST(SweepFeedTest, FirstReadGivesTheStateAndNoOldTrials) {
  SweepFeed feed(ViewWithDone(0));
  feed.AddTrial(TrialWithId(1));
  SweepFeed::Cursor cursor = feed.Now();
  std::optional<SweepFeed::Event> event = feed.ReadSince(cursor);
  ASSERT_TRUE(event.has_value());
  EXPECT_TRUE(event->trials.empty());
  EXPECT_FALSE(feed.ReadSince(cursor).has_value()) << "nothing has changed";
}

TEST(SweepFeedTest, ChangesBetweenReadsAreOneEvent) {
  SweepFeed feed(ViewWithDone(0));
  SweepFeed::Cursor cursor = feed.Now();
  feed.ReadSince(cursor);
  for (int id = 1; id <= 3; ++id) {
    feed.AddTrial(TrialWithId(id));
    feed.Update(ViewWithDone(id));
  }
  std::optional<SweepFeed::Event> event = feed.ReadSince(cursor);
  ASSERT_TRUE(event.has_value());
  EXPECT_EQ(event->view.progress.done, 3u);
  ASSERT_EQ(event->trials.size(), 3u);
  EXPECT_EQ(event->trials.front().id, 1);
  EXPECT_EQ(event->trials.back().id, 3);
}

TEST(SweepFeedTest, SlowReaderGetsTheNewestTrials) {
  SweepFeed feed(ViewWithDone(0));
  SweepFeed::Cursor slow = feed.Now();
  feed.ReadSince(slow);
  for (int id = 1; id <= 1000; ++id) feed.AddTrial(TrialWithId(id));
  std::optional<SweepFeed::Event> event = feed.ReadSince(slow);
  ASSERT_TRUE(event.has_value());
  ASSERT_EQ(event->trials.size(), SweepFeed::kTrialsKept);
  EXPECT_EQ(event->trials.front().id, 1000 - 63);
  EXPECT_EQ(event->trials.back().id, 1000);
}

class CountingWatcher : public WatchTicker::Watcher {
 public:
  explicit CountingWatcher(int64_t sweep_id = 1) : sweep_id_(sweep_id) {}
  int64_t sweep_id() const override { return sweep_id_; }
  void Tick() override {
    if (++ticks == 1) ticked.count_down();
  }
  void Close() override { closed = true; }

  std::atomic<int> ticks = 0;
  std::atomic<bool> closed = false;
  std::latch ticked{1};

 private:
  const int64_t sweep_id_;
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

TEST(WatchTickerTest, OnlySoManyMayWatchASweepAndAllSweeps) {
  WatchTicker ticker({.period = absl::Hours(1), .watchers_max = 3, .watchers_per_sweep_max = 2});
  const auto first = std::make_shared<CountingWatcher>(7);
  ASSERT_TRUE(ticker.Add(first).ok());
  ASSERT_TRUE(ticker.Add(std::make_shared<CountingWatcher>(7)).ok());
  const absl::Status of_sweep = ticker.Add(std::make_shared<CountingWatcher>(7));
  EXPECT_TRUE(absl::IsResourceExhausted(of_sweep)) << of_sweep;
  EXPECT_THAT(std::string(of_sweep.message()), HasSubstr("watch sweep 7 already"));
  EXPECT_THAT(std::string(of_sweep.message()), HasSubstr("--watchers-per-sweep"));
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
