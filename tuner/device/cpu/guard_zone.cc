// SPDX-License-Identifier: Apache-2.0
#include "tuner/device/cpu/guard_zone.h"

#include "absl/strings/str_cat.h"

namespace tune::cpu {
namespace {

unsigned char GuardByte(size_t offset) {
  return static_cast<unsigned char>((offset * 0x9e3779b97f4a7c15ull) >> 56 | 1u);
}

}  // namespace

void FillGuard(unsigned char* zone, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i) zone[i] = GuardByte(i);
}

std::string DescribeGuard(const unsigned char* zone, size_t bytes, GuardSide side) {
  const bool after = side == GuardSide::kAfter;
  size_t bad = 0;
  size_t nearest = 0;
  for (size_t i = 0; i < bytes; ++i) {
    if (zone[i] == GuardByte(i)) continue;
    if (bad == 0 || !after) nearest = after ? i : bytes - i;
    ++bad;
  }
  if (bad == 0) return "";
  return absl::StrCat(bad, " bytes ", after ? "after" : "before", " it, the nearest ", nearest,
                      " bytes ", after ? "past its end" : "ahead of its start");
}

}  // namespace tune::cpu
