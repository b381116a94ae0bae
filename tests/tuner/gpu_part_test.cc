// SPDX-License-Identifier: Apache-2.0
#include "tuner/gpu_part.h"

#include <gtest/gtest.h>

namespace tune {
namespace {

constexpr int64_t kGiB = int64_t{1} << 30;

TEST(GpuPartTest, AWholeCardIsCalledWhatTheDriverCallsIt) {
  EXPECT_EQ(NameOfGpu("NVIDIA H200", 132, 140 * kGiB), "NVIDIA H200");
  EXPECT_EQ(NameOfGpu("NVIDIA H100 80GB HBM3", 132, 79 * kGiB), "NVIDIA H100 80GB HBM3");
  EXPECT_EQ(NameOfGpu("NVIDIA H100 PCIe", 114, 79 * kGiB), "NVIDIA H100 PCIe");
  EXPECT_EQ(NameOfGpu("NVIDIA H200", 0, 0), "NVIDIA H200") << "not known";
  EXPECT_EQ(NameOfGpu("Some GPU", 3, kGiB), "Some GPU") << "nobody knows the whole";
}

TEST(GpuPartTest, APartHasANameOfItsOwn) {
  // MPS: CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=50.
  EXPECT_EQ(NameOfGpu("NVIDIA H200", 66, 140 * kGiB), "NVIDIA H200 (66 SMs, 140 GiB)");
  // MIG, by drivers that name the slice and by others; slices of two sizes of memory.
  EXPECT_EQ(NameOfGpu("NVIDIA H200 MIG 1g.18gb", 16, 16 * kGiB), "NVIDIA H200 (16 SMs, 16 GiB)");
  EXPECT_EQ(NameOfGpu("NVIDIA H200", 16, 16 * kGiB + 1), "NVIDIA H200 (16 SMs, 16 GiB)");
  EXPECT_EQ(NameOfGpu("NVIDIA H200", 16, 32 * kGiB), "NVIDIA H200 (16 SMs, 32 GiB)");
  EXPECT_EQ(NameOfGpu("NVIDIA H200 (16 SMs, 16 GiB)", 16, 16 * kGiB),
            "NVIDIA H200 (16 SMs, 16 GiB)");
  EXPECT_TRUE(IsPartOfGpu("NVIDIA H200 (16 SMs, 16 GiB)"));
  EXPECT_FALSE(IsPartOfGpu("NVIDIA H200"));
}

}  // namespace
}  // namespace tune
