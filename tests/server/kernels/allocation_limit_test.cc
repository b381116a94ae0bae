// SPDX-License-Identifier: Apache-2.0
#include "server/kernels/allocation_limit.h"

#include <gtest/gtest.h>

#include <memory>
#include <new>
#include <string>
#include <thread>
#include <vector>

// The runtimes of sanitizers have a `new` of their own.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TUNE_SKIP_UNDER_SANITIZERS() GTEST_SKIP() << "a sanitizer has its own operator new"
#else
#define TUNE_SKIP_UNDER_SANITIZERS()
#endif

namespace tune::server {
namespace {

constexpr size_t kMiB = 1 << 20;

TEST(AllocationLimitTest, WorkWithinTheLimitReturnsItsOwnStatus) {
  EXPECT_TRUE(RunWithin(4 * kMiB, [] {
                const std::vector<char> bytes(3 * kMiB);
                return absl::OkStatus();
              }).ok());
  EXPECT_EQ(RunWithin(kMiB, [] { return absl::NotFoundError("own"); }).message(), "own");
}

TEST(AllocationLimitTest, ManySmallPiecesAreCountedTogether) {
  TUNE_SKIP_UNDER_SANITIZERS();
  std::vector<std::unique_ptr<char[]>> pieces;
  pieces.reserve(kMiB);
  const absl::Status status = RunWithin(kMiB, [&] {
    for (int i = 0; i < 1'000'000; ++i) pieces.push_back(std::make_unique<char[]>(64));
    return absl::OkStatus();
  });
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_GT(pieces.size(), 1000u);
  EXPECT_LE(pieces.size() * 64, kMiB);
}

TEST(AllocationLimitTest, WhatIsFreedMakesRoom) {
  const absl::Status status = RunWithin(kMiB, [] {
    for (int i = 0; i < 100; ++i) const std::vector<char> bytes(kMiB / 2);
    return absl::OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status;
}

TEST(AllocationLimitTest, OneArrayOfAllMemoryIsRefusedBeforeItIsTaken) {
  TUNE_SKIP_UNDER_SANITIZERS();
  const absl::Status status = RunWithin(kMiB, [] {
    const std::string text(size_t{1} << 40, 'x');
    return absl::OkStatus();
  });
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_EQ(status.message(), "it takes more than 1 MiB of memory");
}

TEST(AllocationLimitTest, AfterwardsAndOnOtherThreadsThereIsNoLimit) {
  TUNE_SKIP_UNDER_SANITIZERS();
  const absl::Status status = RunWithin(kMiB, [] {
    std::thread other([] { EXPECT_EQ(std::vector<char>(8 * kMiB).size(), 8 * kMiB); });
    other.join();
    const std::vector<char> own(2 * kMiB);
    return absl::OkStatus();
  });
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_EQ(std::vector<char>(8 * kMiB).size(), 8 * kMiB);
}

TEST(AllocationLimitTest, NothrowNewReturnsNull) {
  TUNE_SKIP_UNDER_SANITIZERS();
  const absl::Status status = RunWithin(kMiB, [] {
    char* const none = new (std::nothrow) char[2 * kMiB];
    EXPECT_EQ(none, nullptr);
    return absl::OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status;
}

}  // namespace
}  // namespace tune::server
