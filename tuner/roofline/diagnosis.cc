// SPDX-License-Identifier: Apache-2.0
#include "tuner/roofline/diagnosis.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tuner/roofline/roofline.h"

namespace tune {
namespace {

using enum RooflineResource;

constexpr double kDebtCaches = 4;  // writes of fewer caches may leave noticeably later
constexpr double kRereadWorthSaying = 1.15;
constexpr double kLaunchWorthSaying = 0.1;
constexpr double kDebtWorthSaying = 0.95;

std::string Percent(double share) { return absl::StrFormat("%.1f %%", share * 100); }

std::string Rate(const ResourceUse& use) {
  const bool flops = use.resource == kCompute;
  const bool tera = use.roof >= 1e12;
  return absl::StrFormat("%.4g %s%s", use.roof / (tera ? 1e12 : 1e9), tera ? "T" : "G",
                         flops ? "FLOP/s" : "B/s");
}

std::string NameOf(const ResourceUse& use) {
  switch (use.resource) {
    case kDram:
      return "main memory";
    case kL3:
      return "L3";
    case kL2:
      return "L2";
    case kL1:
      return "L1";
    case kShared:
      return "shared memory";
    default:
      return absl::StrCat(use.ceiling, " arithmetic");
  }
}

// "93.2 % of what main memory can do (dram_copy, 4.27 TB/s)".
std::string ShareText(const ResourceUse& use, double efficiency) {
  return absl::StrCat(Percent(efficiency), " of what ", NameOf(use), " can do (", use.ceiling, ", ",
                      Rate(use), ")");
}

// "at most 7 % faster", "at most 3.1 times faster", "at most 2900 times faster".
std::string RoomText(double efficiency) {
  const double ratio = 1 / efficiency;
  if (ratio < 2) return absl::StrFormat("at most %.3g %% faster", (ratio - 1) * 100);
  const double step = std::pow(10, std::max(std::floor(std::log10(ratio)) - 1, -1.0));
  return absl::StrFormat("at most %g times faster", std::round(ratio / step) * step);
}

class Diagnoser {
 public:
  Diagnoser(const RooflineBasis& basis, const std::optional<CountedWork>& counted,
            const Trial& trial)
      : basis_(basis), counted_(counted), trial_(trial) {}

  Diagnosis Run();

 private:
  void AddUse(RooflineResource resource, const Ceiling* ceiling, double amount, bool counted);
  void AddMainMemory(double bytes, double written_bytes, bool counted, double debt);
  double DebtBytes() const;
  void AddCompute();
  void AddMemory();
  void AddLaunch();
  double Flops() const;
  bool CacheMayHold() const;
  void Judge();
  void Say();
  void AddNotes();
  std::string InvalidText() const;
  std::string WaitingText() const;

  const RooflineBasis& basis_;
  const std::optional<CountedWork>& counted_;
  const Trial& trial_;
  Diagnosis result_;
};

double Diagnoser::Flops() const {
  double flops = 0;
  if (counted_) {
    for (const auto& [name, count] : counted_->flops) flops += count;
  }
  return flops > 0 ? flops : basis_.declared.flops;
}

// Output that may still be in the last-level cache when the kernel ends.
double Diagnoser::DebtBytes() const {
  return basis_.cache_bytes > 0 ? std::min(basis_.written_bytes, basis_.cache_bytes)
                                : basis_.written_bytes;
}

void Diagnoser::AddUse(RooflineResource resource, const Ceiling* ceiling, double amount,
                       bool counted) {
  if (ceiling == nullptr || !(amount > 0)) return;
  const double high = std::max(ceiling->value, ceiling->high);
  ResourceUse use{.resource = resource,
                  .ceiling = ceiling->name,
                  .amount = amount,
                  .counted = counted,
                  .roof = ceiling->value,
                  .floor_ns = amount / ceiling->value * 1e9,
                  .believable_ns = amount / high * 1e9};
  if (resource != kCompute) use.intensity = Flops() / amount;
  result_.uses.push_back(std::move(use));
}

void Diagnoser::AddMainMemory(double bytes, double written_bytes, bool counted, double debt) {
  if (!(bytes > 0)) return;
  const MemoryRoof roof = MemoryRoofFor(basis_.ceilings, std::min(written_bytes / bytes, 1.0));
  if (!(roof.rate > 0)) return;
  result_.uses.push_back({.resource = kDram,
                          .ceiling = roof.name,
                          .amount = bytes,
                          .counted = counted,
                          .roof = roof.rate,
                          .floor_ns = bytes / roof.rate * 1e9,
                          .believable_ns = (bytes - debt) / roof.rate_high * 1e9,
                          .intensity = Flops() / bytes});
}

void Diagnoser::AddCompute() {
  bool any = false;
  if (counted_) {
    for (const auto& [name, count] : counted_->flops) {
      any = any || count > 0;
      AddUse(kCompute, FindCeiling(basis_.ceilings, name), count, true);
    }
  }
  if (!any) {
    AddUse(kCompute, FindCeiling(basis_.ceilings, basis_.declared.peak), basis_.declared.flops,
           false);
  }
}

// Warm samples may find all their data in the last cache.
bool Diagnoser::CacheMayHold() const {
  return trial_.measurement.cache_mode == CacheMode::kWarm &&
         (basis_.cache_bytes <= 0 || basis_.declared.bytes <= basis_.cache_bytes);
}

void Diagnoser::AddMemory() {
  if (counted_ && counted_->dram_read_bytes && counted_->dram_write_bytes) {
    const double written = *counted_->dram_write_bytes;
    const double bytes = *counted_->dram_read_bytes + written;
    AddMainMemory(bytes, written, true, 0);
    if (basis_.declared.bytes > 0) result_.reread_factor = bytes / basis_.declared.bytes;
  } else if (!CacheMayHold()) {
    AddMainMemory(basis_.declared.bytes, basis_.written_bytes, false, DebtBytes());
  }
  if (!counted_) return;
  const auto level = [&](RooflineResource resource, const char* ceiling,
                         const std::optional<double>& bytes) {
    if (bytes) AddUse(resource, FindCeiling(basis_.ceilings, ceiling), *bytes, true);
  };
  level(kL2, "l2", counted_->l2_bytes);
  level(kL1, "l1", counted_->l1_bytes);
  level(kShared, "shared", counted_->shared_bytes);
}

void Diagnoser::AddLaunch() {
  const Ceiling* launch = FindCeiling(basis_.ceilings, "launch");
  if (launch == nullptr) return;
  result_.uses.push_back(
      {.resource = kLaunch, .ceiling = "launch", .floor_ns = launch->value, .believable_ns = 0});
}

void Diagnoser::Judge() {
  std::stable_sort(
      result_.uses.begin(), result_.uses.end(),
      [](const ResourceUse& a, const ResourceUse& b) { return a.floor_ns > b.floor_ns; });
  if (result_.uses.empty()) return;
  const ResourceUse& binding = result_.uses.front();
  result_.binding = binding.resource;
  const double median_ns = trial_.measurement.latency_ns_median;
  if (!(median_ns > 0)) return;
  double believable_ns = 0;
  for (ResourceUse& use : result_.uses) {
    use.utilisation = use.floor_ns / median_ns;
    believable_ns = std::max(believable_ns, use.believable_ns);
  }
  result_.floor_ns = binding.floor_ns;
  result_.efficiency = binding.utilisation;
  if (trial_.outcome == Outcome::kAboveRoof || median_ns < kBelievable * believable_ns) {
    result_.verdict = RooflineVerdict::kInvalidRoof;
  } else if (binding.resource == kLaunch) {
    result_.verdict = RooflineVerdict::kLatencyLimited;
  } else if (result_.efficiency >= kWellUsedEfficiency) {
    result_.verdict = RooflineVerdict::kWellUsed;
  } else if (result_.efficiency >= kBoundEfficiency) {
    result_.verdict = binding.resource == kCompute ? RooflineVerdict::kComputeBound
                                                   : RooflineVerdict::kMemoryBound;
  } else {
    result_.verdict = RooflineVerdict::kLatencyLimited;
  }
}

std::string Diagnoser::InvalidText() const {
  return absl::StrCat(
      "Above the roof, so not believed: ", ShareText(result_.uses.front(), result_.efficiency),
      "; look for a stale ceiling, data left in a cache, or declared work that the "
      "kernel does not do");
}

std::string Diagnoser::WaitingText() const {
  const ResourceUse& binding = result_.uses.front();
  const double median = trial_.measurement.latency_ns_median;
  if (binding.resource == kLaunch) {
    return absl::StrFormat(
        "Latency-limited: an empty kernel takes %.3g us of its %.3g us, more "
        "than any of its work needs; a larger problem or fewer launches help",
        binding.floor_ns / 1e3, median / 1e3);
  }
  return absl::StrCat("Latency-limited: no resource is near its limit, the busiest is at ",
                      ShareText(binding, result_.efficiency), "; ", RoomText(result_.efficiency),
                      " before that binds");
}

void Diagnoser::Say() {
  if (result_.verdict == RooflineVerdict::kUnknown) {
    result_.sentence =
        "No measured ceiling fits the declared work, so there is nothing to hold it "
        "against";
    return;
  }
  const ResourceUse& binding = result_.uses.front();
  const std::string share = ShareText(binding, result_.efficiency);
  switch (result_.verdict) {
    case RooflineVerdict::kInvalidRoof:
      result_.sentence = InvalidText();
      break;
    case RooflineVerdict::kWellUsed:
      result_.sentence = absl::StrCat(
          "Well used, ", binding.resource == kCompute ? "compute" : "memory", "-bound: ", share);
      if (result_.efficiency < 1) {
        absl::StrAppend(&result_.sentence, "; ", RoomText(result_.efficiency));
      }
      break;
    case RooflineVerdict::kMemoryBound:
      result_.sentence = absl::StrCat("Memory-bound: ", share, "; ", RoomText(result_.efficiency));
      break;
    case RooflineVerdict::kComputeBound:
      result_.sentence = absl::StrCat("Compute-bound: ", share, "; ", RoomText(result_.efficiency));
      break;
    default:
      result_.sentence = WaitingText();
  }
}

void Diagnoser::AddNotes() {
  const double median = trial_.measurement.latency_ns_median;
  const auto use_of = [&](RooflineResource resource) -> const ResourceUse* {
    const auto it = std::find_if(result_.uses.begin(), result_.uses.end(),
                                 [&](const ResourceUse& use) { return use.resource == resource; });
    return it == result_.uses.end() ? nullptr : &*it;
  };
  if (result_.reread_factor > kRereadWorthSaying) {
    result_.notes.push_back(absl::StrFormat(
        "main memory moved %.2f times the declared bytes; moving each once would "
        "allow %.3g us",
        result_.reread_factor,
        use_of(kDram) == nullptr ? 0 : use_of(kDram)->floor_ns / result_.reread_factor / 1e3));
  }
  if (trial_.resources.spill_bytes > 0) {
    result_.notes.push_back(absl::StrCat("spills ", trial_.resources.spill_bytes,
                                         " bytes of registers per thread to memory"));
  }
  const ResourceUse* launch = use_of(kLaunch);
  if (launch != nullptr && median > 0 && launch != &result_.uses.front() &&
      launch->floor_ns > kLaunchWorthSaying * median) {
    result_.notes.push_back(absl::StrCat("an empty kernel takes ",
                                         Percent(launch->floor_ns / median), " of this time"));
  }
  const ResourceUse* dram = use_of(kDram);
  const bool debt =
      dram != nullptr && !dram->counted && basis_.written_bytes > 0 &&
      (basis_.cache_bytes <= 0 || basis_.written_bytes < kDebtCaches * basis_.cache_bytes) &&
      dram->floor_ns > kDebtWorthSaying * median;
  if (debt) {
    result_.notes.push_back(absl::StrFormat(
        "write-back debt: up to %.3g of the %.3g MiB it moves are output that may leave the cache "
        "after the kernel has ended, so its share of the roof may exceed 100 %%",
        DebtBytes() / (1 << 20), basis_.declared.bytes / (1 << 20)));
  }
}

Diagnosis Diagnoser::Run() {
  AddMemory();
  AddCompute();
  // A launch floor alone says nothing about the work.
  if (!result_.uses.empty()) AddLaunch();
  Judge();
  Say();
  AddNotes();
  return std::move(result_);
}

}  // namespace

Diagnosis Diagnose(const RooflineBasis& basis, const std::optional<CountedWork>& counted,
                   const Trial& trial) {
  return Diagnoser(basis, counted, trial).Run();
}

}  // namespace tune
