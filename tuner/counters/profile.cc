// SPDX-License-Identifier: Apache-2.0
#include "tuner/counters/profile.h"

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"

namespace tune {
namespace {

constexpr std::array<const char*, 3> kPrecisions = {"f64", "f32", "f16"};
// Instructions that are known to count one operation each, on every chip there is.
constexpr std::array<const char*, 2> kUncalibrated = {"f64", "f32"};

void ApplyMultipliers(const Multipliers& multipliers, Profile& profile) {
  std::vector<std::string> unknown;
  for (auto& [quantity, value] : profile.quantities) {
    if (!IsFlopQuantity(quantity) || value == 0) continue;
    const auto known = multipliers.find(quantity);
    if (known != multipliers.end()) {
      value *= known->second;
    } else if (std::find(kUncalibrated.begin(), kUncalibrated.end(), quantity) ==
               kUncalibrated.end()) {
      unknown.push_back(quantity);
    }
  }
  if (unknown.empty()) return;
  profile.notes.push_back(
      absl::StrCat("operations of ", absl::StrJoin(unknown, ", "),
                   " are as the chip counts them, which may be off by a factor: run `tunectl "
                   "device calibrate` once"));
}

std::vector<Stall> StallsOf(const Quantities& quantities) {
  double all = 0;
  std::vector<Stall> stalls;
  for (const auto& [name, warps] : quantities) {
    absl::string_view reason = name;
    if (!absl::ConsumePrefix(&reason, "stall_")) continue;
    all += warps;
    stalls.push_back({.reason = std::string(reason), .warps = warps});
  }
  std::sort(stalls.begin(), stalls.end(), [](const Stall& a, const Stall& b) {
    return std::tie(a.warps, a.reason) > std::tie(b.warps, b.reason);
  });
  for (Stall& stall : stalls) stall.share = all > 0 ? stall.warps / all : 0;
  return stalls;
}

}  // namespace

bool IsFlopQuantity(const std::string& quantity) {
  if (quantity == "tensor_instructions") return false;
  return absl::StartsWith(quantity, "tensor_") ||
         std::find(kPrecisions.begin(), kPrecisions.end(), quantity) != kPrecisions.end();
}

double CountedFlops(const Profile& profile) {
  double flops = -1;
  for (const auto& [quantity, value] : profile.quantities) {
    if (IsFlopQuantity(quantity)) flops = std::max(flops, 0.0) + value;
  }
  return flops;
}

double LevelBytes(const Profile& profile, const std::string& level) {
  const auto of = [&](const std::string& quantity) {
    const auto it = profile.quantities.find(quantity);
    return it == profile.quantities.end() ? -1.0 : it->second;
  };
  if (level != "dram") return of(level);
  const double read = of("dram_read");
  const double write = of("dram_write");
  return read < 0 || write < 0 ? -1 : read + write;
}

Figures FiguresOf(const Profile& profile) {
  Figures figures{.declared_bytes = profile.work.bytes,
                  .declared_flops = profile.work.flops,
                  .peak = profile.work.peak,
                  .stalls = StallsOf(profile.quantities)};
  static constexpr std::pair<const char*, std::optional<double> Figures::*> kFigures[] = {
      {"dram_read", &Figures::dram_read_bytes},
      {"dram_write", &Figures::dram_write_bytes},
      {"l2", &Figures::l2_bytes},
      {"l1", &Figures::l1_bytes},
      {"shared", &Figures::shared_bytes},
      {"l2_hit_rate", &Figures::l2_hit_rate},
      {"occupancy", &Figures::occupancy},
      {"issue_active", &Figures::issue_active},
      {"sm_clock", &Figures::sm_clock_hz},
      {"memory_clock", &Figures::memory_clock_hz},
      {"tensor_instructions", &Figures::tensor_instructions}};
  for (const auto& [quantity, figure] : kFigures) {
    const auto it = profile.quantities.find(quantity);
    if (it != profile.quantities.end()) figures.*figure = it->second;
  }
  for (const auto& [quantity, value] : profile.quantities) {
    if (IsFlopQuantity(quantity)) figures.flops[quantity] = value;
  }
  const double counted = CountedFlops(profile);
  const double flops = counted > 0 ? counted : profile.work.flops;
  const auto intensity = [&](const char* level) -> std::optional<double> {
    const double bytes = LevelBytes(profile, level);
    if (flops > 0 && bytes > 0) return flops / bytes;
    return std::nullopt;
  };
  figures.dram_intensity = intensity("dram");
  figures.l2_intensity = intensity("l2");
  figures.l1_intensity = intensity("l1");
  const double dram = LevelBytes(profile, "dram");
  if (dram >= 0 && profile.work.bytes > 0) figures.reread_factor = dram / profile.work.bytes;
  return figures;
}

void ApplyCounts(const CountReport& report, const ProfileScene& scene, Profile& profile) {
  profile.chip = report.chip;
  profile.pass_count = report.pass_count;
  profile.reading_count = report.reading_count;
  profile.counters = report.counters;
  profile.quantities = report.quantities;
  profile.counted = !report.counters.empty();
  if (report.outcome != Outcome::kOk) {
    profile.outcome = report.outcome;
    profile.message = report.message;
  } else if (!report.unavailable.empty()) {
    profile.message = absl::StrCat("timing only: ", report.unavailable);
  }
  for (const std::string& left_out : report.left_out) profile.notes.push_back(left_out);
  if (!profile.counted) return;
  ApplyMultipliers(scene.multipliers, profile);
  // Up to a cache full of output leaves after the range has ended (measured: docs/measurement.md).
  profile.write_back_debt_bytes = std::min(scene.written_bytes, scene.l2_bytes);
  if (profile.quantities.contains("dram_write") && scene.written_bytes > 0 &&
      scene.written_bytes < 4 * scene.l2_bytes) {
    profile.notes.push_back(
        absl::StrCat("up to ", static_cast<int64_t>(profile.write_back_debt_bytes),
                     " bytes of output may have left the cache after the counted launch"));
  }
  if (scene.uses_tensor_maps && profile.quantities.contains("l1")) {
    profile.notes.emplace_back(
        "bulk copies (TMA) pass the first-level cache by: l1 leaves them out");
  }
  const auto half = profile.quantities.find("f16");
  const double all = CountedFlops(profile);
  if (half != profile.quantities.end() && half->second > 0 && half->second < 0.02 * all) {
    profile.notes.emplace_back(
        "the compiler makes constants with f16 instructions: so few mean none");
  }
}

}  // namespace tune
