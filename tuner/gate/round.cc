// SPDX-License-Identifier: Apache-2.0
#include "tuner/gate/round.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace tune::gate {
namespace {

// Our two workers; any other process that computes on the device disturbs.
constexpr int64_t kOwnProcesses = 2;

std::string WrongSamples(const Leg& leg) {
  if (leg.samples_ns.empty())
    return absl::StrCat("a leg of the ", ToText(leg.revision), " has no samples");
  const auto real = [](double ns) { return std::isfinite(ns) && ns > 0; };
  if (real(leg.median_ns) && std::all_of(leg.samples_ns.begin(), leg.samples_ns.end(), real)) {
    return "";
  }
  return absl::StrCat("a leg of the ", ToText(leg.revision), " has a time that is not one");
}

std::string WrongConditions(const Leg& leg) {
  const Telemetry& telemetry = leg.telemetry;
  if (telemetry.compute_processes > kOwnProcesses) {
    return absl::StrCat("another process computes on the device (", telemetry.compute_processes,
                        " processes, ", kOwnProcesses, " are ours)");
  }
  if ((telemetry.throttle_reasons & kThrottleBits) != 0) {
    return absl::StrFormat("the device was throttled (clock event reasons 0x%x)",
                           telemetry.throttle_reasons);
  }
  return "";
}

// Means over the legs of a revision.
struct Side {
  int legs = 0;
  double log_ns = 0;
  double clock_mhz = 0;
  double least_clock_mhz = 0;
  bool power_capped = false;
};

Side SideOf(const std::vector<Leg>& legs, Revision revision) {
  Side side;
  for (const Leg& leg : legs) {
    if (leg.revision != revision) continue;
    const auto clock_mhz = static_cast<double>(leg.telemetry.sm_clock_mhz);
    side.least_clock_mhz = side.legs == 0 ? clock_mhz : std::min(side.least_clock_mhz, clock_mhz);
    ++side.legs;
    side.log_ns += std::log(leg.median_ns);
    side.clock_mhz += clock_mhz;
    side.power_capped = side.power_capped || (leg.telemetry.throttle_reasons & kPowerCapBit) != 0;
  }
  if (side.legs > 0) {
    side.log_ns /= side.legs;
    side.clock_mhz /= side.legs;
  }
  return side;
}

std::string WrongPairing(const std::vector<Leg>& legs, const Side& base, const Side& head,
                         const Rules& rules) {
  if (base.legs == 0 || head.legs != base.legs) {
    return absl::StrCat("a leg is missing: ", base.legs, " of the base, ", head.legs,
                        " of the head");
  }
  for (const Leg& leg : legs) {
    if (leg.clock != legs.front().clock) {
      return absl::StrCat("two clocks timed it: ", ToText(legs.front().clock), " and ",
                          ToText(leg.clock));
    }
  }
  if (base.least_clock_mhz <= 0 || head.least_clock_mhz <= 0) return "";
  const double difference = std::abs(head.clock_mhz / base.clock_mhz - 1);
  if (difference > rules.clock_difference_max && !base.power_capped && !head.power_capped) {
    return absl::StrFormat("the processor clock differs: %.0f MHz for the base, %.0f for the head",
                           base.clock_mhz, head.clock_mhz);
  }
  return "";
}

}  // namespace

std::string ToText(Revision revision) { return revision == Revision::kBase ? "base" : "head"; }

std::string ToText(Stage stage) {
  switch (stage) {
    case Stage::kScreen:
      return "screen";
    case Stage::kConfirm:
      return "confirm";
    case Stage::kRecovery:
      return "recovery";
  }
  return "?";
}

RoundResult Reduce(const std::vector<Leg>& legs, const Rules& rules) {
  RoundResult result;
  for (const Leg& leg : legs) {
    if (result.invalid.empty()) result.invalid = WrongSamples(leg);
    if (result.invalid.empty()) result.invalid = WrongConditions(leg);
  }
  if (!result.invalid.empty()) return result;
  const Side base = SideOf(legs, Revision::kBase);
  const Side head = SideOf(legs, Revision::kHead);
  result.invalid = WrongPairing(legs, base, head, rules);
  if (!result.invalid.empty()) return result;
  result.base_log = base.log_ns;
  result.head_log = head.log_ns;
  result.log_ratio = head.log_ns - base.log_ns;
  if (base.least_clock_mhz > 0 && head.least_clock_mhz > 0) {
    double cycles = 0;
    for (const Leg& leg : legs) {
      const double log_cycles =
          std::log(leg.median_ns * static_cast<double>(leg.telemetry.sm_clock_mhz));
      cycles += (leg.revision == Revision::kHead ? log_cycles : -log_cycles) / base.legs;
    }
    result.cycle_log_ratio = cycles;
  }
  return result;
}

}  // namespace tune::gate
