// SPDX-License-Identifier: Apache-2.0
// Finding the configs of a space takes bounded memory, whatever the space.
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>
#include <string>

#include "absl/strings/str_cat.h"
#include "tuner/space/space.h"

namespace {

std::atomic<int64_t> g_held = 0;
std::atomic<int64_t> g_most = 0;

}  // namespace

// Every block of this program is counted.
void* operator new(size_t size) {
  void* block = std::malloc(size);
  if (block == nullptr) std::abort();
  const int64_t held = g_held += static_cast<int64_t>(malloc_usable_size(block));
  if (held > g_most) g_most = held;
  return block;
}
void operator delete(void* block) noexcept {
  if (block != nullptr) g_held -= static_cast<int64_t>(malloc_usable_size(block));
  std::free(block);
}
void operator delete(void* block, size_t) noexcept { operator delete(block); }

namespace tune {
namespace {

constexpr int64_t kMiB = 1 << 20;

struct Case {
  std::string name;
  int params;
  std::string constraint;
};

class SpaceMemoryTest : public testing::TestWithParam<Case> {};

// Eight params of 300 values in all ways that make diagrams wide: slots, edges, or both; and groups
// of params that are found one after the other.
TEST_P(SpaceMemoryTest, IsBounded) {
  SpaceDefinition definition;
  for (int i = 0; i < GetParam().params; ++i) {
    SpaceParam param = {absl::StrCat("P", i), {}};
    for (int64_t value = 1; value <= 300; ++value) param.values.push_back(value);
    definition.params.push_back(std::move(param));
  }
  definition.constraints.push_back(
      {Expression::Parse(GetParam().constraint).value(), GetParam().constraint});
  const int64_t before = g_held;
  g_most = before;
  {
    const absl::StatusOr<Space> space = Space::Build(definition);
    // The bound includes memory that is reserved and never touched.
    EXPECT_LT(g_most - before, 144 * kMiB) << space.status();
    EXPECT_LT(g_held - before, 48 * kMiB) << "what is held afterwards";
  }
  EXPECT_LT(g_held - before, kMiB) << "and given back";
}

INSTANTIATE_TEST_SUITE_P(
    All, SpaceMemoryTest,
    testing::Values(
        Case{"Sum", 8, "P0 + P1 + P2 + P3 + P4 + P5 + P6 + P7 < 600"},
        Case{"Products", 8, "P0 * P1 + P2 * P3 + P4 * P5 + P6 * P7 < 40000"},
        Case{"Scrambled", 8,
             "((((P0 * 40503 + P1) % 1000003 * 7919 + P2 * P3) % 1000003 * 31 + P4) % 1000003 + P5 "
             "* P6 * P7) % 97 == 3"},
        Case{"Groups", 8,
             "P0 * P1 % 7 == 3 and P2 * P3 % 11 == 5 and P4 * P5 % 13 == 1 and P6 * P7 % 17 == 2"},
        Case{"MayFail", 8, "P0 // (P1 - P2) + P3 // (P4 - P5) + P6 % P7 > 3"}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace tune
