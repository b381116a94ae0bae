// SPDX-License-Identifier: Apache-2.0
// A client's lease of a device's turn: what ends it, and whose words count.
#include "server/comparison/peer_lease.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/steady_time.h"

namespace tune::server {
namespace {

v1::AnswerPeerRequest From(const PeerLease& lease, uint32_t number) {
  v1::AnswerPeerRequest said;
  said.set_lease(lease.token());
  said.set_number(number);
  return said;
}

TEST(PeerLeaseTest, AReportEndsTheTurnWithItsOutputs) {
  PeerLease lease;
  const uint32_t number = lease.Begin({"y"});
  v1::AnswerPeerRequest said = From(lease, number);
  said.mutable_piece()->set_buffer("y");
  for (const char* piece : {"ab", "c"}) {
    said.mutable_piece()->set_elements(piece);
    EXPECT_TRUE(lease.Hear(said).ok());
  }
  said.mutable_report()->set_message("done");
  std::thread client([&] { EXPECT_TRUE(lease.Hear(said).ok()); });
  const absl::StatusOr<PeerAnswer> answer = lease.Await(absl::Seconds(10), {});
  client.join();
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->outputs.at("y"), "abc");
  EXPECT_EQ(answer->report.message(), "done");
  EXPECT_NE(lease.Begin({"y"}), number);
}

TEST(PeerLeaseTest, SilenceEndsTheTurnAndWordsKeepIt) {
  PeerLease lease(absl::Milliseconds(300));
  const uint32_t number = lease.Begin({"y"});
  std::thread client([&] {
    v1::AnswerPeerRequest said = From(lease, number);
    said.set_alive(true);
    for (int i = 0; i < 10; ++i) {
      EXPECT_TRUE(lease.Hear(said).ok());
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
  });
  const absl::Time begin = SteadyNow();
  const absl::Status silent = lease.Await(absl::Seconds(60), {}).status();
  client.join();
  EXPECT_EQ(silent.code(), absl::StatusCode::kAborted) << silent;
  EXPECT_GT(SteadyNow() - begin, absl::Milliseconds(900));
}

TEST(PeerLeaseTest, ATurnHasADeadlineAndCanBeCancelled) {
  PeerLease lease;
  lease.Begin({"y"});
  EXPECT_EQ(lease.Await(absl::Milliseconds(50), {}).status().code(),
            absl::StatusCode::kDeadlineExceeded);
  lease.Begin({"y"});
  EXPECT_EQ(lease.Await(absl::Seconds(60), [] { return true; }).status().code(),
            absl::StatusCode::kCancelled);
}

TEST(PeerLeaseTest, OthersAndLateOnesAreNotHeard) {
  PeerLease lease;
  const uint32_t first = lease.Begin({"y"});
  v1::AnswerPeerRequest said = From(lease, first);
  said.mutable_report()->set_message("late");
  lease.Begin({"y"});
  EXPECT_TRUE(lease.Hear(said).ok());  // of the turn before: passed over
  EXPECT_EQ(lease.Await(absl::Milliseconds(50), {}).status().code(),
            absl::StatusCode::kDeadlineExceeded);
  said.set_lease("another");
  EXPECT_EQ(lease.Hear(said).code(), absl::StatusCode::kPermissionDenied);
  PeerLeases leases;
  said.set_job_id(7);
  EXPECT_EQ(leases.Hear(said).code(), absl::StatusCode::kNotFound);
}

TEST(PeerLeaseTest, WordsOfATurnThatIsOverDoNotKeepTheNextOne) {
  PeerLease lease(absl::Milliseconds(300));
  v1::AnswerPeerRequest said = From(lease, lease.Begin({"y"}));
  said.set_alive(true);
  lease.Begin({"y"});
  std::atomic<bool> over = false;
  std::thread client([&] {
    while (!over) {
      EXPECT_TRUE(lease.Hear(said).ok());
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  });
  const absl::Status silent = lease.Await(absl::Seconds(5), {}).status();
  over = true;
  client.join();
  EXPECT_EQ(silent.code(), absl::StatusCode::kAborted) << silent;
}

TEST(PeerLeaseTest, ElementsAreOfTheTurnsOutputsAlone) {
  PeerLease lease;
  for (const auto& [outputs, told] :
       {std::pair<std::vector<std::string>, std::string>{{"y", "z"}, "it asks for y, z"},
        {{}, "it asks for none"}}) {
    v1::AnswerPeerRequest said = From(lease, lease.Begin(outputs));
    said.mutable_piece()->set_buffer(std::string(1 << 20, 'n'));  // with no elements at all
    const absl::Status refused = lease.Hear(said);
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(refused.message()), testing::HasSubstr(told));
    EXPECT_LT(refused.message().size(), 200u);
    EXPECT_EQ(lease.Await(absl::Seconds(10), {}).status(), refused) << "the turn has ended";
  }
}

TEST(PeerLeaseTest, OutputsHaveABound) {
  PeerLease lease;
  v1::AnswerPeerRequest said = From(lease, lease.Begin({"y"}));
  said.mutable_piece()->set_buffer("y");
  said.mutable_piece()->set_elements(std::string(3 << 20, 'x'));
  EXPECT_EQ(lease.Hear(said).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(lease.Await(absl::Seconds(10), {}).status().code(),
            absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace tune::server
