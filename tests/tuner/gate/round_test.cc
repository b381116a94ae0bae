// SPDX-License-Identifier: Apache-2.0
#include "tuner/gate/round.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "gmock/gmock.h"

namespace tune::gate {
namespace {

using testing::HasSubstr;

Leg MakeLeg(Revision revision, double ns, int64_t clock_mhz = 1980) {
  return {.revision = revision,
          .samples_ns = {ns, ns, ns},
          .median_ns = ns,
          .clock = Clock::kCupti,
          .telemetry = {.sm_clock_mhz = clock_mhz}};
}

// ABBA, with a drift of one percent a leg.
std::vector<Leg> Drifting(double ratio) {
  const Revision order[] = {Revision::kBase, Revision::kHead, Revision::kHead, Revision::kBase};
  std::vector<Leg> legs;
  for (int i = 0; i < 4; ++i) {
    const double factor = order[i] == Revision::kHead ? ratio : 1;
    legs.push_back(MakeLeg(order[i], 1000 * factor * std::exp(0.01 * i)));
  }
  return legs;
}

TEST(Round, AlternationRemovesALinearDrift) {
  const RoundResult result = Reduce(Drifting(1.03), {});
  EXPECT_EQ(result.invalid, "");
  EXPECT_NEAR(result.log_ratio, std::log(1.03), 1e-12);
  ASSERT_TRUE(result.cycle_log_ratio.has_value());
  EXPECT_NEAR(*result.cycle_log_ratio, std::log(1.03), 1e-12);
}

TEST(Round, CyclesTellALowerClockFromMoreWork) {
  std::vector<Leg> legs = Drifting(1.02);
  for (Leg& leg : legs) {
    if (leg.revision == Revision::kHead) leg.telemetry.sm_clock_mhz = std::lround(1980 / 1.02);
  }
  const RoundResult result = Reduce(legs, {});
  EXPECT_EQ(result.invalid, "");
  EXPECT_NEAR(*result.cycle_log_ratio, 0, 1e-3);
}

TEST(Round, WithoutAClockThereAreNoCycles) {
  std::vector<Leg> legs = Drifting(1);
  for (Leg& leg : legs) leg.telemetry.sm_clock_mhz = 0;
  EXPECT_FALSE(Reduce(legs, {}).cycle_log_ratio.has_value());
  EXPECT_EQ(Reduce(legs, {}).invalid, "");
}

struct Fault {
  const char* name;
  void (*plant)(std::vector<Leg>&);
  const char* reason;
};

class PlantedFault : public testing::TestWithParam<Fault> {};

TEST_P(PlantedFault, InvalidatesTheRound) {
  std::vector<Leg> legs = Drifting(1);
  GetParam().plant(legs);
  EXPECT_THAT(Reduce(legs, {}).invalid, HasSubstr(GetParam().reason));
}

INSTANTIATE_TEST_SUITE_P(
    All, PlantedFault,
    testing::Values(
        Fault{"HardwareSlowdown", [](auto& legs) { legs[1].telemetry.throttle_reasons = 0x8; },
              "throttled (clock event reasons 0x8)"},
        Fault{"SoftwareThermal", [](auto& legs) { legs[2].telemetry.throttle_reasons = 0x20; },
              "throttled"},
        Fault{"HardwareThermal", [](auto& legs) { legs[0].telemetry.throttle_reasons = 0x44; },
              "throttled"},
        Fault{"PowerBrake", [](auto& legs) { legs[3].telemetry.throttle_reasons = 0x80; },
              "throttled"},
        Fault{"ForeignProcess", [](auto& legs) { legs[1].telemetry.compute_processes = 3; },
              "another process computes on the device"},
        Fault{"ClockRamp",
              [](auto& legs) {
                legs[1].telemetry.sm_clock_mhz = 1800;
                legs[2].telemetry.sm_clock_mhz = 1800;
              },
              "the processor clock differs: 1980 MHz for the base, 1800 for the head"},
        Fault{"ZeroTimestamp", [](auto& legs) { legs[1].samples_ns[1] = 0; }, "not one"},
        Fault{"NotANumber", [](auto& legs) { legs[1].median_ns = std::nan(""); }, "not one"},
        Fault{"DroppedRecords", [](auto& legs) { legs[1].samples_ns.clear(); }, "no samples"},
        Fault{"AnotherClock", [](auto& legs) { legs[1].clock = Clock::kEvents; },
              "two clocks timed it: cupti and events"},
        Fault{"MissingLeg", [](auto& legs) { legs.pop_back(); },
              "a leg is missing: 1 of the base, 2 of the head"},
        Fault{"OneSide",
              [](auto& legs) {
                for (Leg& leg : legs) leg.revision = Revision::kBase;
              },
              "a leg is missing"},
        Fault{"Nothing", [](auto& legs) { legs.clear(); }, "a leg is missing"}),
    [](const auto& info) { return info.param.name; });

TEST(Round, OurOwnTwoProcessesAndThePowerCapAreNoFault) {
  std::vector<Leg> legs = Drifting(1);
  for (Leg& leg : legs) {
    leg.telemetry.compute_processes = 2;
    leg.telemetry.throttle_reasons = kPowerCapBit;
  }
  legs[1].telemetry.sm_clock_mhz = 1700;
  EXPECT_EQ(Reduce(legs, {}).invalid, "");
}

}  // namespace
}  // namespace tune::gate
