// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/device_shares.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

namespace tune::server {
namespace {

constexpr absl::Duration kTurn = absl::Seconds(5);

class DeviceSharesTest : public testing::Test {
 protected:
  // The principal has the device for some time, during which nobody else has any.
  void Use(const std::string& owner, absl::Duration time, const std::string& device = "cpu") {
    shares_.Add(device, owner, now_, now_ + time);
    now_ += time;
  }

  absl::Time now_ = absl::FromUnixSeconds(1'000'000'000);
  DeviceTime device_time_;
  DeviceShares shares_{kTurn, device_time_};
};

TEST_F(DeviceSharesTest, EachPrincipalsTimeAddsUp) {
  shares_.Enter("cuda:0", "alice");
  shares_.Enter("cuda:0", "bob");
  Use("alice", absl::Seconds(20), "cuda:0");
  Use("alice", absl::Seconds(10), "cuda:0");
  EXPECT_EQ(shares_.Had("cuda:0", "alice"), absl::Seconds(30));
  EXPECT_EQ(shares_.Had("cuda:0", "bob"), absl::ZeroDuration());
  EXPECT_EQ(shares_.Had("cuda:1", "alice"), absl::ZeroDuration()) << "each device by itself";
}

TEST_F(DeviceSharesTest, WhoComesAnewBeginsWhereTheLeastStands) {
  shares_.Enter("cpu", "alice");
  Use("alice", absl::Hours(2));
  shares_.Enter("cpu", "bob");
  EXPECT_EQ(shares_.Had("cpu", "bob"), absl::Hours(2)) << "or alice would wait for two hours";
}

TEST_F(DeviceSharesTest, WhoLeavesForAMomentIsNotForgivenItsTime) {
  shares_.Enter("cpu", "alice");
  shares_.Enter("cpu", "bob");
  Use("bob", absl::Hours(1));
  shares_.Leave("cpu", "bob");
  shares_.Enter("cpu", "bob");
  EXPECT_EQ(shares_.Had("cpu", "bob"), absl::Hours(1));
  Use("alice", absl::Hours(6));
  EXPECT_GT(shares_.Had("cpu", "alice"), absl::Hours(1));
  shares_.Leave("cpu", "bob");
  EXPECT_EQ(shares_.Had("cpu", "bob"), absl::ZeroDuration()) << "behind the others it is forgotten";
  shares_.Enter("cpu", "bob");
  EXPECT_EQ(shares_.Had("cpu", "bob"), shares_.Had("cpu", "alice"));
}

TEST_F(DeviceSharesTest, WhenAllHaveLeftTheyBeginAlike) {
  shares_.Enter("cpu", "alice");
  Use("alice", absl::Hours(1));
  shares_.Leave("cpu", "alice");
  shares_.Enter("cpu", "bob");
  shares_.Enter("cpu", "alice");
  EXPECT_EQ(shares_.Had("cpu", "alice"), shares_.Had("cpu", "bob"));
}

TEST_F(DeviceSharesTest, ALightPrincipalsTimeCountsForAThird) {
  shares_.Enter("cpu", "used");
  Use("used", absl::Minutes(10));
  shares_.Enter("cpu", "new");
  const absl::Duration begin = shares_.Had("cpu", "new");
  Use("new", absl::Minutes(9));
  EXPECT_EQ(shares_.Had("cpu", "new"), begin + absl::Minutes(3));
  Use("new", absl::Minutes(2));
  const absl::Duration caught_up = shares_.Had("cpu", "new");
  Use("new", absl::Minutes(2));
  EXPECT_EQ(shares_.Had("cpu", "new"), caught_up + absl::Minutes(2)) << "it has had as much";
}

TEST_F(DeviceSharesTest, JobsThatWaitCountAsLoad) {
  shares_.Enter("cpu", "one");
  for (int i = 0; i < 4; ++i) shares_.Enter("cpu", "many");
  Use("many", absl::Seconds(2));
  EXPECT_EQ(shares_.Had("cpu", "many"), absl::Seconds(2));
  Use("one", absl::Seconds(6));
  EXPECT_EQ(shares_.Had("cpu", "one"), absl::Seconds(2));
}

// Sweeps on one device by the scheduler's rules, a step at a time.
class Simulation {
 public:
  explicit Simulation(absl::Duration turn) : turn_(turn), shares_(turn, device_time_) {}

  void Submit(const std::string& owner, int jobs) {
    for (int i = 0; i < jobs; ++i) shares_.Enter("cpu", owner);
    left_[owner] = absl::InfiniteDuration();
  }
  void Run(absl::Duration time) {
    for (const absl::Time end = now_ + time; now_ < end;) Step();
  }
  // How much longer than alone a sweep takes that needs the device for `time`.
  double Slowdown(const std::string& owner, absl::Duration time) {
    Submit(owner, 1);
    left_[owner] = time;
    const absl::Time begin = now_;
    had_.clear();
    while (left_.contains(owner)) Step();
    waited_ = now_ - begin;
    return absl::FDivDuration(waited_, time);
  }
  // Returns the share of the device while the last sweep of Slowdown ran, with the turn that is due
  // to the others when it ends.
  double ShareOf(const std::string& owner) {
    return absl::FDivDuration(had_[owner] + turn_, waited_);
  }
  absl::Duration longest_gap() const { return longest_gap_; }

 private:
  static constexpr absl::Duration kStep = absl::Milliseconds(250);

  void Step() {
    const auto least = std::min_element(left_.begin(), left_.end(), [&](auto& a, auto& b) {
      return shares_.Had("cpu", a.first) < shares_.Had("cpu", b.first);
    });
    const absl::Duration had = shares_.Had("cpu", running_);
    const bool yields = had - had_before_ >= turn_ && had > shares_.Had("cpu", least->first);
    if (!left_.contains(running_) || yields) {
      running_ = least->first;
      had_before_ = shares_.Had("cpu", running_);
    }
    shares_.Add("cpu", running_, now_, now_ + kStep);
    now_ += kStep;
    had_[running_] += kStep;
    for (const auto& [owner, left] : left_) {
      absl::Time& last = last_.emplace(owner, now_).first->second;
      longest_gap_ = std::max(longest_gap_, now_ - last);
      if (owner == running_) last = now_;
    }
    if ((left_[running_] -= kStep) > absl::ZeroDuration()) return;
    left_.erase(running_);
    shares_.Leave("cpu", running_);
  }

  const absl::Duration turn_;
  DeviceTime device_time_;
  DeviceShares shares_;
  absl::Time now_ = absl::FromUnixSeconds(1'000'000'000);
  absl::Duration had_before_;
  std::string running_;
  std::map<std::string, absl::Duration> left_;
  std::map<std::string, absl::Duration> had_;
  std::map<std::string, absl::Time> last_;
  absl::Duration longest_gap_;
  absl::Duration waited_;
};

TEST(DeviceSharesSimulation, AnInnocentSweepIsSlowedByAtMostHalf) {
  for (const absl::Duration turn : {absl::Seconds(5), absl::Seconds(30)}) {
    for (const int turns : {3, 10, 40}) {
      Simulation device(turn);
      device.Submit("greedy", 64);
      device.Run(absl::Minutes(10));
      EXPECT_LE(device.Slowdown("innocent", turns * turn), 1.5) << turn << " times " << turns;
      EXPECT_GE(device.ShareOf("greedy"), 1.0 / 4) << turn << " times " << turns;
    }
  }
}

TEST(DeviceSharesSimulation, AnInnocentSweepThatUsedTheDeviceBeforeIsSlowedByAtMostHalf) {
  Simulation device(kTurn);
  device.Slowdown("innocent", absl::Seconds(20));
  device.Submit("greedy", 64);
  device.Run(absl::Seconds(10));
  EXPECT_LE(device.Slowdown("innocent", absl::Seconds(20)), 1.5);
}

TEST(DeviceSharesSimulation, AnInnocentSweepThatCaughtUpHasHalf) {
  Simulation device(kTurn);
  device.Submit("greedy", 64);
  const double slowdown = device.Slowdown("innocent", absl::Hours(5));
  EXPECT_GT(slowdown, 1.5);
  EXPECT_LT(slowdown, 2.0);
}

TEST(DeviceSharesSimulation, TwoOfOneLoadHaveHalfEach) {
  Simulation device(kTurn);
  device.Submit("other", 1);
  const double slowdown = device.Slowdown("one", absl::Minutes(20));
  EXPECT_GT(slowdown, 1.9);
  EXPECT_LT(slowdown, 2.1);
}

TEST(DeviceSharesSimulation, AGreedyPrincipalIsNotStarvedByManyInnocents) {
  Simulation device(kTurn);
  device.Submit("greedy", 64);
  device.Run(absl::Minutes(10));
  for (const char* name : {"a", "b", "c"}) device.Submit(name, 1);
  device.Slowdown("d", absl::Minutes(2));
  EXPECT_GE(device.ShareOf("greedy"), 1.0 / (1 + 3 * 4));
  EXPECT_LE(device.longest_gap(), 4 * 4 * kTurn);
}

}  // namespace
}  // namespace tune::server
