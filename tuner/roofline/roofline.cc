// SPDX-License-Identifier: Apache-2.0
#include "tuner/roofline/roofline.h"

#include <algorithm>
#include <utility>

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

bool AllMeasured(const std::vector<Ceiling>& ceilings, const std::string& prefix) {
  return std::all_of(ceilings.begin(), ceilings.end(), [&](const Ceiling& ceiling) {
    return ceiling.name.rfind(prefix, 0) != 0 || ceiling.source == CeilingSource::kMeasured;
  });
}

}  // namespace

std::string ToText(Bound bound) {
  return bound == Bound::kMemory ? "memory" : bound == Bound::kCompute ? "compute" : "";
}

double MemoryRate(const std::vector<Ceiling>& ceilings, double written_share) {
  struct Point {
    double share;
    double seconds_per_byte;
  };
  std::vector<Point> points;
  constexpr std::pair<const char*, double> kMixes[] = {
      {"dram_read", 0}, {"dram_triad", 1.0 / 3}, {"dram_copy", 0.5}, {"dram_write", 1}};
  for (const auto& [name, share] : kMixes) {
    const Ceiling* ceiling = FindCeiling(ceilings, name);
    if (ceiling != nullptr) points.push_back({share, 1 / ceiling->value});
  }
  if (points.empty()) return 0;
  if (written_share <= points.front().share) return 1 / points.front().seconds_per_byte;
  for (size_t i = 1; i < points.size(); ++i) {
    const Point& a = points[i - 1];
    const Point& b = points[i];
    if (written_share > b.share) continue;
    const double t = (written_share - a.share) / (b.share - a.share);
    return 1 / (a.seconds_per_byte + t * (b.seconds_per_byte - a.seconds_per_byte));
  }
  return 1 / points.back().seconds_per_byte;
}

Roof RoofFor(const WorkPlan& work, const std::vector<Ceiling>& ceilings, double cached_bytes,
             double written_bytes) {
  const double written_share =
      written_bytes < 0 || work.bytes <= 0 ? 0.5 : std::min(written_bytes / work.bytes, 1.0);
  const double memory_rate = MemoryRate(ceilings, written_share);
  const Ceiling* compute = FindCeiling(ceilings, work.peak);
  const auto at = [](double amount, double rate) {
    return amount > 0 && rate > 0 ? amount / rate * kNanosecondsPerSecond : 0;
  };
  const double memory_ns = at(work.bytes, memory_rate);
  const double compute_ns = at(work.flops, compute == nullptr ? 0 : compute->value);
  Roof roof;
  if (memory_ns == 0 && compute_ns == 0) return roof;
  const bool memory_binds = memory_ns >= compute_ns;
  roof.bound = memory_binds ? Bound::kMemory : Bound::kCompute;
  roof.floor_ns = std::max(memory_ns, compute_ns);
  roof.believable_ns = std::max(at(work.bytes - cached_bytes, memory_rate), compute_ns);
  roof.ceiling = memory_binds ? memory_rate : compute->value;
  roof.source = !memory_binds                       ? compute->source
                : AllMeasured(ceilings, "dram_") ? CeilingSource::kMeasured
                                                 : CeilingSource::kNominal;
  return roof;
}

bool ApplyRoofline(const WorkPlan& work, const Roof& roof, Measurement& measurement) {
  if (measurement.latency_ns_median <= 0) return false;
  const double seconds = measurement.latency_ns_median / kNanosecondsPerSecond;
  measurement.bytes_per_second = work.bytes / seconds;
  measurement.flops_per_second = work.flops / seconds;
  measurement.peak_fraction = roof.floor_ns / measurement.latency_ns_median;
  // From a warm cache less than the declared bytes need come from memory.
  return roof.source == CeilingSource::kMeasured && measurement.cache_mode == CacheMode::kCold &&
         measurement.latency_ns_median < kBelievable * roof.believable_ns;
}

}  // namespace tune
