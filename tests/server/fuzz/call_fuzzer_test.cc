// SPDX-License-Identifier: Apache-2.0
// Made-up calls of every kind and role for some seconds. CONTRIBUTING.md says how to have them for
// an hour: TUNE_FUZZ_SECONDS=3600, and TUNE_FUZZ_SEED for others.
#include "tests/server/fuzz/call_fuzzer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <random>

#include "absl/time/clock.h"

namespace tune::server {
namespace {

uint64_t NumberOf(const char* variable, uint64_t otherwise) {
  const char* const text = getenv(variable);
  return text == nullptr ? otherwise : strtoull(text, nullptr, 10);
}

TEST(CallFuzzerTest, NoCallEndsOrFillsTheDaemon) {
  const auto seconds = static_cast<int64_t>(NumberOf("TUNE_FUZZ_SECONDS", 8));
  uint64_t seed = NumberOf("TUNE_FUZZ_SEED", 1);
  CallFuzzer fuzzer;
  for (const absl::Time end = absl::Now() + absl::Seconds(seconds); absl::Now() < end; ++seed) {
    // A choice takes a byte, so the bytes are random ones: digits would always make the same calls.
    std::mt19937_64 random(seed);
    std::array<uint8_t, 16> bytes;
    std::generate(bytes.begin(), bytes.end(), [&] { return static_cast<uint8_t>(random()); });
    Choices choices(bytes.data(), bytes.size());
    EXPECT_EQ(fuzzer.Run(choices), "") << "TUNE_FUZZ_SEED=" << seed;
  }
  EXPECT_GT(fuzzer.successes(), 0u) << "a fuzzer that nothing understands finds nothing";
  RecordProperty("calls", static_cast<int>(fuzzer.calls()));
}

}  // namespace
}  // namespace tune::server
