// SPDX-License-Identifier: Apache-2.0
#include "server/snapshots/snapshot_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/steady_time.h"
#include "tests/server/temp_dir.h"

namespace tune::server {
namespace {

class SnapshotWriterTest : public testing::Test {
 protected:
  // A snapshot of what has been published so far.
  absl::StatusOr<std::string> Text() {
    ++texts_;
    absl::SleepFor(busy_);
    if (fails_) return absl::ResourceExhaustedError("too large");
    return absl::StrCat(R"({"format":"tunectl snapshot","version":1,"number":)", published_.load(),
                        R"(,"published_unix_ms":5,"record_count":2,)", "\n\"records\":[]}\n");
  }
  int64_t Newest() { return folder_->Find("").value().header.number; }

  TempDir dir_;
  const std::unique_ptr<SnapshotFolder> folder_ =
      SnapshotFolder::Open(dir_.path() + "/snapshots", SnapshotFolder::Use::kWrite, 100).value();
  std::atomic<int64_t> published_ = 0;
  std::atomic<int> texts_ = 0;
  std::atomic<bool> fails_ = false;
  std::atomic<absl::Duration> busy_ = absl::ZeroDuration();
  SnapshotWriter writer_{*folder_, [this] { return Text(); }};
};

TEST_F(SnapshotWriterTest, WhatWasNoticedIsInAFileAfterAFlush) {
  for (int64_t number = 1; number <= 5; ++number) {
    published_ = number;
    writer_.Notice();
    ASSERT_TRUE(writer_.Flush({}).ok());
    EXPECT_EQ(Newest(), number);
  }
}

TEST_F(SnapshotWriterTest, WhatWasNoticedIsAwaitedForAWhile) {
  writer_.Await(absl::InfiniteDuration());  // nothing
  published_ = 1;
  writer_.Notice();
  writer_.Await(absl::Seconds(60));
  EXPECT_EQ(Newest(), 1);
}

TEST_F(SnapshotWriterTest, AFileThatTookLongForLittleWorkIsFollowedByAShortRest) {
  busy_ = absl::Seconds(1);  // as on a host that gives the writer's thread no processor
  writer_.Notice();
  ASSERT_TRUE(writer_.Flush({}).ok());
  busy_ = absl::ZeroDuration();
  published_ = 1;
  writer_.Notice();
  const absl::Time start = SteadyNow();
  writer_.Await(absl::Seconds(60));
  EXPECT_EQ(Newest(), 1);
  EXPECT_LT(SteadyNow() - start, absl::Seconds(5)) << "not nine times as long as the file took";
}

TEST_F(SnapshotWriterTest, NothingPublishedIsNothingWritten) {
  EXPECT_TRUE(writer_.Flush({}).ok());
  EXPECT_EQ(texts_, 0);
}

TEST_F(SnapshotWriterTest, ManyPublishesShareAFileAndNoneWaits) {
  const absl::Time start = SteadyNow();
  for (int64_t number = 1; number <= 10000; ++number) {
    published_ = number;
    writer_.Notice();
  }
  EXPECT_LT(SteadyNow() - start, absl::Seconds(2));
  ASSERT_TRUE(writer_.Flush({}).ok());
  EXPECT_EQ(Newest(), 10000);
  EXPECT_LT(texts_, 100);
}

TEST_F(SnapshotWriterTest, TheLastIsWrittenAtTheEnd) {
  published_ = 3;
  writer_.Notice();
  published_ = 4;
  writer_.Notice();
  writer_.Stop();
  EXPECT_EQ(Newest(), 4);
  writer_.Notice();
  EXPECT_TRUE(writer_.Flush({}).ok()) << "nothing is noticed after the end";
}

TEST_F(SnapshotWriterTest, AFaultIsToldAndThenOver) {
  published_ = 1;
  fails_ = true;
  writer_.Notice();
  EXPECT_TRUE(absl::IsResourceExhausted(writer_.Flush({})));
  EXPECT_TRUE(absl::IsResourceExhausted(writer_.problem()));
  fails_ = false;
  EXPECT_TRUE(writer_.Flush({}).ok()) << "somebody waits, so it is tried again at once";
  EXPECT_TRUE(writer_.problem().ok());
  EXPECT_EQ(Newest(), 1);
}

TEST_F(SnapshotWriterTest, AFaultThatLastsDoesNotKeepTheDaemonFromStopping) {
  fails_ = true;
  writer_.Notice();
  const absl::Time start = SteadyNow();
  writer_.Stop();
  EXPECT_LT(SteadyNow() - start, absl::Seconds(5));
}

TEST_F(SnapshotWriterTest, WhoeverDoesNotWaitAnyMoreIsLetGo) {
  fails_ = true;
  writer_.Notice();
  (void)writer_.Flush({});
  EXPECT_FALSE(writer_.Flush([] { return true; }).ok());
}

}  // namespace
}  // namespace tune::server
