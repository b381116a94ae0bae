// SPDX-License-Identifier: Apache-2.0
#include "base/logged.h"

#include <gtest/gtest.h>

#include "absl/strings/cord.h"

namespace tune {
namespace {

TEST(LoggedTest, PayloadsAreLeftOut) {
  absl::Status status = absl::AbortedError("the disk is full");
  status.SetPayload("tunectl/host-short", absl::Cord());
  EXPECT_EQ(Logged(status), "ABORTED: the disk is full");
}

}  // namespace
}  // namespace tune
