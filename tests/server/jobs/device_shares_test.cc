// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/device_shares.h"

#include <gtest/gtest.h>

namespace tune::server {
namespace {

TEST(DeviceSharesTest, EachPrincipalsTimeAddsUp) {
  DeviceShares shares;
  shares.Enter("cuda:0", "alice");
  shares.Enter("cuda:0", "bob");
  shares.Add("cuda:0", "alice", absl::Seconds(20));
  shares.Add("cuda:0", "alice", absl::Seconds(10));
  EXPECT_EQ(shares.Had("cuda:0", "alice"), absl::Seconds(30));
  EXPECT_EQ(shares.Had("cuda:0", "bob"), absl::ZeroDuration());
  EXPECT_EQ(shares.Had("cuda:1", "alice"), absl::ZeroDuration()) << "each device by itself";
}

TEST(DeviceSharesTest, WhoComesAnewBeginsWhereTheLeastStands) {
  DeviceShares shares;
  shares.Enter("cpu", "alice");
  shares.Add("cpu", "alice", absl::Hours(2));
  shares.Enter("cpu", "bob");
  EXPECT_EQ(shares.Had("cpu", "bob"), absl::Hours(2)) << "or alice would wait for two hours";
}

TEST(DeviceSharesTest, WhoLeavesForAMomentIsNotForgivenItsTime) {
  DeviceShares shares;
  shares.Enter("cpu", "alice");
  shares.Enter("cpu", "bob");
  shares.Add("cpu", "bob", absl::Hours(1));
  shares.Leave("cpu", "bob");
  shares.Enter("cpu", "bob");
  EXPECT_EQ(shares.Had("cpu", "bob"), absl::Hours(1));
  shares.Add("cpu", "alice", absl::Hours(3));
  shares.Leave("cpu", "bob");
  EXPECT_EQ(shares.Had("cpu", "bob"), absl::ZeroDuration()) << "behind the others it is forgotten";
  shares.Enter("cpu", "bob");
  EXPECT_EQ(shares.Had("cpu", "bob"), absl::Hours(3));
}

TEST(DeviceSharesTest, WhenAllHaveLeftTheyBeginAlike) {
  DeviceShares shares;
  shares.Enter("cpu", "alice");
  shares.Add("cpu", "alice", absl::Hours(1));
  shares.Leave("cpu", "alice");
  shares.Enter("cpu", "bob");
  shares.Enter("cpu", "alice");
  EXPECT_EQ(shares.Had("cpu", "alice"), shares.Had("cpu", "bob"));
}

}  // namespace
}  // namespace tune::server
