// SPDX-License-Identifier: Apache-2.0
#include "tuner/spelling.h"

#include <gmock/gmock.h>

namespace tune {
namespace {

TEST(Spelling, DevicesMayBeInCapitals) {
  EXPECT_EQ(DeviceIdOf("CPU"), "cpu");
  EXPECT_EQ(DeviceIdOf("Cuda"), "cuda");
  EXPECT_EQ(DeviceIdOf("CUDA:1"), "cuda:1");
  EXPECT_EQ(DeviceIdOf("cuda:x"), "cuda:x");
  EXPECT_EQ(DeviceIdOf("NVIDIA H200"), "NVIDIA H200");
  EXPECT_EQ(DeviceIdOf(""), "");
}

}  // namespace
}  // namespace tune
