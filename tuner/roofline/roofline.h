// SPDX-License-Identifier: Apache-2.0
// Holds a measurement against what the device can do.
#pragma once

#include <string>
#include <vector>

#include "base/fields.h"
#include "tuner/ceiling.h"
#include "tuner/plan.h"
#include "tuner/trial.h"

namespace tune {

// Which ceiling a workload meets first. Values are stored and sent: do not renumber.
enum class Bound { kUnknown = 0, kMemory = 1, kCompute = 2 };

std::string ToText(Bound bound);  // "memory", "compute"; empty when no ceiling is known

// Null where no positive ceiling of that name was measured.
const Ceiling* FindCeiling(const std::vector<Ceiling>& ceilings, const std::string& name);

struct Roof {
  double floor_ns = 0;  // declared work at the ceiling that binds
  // No variant can be faster: what it writes last may stay in the cache, and the ceilings may be as
  // high as their spread allows.
  double believable_ns = 0;
  Bound bound = Bound::kUnknown;
  double ceiling = 0;  // bytes/s or FLOP/s
  CeilingSource source = CeilingSource::kUnknown;
};
TUNE_FIELDS(Roof, floor_ns, believable_ns, bound, ceiling, source);

// The rate of memory for a mix of reads and writes.
struct MemoryRoof {
  double rate = 0;       // bytes/s; 0 where no ceiling of memory is known
  double rate_high = 0;  // the most that the ceilings' own spread leaves possible
  std::string name;      // "dram_copy" at a probe's own mix; between two, "dram, 20 % written"
  CeilingSource source = CeilingSource::kUnknown;
};

// The roof of bytes of which `written_share` are written: reads alone, triads (a third), copies (a
// half) and writes alone are measured, and the time of a byte lies between those of its neighbours.
// A search, a report, a profile and a comparison all use it, and so have one roof.
MemoryRoof MemoryRoofFor(const std::vector<Ceiling>& ceilings, double written_share);

// A measurement is believed down to this share of what a roof makes believable: clocks and ceilings
// have errors, too.
inline constexpr double kBelievable = 0.97;

// floor = max(bytes / memory rate, flops / peak). Source: Williams, Waterman, Patterson,
// "Roofline", CACM 52(4), 2009; that each direction has a roof of its own: tracel-ai/cubecl #1546.
// `cached_bytes` is how much of the bytes need not reach memory while the kernel runs: up to a
// cache full of output leaves after it. `written_bytes` is how many of them are written; negative:
// not known, and half of them are.
Roof RoofFor(const WorkPlan& work, const std::vector<Ceiling>& ceilings, double cached_bytes = 0,
             double written_bytes = -1);
// The roof of a problem on a device whose L2 cache has so many bytes.
Roof RoofFor(const ProblemPlan& problem, const std::vector<Ceiling>& ceilings, int64_t l2_bytes);

// Fills in rates and peak_fraction. True if the sample is cold and the median is below kBelievable
// of a measured roof's believable time: the trial is then refused (Outcome kAboveRoof).
bool ApplyRoofline(const WorkPlan& work, const Roof& roof, Measurement& measurement);

}  // namespace tune
