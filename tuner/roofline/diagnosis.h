// SPDX-License-Identifier: Apache-2.0
// Diagnoses the resource that limits a measured config: the hierarchical roofline (C. Yang, T.
// Kurth, S. Williams, "Hierarchical Roofline analysis for GPUs", CCPE 2020) in terms of time, which
// also handles kernels without FLOPs. Every resource gives a floor, the time that its share of the
// work takes at its ceiling; the longest floor binds.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/fields.h"
#include "tuner/ceiling.h"
#include "tuner/plan.h"
#include "tuner/trial.h"

namespace tune {

// The hardware counts of one config; nullopt for those that were not counted.
struct CountedWork {
  std::optional<double> dram_read_bytes;
  std::optional<double> dram_write_bytes;
  std::optional<double> l2_bytes;
  std::optional<double> l1_bytes;
  std::optional<double> shared_bytes;
  std::map<std::string, double> flops;  // by ceiling: "f32", "tensor_bf16"
};

// The facts that every config of a problem on a device shares.
struct RooflineBasis {
  WorkPlan declared;
  double written_bytes = 0;       // of the declared ones
  std::vector<Ceiling> ceilings;  // bytes/s, FLOP/s; "launch" in ns
  double cache_bytes = 0;         // last-level cache; 0: unknown, so any output may be in it
};

// The resource that limits a kernel. Values are sent: do not renumber.
enum class RooflineResource {
  kUnknown = 0,
  kDram = 1,
  kL3 = 2,
  kL2 = 3,
  kL1 = 4,
  kShared = 5,
  kCompute = 6,
  kLaunch = 7,
};

struct ResourceUse {
  RooflineResource resource = RooflineResource::kUnknown;
  std::string ceiling;   // "dram_copy", "dram, 20 % written", "tensor_bf16"
  double amount = 0;     // bytes or FLOPs
  bool counted = false;  // by hardware; else declared
  double roof = 0;       // per second
  double floor_ns = 0;
  // floor_ns without the bytes that may leave the cache after the kernel: nothing can be faster.
  double believable_ns = 0;
  double utilisation = 0;  // floor over median; 0 when unknown
  double intensity = 0;    // FLOPs over these bytes; 0 for compute and launch
};
TUNE_FIELDS(ResourceUse, resource, ceiling, amount, counted, roof, floor_ns, believable_ns,
            utilisation, intensity);

enum class RooflineVerdict {
  kUnknown = 0,
  kWellUsed = 1,
  kMemoryBound = 2,
  kComputeBound = 3,
  kLatencyLimited = 4,
  kInvalidRoof = 5,
};

struct Diagnosis {
  std::vector<ResourceUse> uses;  // longest floor first
  double floor_ns = 0;
  double efficiency = 0;                                  // floor over median; 0 when unknown
  RooflineResource binding = RooflineResource::kUnknown;  // that of the longest floor
  RooflineVerdict verdict = RooflineVerdict::kUnknown;
  std::string sentence;
  double reread_factor = 0;  // DRAM bytes counted over declared; 0 when not counted
  std::vector<std::string> notes;
};
TUNE_FIELDS(Diagnosis, uses, floor_ns, efficiency, binding, verdict, sentence, reread_factor,
            notes);

// The thresholds of Nsight Compute's speed-of-light rules: above 80 % of a limit there is little to
// win from tuning, and below 60 % of every limit it is waiting that costs the time.
inline constexpr double kWellUsedEfficiency = 0.8;
inline constexpr double kBoundEfficiency = 0.6;

Diagnosis Diagnose(const RooflineBasis& basis, const std::optional<CountedWork>& counted,
                   const Trial& trial);

}  // namespace tune
