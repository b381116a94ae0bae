// SPDX-License-Identifier: Apache-2.0
#include "server/devices/device_turns.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace tune::server {
namespace {

TEST(DeviceTurns, OneAtATimeInTheOrderOfAsking) {
  DeviceTurns turns;
  std::optional<DeviceTurns::Turn> first;
  first.emplace(turns.Take("cuda:0", "a test", {}).value());
  std::vector<size_t> order;
  std::atomic<int> holders = 0;
  std::vector<std::promise<void>> asked(4);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < asked.size(); ++i) {
    threads.emplace_back([&, i] {
      bool told = false;
      auto turn = turns.Take("cuda:0", "a test", {}, [&](const std::string&) {
        if (!std::exchange(told, true)) asked[i].set_value();
      });
      ASSERT_TRUE(turn.ok());
      EXPECT_EQ(++holders, 1);
      order.push_back(i);
      --holders;
    });
    // It has asked before the next one does.
    ASSERT_EQ(asked[i].get_future().wait_for(std::chrono::seconds(30)), std::future_status::ready);
  }
  EXPECT_TRUE(order.empty());
  first.reset();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(order, (std::vector<size_t>{0, 1, 2, 3}));
}

TEST(DeviceTurns, DevicesDoNotWaitForEachOther) {
  DeviceTurns turns;
  auto gpu = turns.Take("cuda:0", "a test", {});
  auto cpu = turns.Take("cpu", "a test", {});
  EXPECT_TRUE(gpu.ok());
  EXPECT_TRUE(cpu.ok());
}

TEST(DeviceTurns, WhoGivesUpLeavesTheLine) {
  DeviceTurns turns;
  std::optional<DeviceTurns::Turn> first;
  first.emplace(turns.Take("cpu", "a test", {}).value());
  EXPECT_TRUE(absl::IsCancelled(turns.Take("cpu", "a test", [] { return true; }).status()));
  first.reset();
  EXPECT_TRUE(turns.Take("cpu", "a test", {}).ok());
}

TEST(DeviceTurns, WhoWaitsIsToldWhoHasIt) {
  DeviceTurns turns;
  std::optional<DeviceTurns::Turn> first;
  first.emplace(turns.Take("cpu", "a gate", {}).value());
  EXPECT_FALSE(turns.TryTake("cpu", "a try").has_value());
  EXPECT_TRUE(turns.TryTake("cuda:0", "a try").has_value());
  std::vector<std::string> holders;
  const auto turn = turns.Take("cpu", "sweep 1", {}, [&](const std::string& holder) {
    holders.push_back(holder);
    first.reset();
  });
  EXPECT_TRUE(turn.ok());
  EXPECT_EQ(holders, std::vector<std::string>{"a gate"});
  holders.clear();
  EXPECT_TRUE(turns
                  .Take("cuda:0", "sweep 2", {},
                        [&](const std::string& holder) { holders.push_back(holder); })
                  .ok());
  EXPECT_TRUE(holders.empty()) << "nobody had to be waited for";
}

}  // namespace
}  // namespace tune::server
