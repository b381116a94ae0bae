// SPDX-License-Identifier: Apache-2.0
#include "tuner/spelling.h"

#include <gmock/gmock.h>

namespace tune {
namespace {

TEST(Spelling, TypesOfFrameworksAreTheSpecs) {
  for (const char* text : {"f32", "float32", "float", "torch.float32"}) {
    EXPECT_EQ(SpecDType(text), "f32") << text;
  }
  EXPECT_EQ(SpecDType("bfloat16"), "bf16");
  EXPECT_EQ(SpecDType("half"), "f16");
  EXPECT_EQ(SpecDType("f99"), "f99");
}

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
