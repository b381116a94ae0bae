// SPDX-License-Identifier: Apache-2.0
#include "tuner/transfer/waves.h"

#include <gtest/gtest.h>

namespace tune {
namespace {

constexpr int64_t kSharedOfSm90 = 232448;

int64_t Residents(const BlockNeeds& needs) { return ResidentBlocks(90, kSharedOfSm90, needs); }

TEST(WavesTest, AMultiprocessorHoldsWhatTheScarcestOfItsResourcesAllows) {
  EXPECT_EQ(Residents({.threads = 32}), 32) << "places";
  EXPECT_EQ(Residents({.threads = 256}), 8) << "threads";
  EXPECT_EQ(Residents({.threads = 256, .registers = 96}), 2) << "registers";
  EXPECT_EQ(Residents({.threads = 256, .registers = 97}), 2) << "in units of 8";
  EXPECT_EQ(Residents({.threads = 100, .registers = 128}), 4) << "whole warps";
  EXPECT_EQ(Residents({.threads = 256, .shared_bytes = 49152}), 4) << "shared memory";
  // 228 KiB in all, of which each block takes 1 KiB more than it asks for.
  EXPECT_EQ(Residents({.threads = 64, .shared_bytes = 113 * 1024}), 2);
  EXPECT_EQ(Residents({.threads = 64, .shared_bytes = 113 * 1024 + 1}), 1);
  EXPECT_EQ(Residents({.threads = 1024, .registers = 255}), 1) << "it ran";
  EXPECT_EQ(Residents({}), 32) << "nothing is known";
  EXPECT_EQ(ResidentBlocks(86, 101376, {.threads = 256}), 6);
  EXPECT_EQ(ResidentBlocks(89, 101376, {.threads = 32}), 24);
  EXPECT_EQ(ResidentBlocks(75, 65536, {.threads = 256}), 4);
}

TEST(WavesTest, ALaunchTakesLongerWhereItsLastWaveIsNotFull) {
  const double full = Stretch(132, 1, 132);
  EXPECT_DOUBLE_EQ(full, 1.5);
  EXPECT_DOUBLE_EQ(Stretch(10 * 132, 1, 132), full);
  EXPECT_DOUBLE_EQ(Stretch(66, 1, 132), 2 * full) << "half of the multiprocessors have nothing";
  EXPECT_GT(Stretch(133, 1, 132), 1.9 * full);
  EXPECT_LT(Stretch(10 * 132 + 1, 1, 132), 1.11 * full) << "of many waves one more";
  // Two at a time hide each other's waiting: alone, one takes more than half of their time.
  const double two = Stretch(264, 2, 132);
  EXPECT_LT(two, full);
  EXPECT_GT(Stretch(132, 2, 132), two);
  EXPECT_LT(Stretch(132, 2, 132), 2 * two);
}

TEST(WavesTest, UnknownValuesGiveAStretchOfOne) {
  EXPECT_EQ(Stretch(0, 1, 132), 1);
  EXPECT_EQ(Stretch(100, 0, 132), 1);
  EXPECT_EQ(Stretch(100, 1, 0), 1);
}

}  // namespace
}  // namespace tune
