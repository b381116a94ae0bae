// SPDX-License-Identifier: Apache-2.0
#include "tuner/roofline/roofline.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_format.h"

namespace tune {
namespace {

constexpr double kNanosecondsPerSecond = 1e9;
// The most that a ceiling may be by its own spread.
double HighOf(const Ceiling& ceiling) { return std::max(ceiling.value, ceiling.high); }

bool AllMeasured(const std::vector<Ceiling>& ceilings, const std::string& prefix) {
  return std::all_of(ceilings.begin(), ceilings.end(), [&](const Ceiling& ceiling) {
    return ceiling.name.rfind(prefix, 0) != 0 || ceiling.source == CeilingSource::kMeasured;
  });
}

// A probe of memory, and the share of its bytes that it writes.
struct Probe {
  double share;
  const Ceiling* ceiling;
};

std::vector<Probe> KnownProbes(const std::vector<Ceiling>& ceilings) {
  constexpr std::pair<const char*, double> kMixes[] = {
      {"dram_read", 0}, {"dram_triad", 1.0 / 3}, {"dram_copy", 0.5}, {"dram_write", 1}};
  std::vector<Probe> probes;
  for (const auto& [name, share] : kMixes) {
    const Ceiling* ceiling = FindCeiling(ceilings, name);
    if (ceiling != nullptr) probes.push_back({share, ceiling});
  }
  return probes;
}

}  // namespace

const Ceiling* FindCeiling(const std::vector<Ceiling>& ceilings, const std::string& name) {
  const auto it = std::find_if(ceilings.begin(), ceilings.end(), [&](const Ceiling& ceiling) {
    return ceiling.name == name && ceiling.value > 0;
  });
  return it == ceilings.end() ? nullptr : &*it;
}

std::string ToText(Bound bound) {
  return bound == Bound::kMemory ? "memory" : bound == Bound::kCompute ? "compute" : "";
}

MemoryRoof MemoryRoofFor(const std::vector<Ceiling>& ceilings, double written_share) {
  const std::vector<Probe> probes = KnownProbes(ceilings);
  if (probes.empty()) return {};
  const auto above = std::find_if(probes.begin(), probes.end(),
                                  [&](const Probe& probe) { return written_share <= probe.share; });
  const Probe& b = above == probes.end() ? probes.back() : *above;
  const Probe& a = above == probes.begin() || above == probes.end() ? b : *(above - 1);
  const double t = a.share == b.share ? 1 : (written_share - a.share) / (b.share - a.share);
  const auto between = [t](double low, double high) { return 1 / ((1 - t) / low + t / high); };
  constexpr double kSameMix = 0.005;
  std::string name = absl::StrFormat("dram, %.0f %% written", written_share * 100);
  for (const Probe* probe : {&a, &b}) {
    const bool only = a.ceiling == b.ceiling;
    if (only || std::abs(written_share - probe->share) < kSameMix) name = probe->ceiling->name;
  }
  return {.rate = between(a.ceiling->value, b.ceiling->value),
          .rate_high = between(HighOf(*a.ceiling), HighOf(*b.ceiling)),
          .name = std::move(name),
          .source =
              AllMeasured(ceilings, "dram_") ? CeilingSource::kMeasured : CeilingSource::kNominal};
}

Roof RoofFor(const WorkPlan& work, const std::vector<Ceiling>& ceilings, double cached_bytes,
             double written_bytes) {
  const double written_share =
      written_bytes < 0 || work.bytes <= 0 ? 0.5 : std::min(written_bytes / work.bytes, 1.0);
  const MemoryRoof memory = MemoryRoofFor(ceilings, written_share);
  const Ceiling* compute = FindCeiling(ceilings, work.peak);
  const auto at = [](double amount, double rate) {
    return amount > 0 && rate > 0 ? amount / rate * kNanosecondsPerSecond : 0;
  };
  const double memory_ns = at(work.bytes, memory.rate);
  const double compute_ns = at(work.flops, compute == nullptr ? 0 : compute->value);
  Roof roof;
  if (memory_ns == 0 && compute_ns == 0) return roof;
  const bool memory_binds = memory_ns >= compute_ns;
  roof.bound = memory_binds ? Bound::kMemory : Bound::kCompute;
  roof.floor_ns = std::max(memory_ns, compute_ns);
  roof.believable_ns = std::max(at(work.bytes - cached_bytes, memory.rate_high),
                                at(work.flops, compute == nullptr ? 0 : HighOf(*compute)));
  roof.ceiling = memory_binds ? memory.rate : compute->value;
  roof.source = memory_binds ? memory.source : compute->source;
  return roof;
}

Roof RoofFor(const ProblemPlan& problem, const std::vector<Ceiling>& ceilings, int64_t l2_bytes) {
  const double written = WrittenBytes(problem);
  return RoofFor(problem.work, ceilings, std::min(written, static_cast<double>(l2_bytes)), written);
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
