// SPDX-License-Identifier: Apache-2.0
#include "tuner/roofline/roofline.h"

#include <algorithm>

namespace tune {
namespace {

constexpr double kNanosecondsPerSecond = 1e9;
// Clocks and ceilings have errors too; 3 % below is beyond them.
constexpr double kBelievable = 0.97;

const Ceiling* FindCeiling(const std::vector<Ceiling>& ceilings, const std::string& name) {
  const auto it = std::find_if(ceilings.begin(), ceilings.end(), [&](const Ceiling& ceiling) {
    return ceiling.name == name && ceiling.value > 0;
  });
  return it == ceilings.end() ? nullptr : &*it;
}

}  // namespace

Roof RoofFor(const WorkPlan& work, const std::vector<Ceiling>& ceilings, double cached_bytes) {
  const Ceiling* memory = FindCeiling(ceilings, "dram_copy");
  const Ceiling* compute = FindCeiling(ceilings, work.peak);
  const auto at = [](double amount, const Ceiling* ceiling) {
    return amount > 0 && ceiling != nullptr ? amount / ceiling->value * kNanosecondsPerSecond : 0;
  };
  const double memory_ns = at(work.bytes, memory);
  const double compute_ns = at(work.flops, compute);
  Roof roof;
  if (memory_ns == 0 && compute_ns == 0) return roof;
  const Ceiling& binding = memory_ns >= compute_ns ? *memory : *compute;
  roof.bound = memory_ns >= compute_ns ? "memory" : "compute";
  roof.floor_ns = std::max(memory_ns, compute_ns);
  roof.believable_ns = std::max(at(work.bytes - cached_bytes, memory), compute_ns);
  roof.ceiling = binding.value;
  roof.measured = binding.measured;
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
         measurement.latency_ns_median < kBelievable * roof.believable_ns;
}

}  // namespace tune
