// SPDX-License-Identifier: Apache-2.0
#include "tuner/roofline/roofline.h"

#include <algorithm>

namespace tune {
namespace {

constexpr double kNanosecondsPerSecond = 1e9;
// Clocks and ceilings have errors too; 3 % below the floor is beyond them.
constexpr double kBelievable = 0.97;

const Ceiling* FindCeiling(const std::vector<Ceiling>& ceilings, const std::string& name) {
  const auto it = std::find_if(ceilings.begin(), ceilings.end(), [&](const Ceiling& ceiling) {
    return ceiling.name == name && ceiling.value > 0;
  });
  return it == ceilings.end() ? nullptr : &*it;
}

}  // namespace

Roof RoofFor(const WorkPlan& work, const std::vector<Ceiling>& ceilings) {
  Roof roof;
  auto raise = [&roof](double amount, const Ceiling* ceiling, const char* bound) {
    if (amount <= 0 || ceiling == nullptr) return;
    const double floor_ns = amount / ceiling->value * kNanosecondsPerSecond;
    if (floor_ns <= roof.floor_ns) return;
    roof = {floor_ns, bound, ceiling->value, ceiling->measured};
  };
  raise(work.bytes, FindCeiling(ceilings, "dram_copy"), "memory");
  raise(work.flops, FindCeiling(ceilings, work.peak), "compute");
  return roof;
}

bool ApplyRoofline(const WorkPlan& work, const Roof& roof, Measurement& measurement) {
  if (measurement.latency_ns_median <= 0) return false;
  const double seconds = measurement.latency_ns_median / kNanosecondsPerSecond;
  measurement.bytes_per_second = work.bytes / seconds;
  measurement.flops_per_second = work.flops / seconds;
  measurement.peak_fraction = roof.floor_ns / measurement.latency_ns_median;
  // From a warm cache less than the declared bytes need come from memory.
  return roof.measured && measurement.cache_mode == CacheMode::kCold &&
         measurement.latency_ns_median < kBelievable * roof.floor_ns;
}

}  // namespace tune
