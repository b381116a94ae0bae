// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <thread>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "tuner/device_profile.h"
#include "tuner/kernel/kernel.h"

namespace tune {
namespace {

struct SmTraits {
  int sm;
  int64_t max_shared_bytes;  // per block, opt-in: CUDA C++ Programming Guide, compute capabilities
  int64_t sm_count;          // of a common device
};

constexpr SmTraits kSmTraits[] = {
    {70, 98304, 80},    {72, 98304, 8},     {75, 65536, 72},   {80, 166912, 108},
    {86, 101376, 84},   {87, 166912, 16},   {89, 101376, 142}, {90, 232448, 132},
    {100, 232448, 148}, {103, 232448, 148}, {110, 232448, 20}, {120, 101376, 170},
    {121, 101376, 48},
};
// Limits that every architecture offers without opting in.
constexpr SmTraits kUnknownSm = {0, 49152, 100};

}  // namespace

absl::StatusOr<TargetTraits> TargetTraitsFor(const std::string& target) {
  TargetTraits traits;
  traits.target = target;
  if (ProfileOfTarget(target).is_host) {
    traits.max_shared_bytes = 1 << 20;
    traits.sm_count = std::max(1u, std::thread::hardware_concurrency());
    return traits;
  }
  absl::string_view number = target;
  const bool prefixed = absl::ConsumePrefix(&number, "sm_");
  if (!absl::ConsumeSuffix(&number, "a")) absl::ConsumeSuffix(&number, "f");
  const bool digits = number.find_first_not_of("0123456789") == absl::string_view::npos;
  if (!prefixed || !digits || number.size() > 4 || !absl::SimpleAtoi(number, &traits.sm)) {
    return absl::InvalidArgumentError(
        absl::StrCat("unknown target '", target, "'; targets are cpu, sm_80, sm_90a, ..."));
  }
  SmTraits sm = kUnknownSm;
  for (const SmTraits& known : kSmTraits) {
    if (known.sm == traits.sm) sm = known;
  }
  traits.max_shared_bytes = sm.max_shared_bytes;
  traits.sm_count = sm.sm_count;
  return traits;
}

bool MatchesTarget(const std::string& pattern, const std::string& target) {
  // The usual greedy match with one point to go back to: the last '*'.
  size_t p = 0;
  size_t star = std::string::npos;
  size_t after_star = 0;
  for (size_t t = 0; t < target.size();) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      after_star = t;
    } else if (p < pattern.size() && pattern[p] == target[t]) {
      ++p;
      ++t;
    } else if (star != std::string::npos) {
      p = star + 1;
      t = ++after_star;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string::npos;
}

}  // namespace tune
