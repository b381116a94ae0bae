// SPDX-License-Identifier: Apache-2.0
#include "base/spec_dtype.h"

#include <gmock/gmock.h>

namespace tune {
namespace {

TEST(SpecDType, TypesOfFrameworksAreTheSpecs) {
  for (const char* text : {"f32", "F32", "float32", "Float32", "float", "torch.float32", "fp32"}) {
    EXPECT_EQ(SpecDType(text), "f32") << text;
  }
  for (const char* text : {"bf16", "BF16", "bfloat16", "torch.bfloat16", "BFloat16"}) {
    EXPECT_EQ(SpecDType(text), "bf16") << text;
  }
  for (const char* text : {"half", "fp16", "FP16", "float16", "torch.half"}) {
    EXPECT_EQ(SpecDType(text), "f16") << text;
  }
  EXPECT_EQ(SpecDType("fp64"), "f64");
  EXPECT_EQ(SpecDType("Int8"), "i8");
  EXPECT_EQ(SpecDType("F99"), "F99");
  EXPECT_EQ(SpecDType(""), "");
}

}  // namespace
}  // namespace tune
