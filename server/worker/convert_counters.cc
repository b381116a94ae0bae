// SPDX-License-Identifier: Apache-2.0
#include "server/worker/convert_counters.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/wire/nouns.h"
#include "server/worker/convert.h"
#include "tuner/status_macros.h"

namespace tune::server {
namespace {

constexpr int kReadingsMax = 100;

bool IsOutcome(int value) {
  return value >= static_cast<int>(Outcome::kOk) && value <= static_cast<int>(Outcome::kAboveRoof);
}

template <typename Enum>
Enum ClampEnum(int value, Enum first, Enum last) {
  return static_cast<Enum>(std::clamp(value, static_cast<int>(first), static_cast<int>(last)));
}

}  // namespace

worker::v1::CeilingsReply ToWire(const std::vector<Ceiling>& ceilings) {
  worker::v1::CeilingsReply proto;
  for (const Ceiling& ceiling : ceilings) {
    worker::v1::Ceiling* added = proto.add_ceilings();
    added->set_name(ceiling.name);
    added->set_value(ceiling.value);
    added->set_measured(ceiling.measured);
    added->set_kind(static_cast<int>(ceiling.kind));
    added->set_policy(static_cast<int>(ceiling.policy));
    added->set_probe(Utf8(ceiling.probe));
    added->set_theoretical(ceiling.theoretical);
    *added->mutable_telemetry() = ToProto(ceiling.telemetry);
    added->set_note(Utf8(ceiling.note));
  }
  return proto;
}

std::vector<Ceiling> FromWire(const worker::v1::CeilingsReply& proto) {
  std::vector<Ceiling> ceilings;
  for (const auto& ceiling : proto.ceilings()) {
    if (!std::isfinite(ceiling.value()) || ceiling.value() <= 0) continue;
    ceilings.push_back(
        {.name = ceiling.name(),
         .value = ceiling.value(),
         .measured = ceiling.measured(),
         .kind = ClampEnum(ceiling.kind(), CeilingKind::kUnknown, CeilingKind::kLaunch),
         .policy = ClampEnum(ceiling.policy(), CeilingPolicy::kBurst, CeilingPolicy::kSustained),
         .probe = ceiling.probe(),
         .theoretical = std::isfinite(ceiling.theoretical()) ? ceiling.theoretical() : 0,
         .telemetry = FromProto(ceiling.telemetry()),
         .note = ceiling.note()});
  }
  return ceilings;
}

worker::v1::Count ToWire(const CountRequest& request) {
  worker::v1::Count proto;
  *proto.mutable_run() = ToWire(
      RunRequest{.program = request.program, .policy = {.cache_mode = request.cache_mode}});
  proto.set_set(static_cast<int>(request.set));
  proto.set_readings(request.readings);
  proto.set_tensor_quantity(request.tensor_quantity);
  return proto;
}

absl::StatusOr<CountRequest> FromWire(const worker::v1::Count& proto) {
  ASSIGN_OR_RETURN(RunRequest run, FromWire(proto.run()));
  if (proto.set() < static_cast<int>(MetricSet::kDefault) ||
      proto.set() > static_cast<int>(MetricSet::kAll)) {
    return absl::InvalidArgumentError(absl::StrCat("no such metric set: ", proto.set()));
  }
  return CountRequest{.program = std::move(run.program),
                      .set = static_cast<MetricSet>(proto.set()),
                      .cache_mode = run.policy.cache_mode,
                      .readings = std::clamp(proto.readings(), 1, kReadingsMax),
                      .tensor_quantity = proto.tensor_quantity()};
}

worker::v1::CountReport ToWire(const CountReport& report) {
  worker::v1::CountReport proto;
  proto.set_outcome(static_cast<v1::Outcome>(report.outcome));
  proto.set_message(Utf8(report.message));
  proto.set_unavailable(Utf8(report.unavailable));
  proto.set_chip(Utf8(report.chip));
  proto.set_pass_count(report.pass_count);
  proto.set_reading_count(report.reading_count);
  for (const CounterReading& counter : report.counters) {
    worker::v1::CounterReading* added = proto.add_counters();
    added->set_name(counter.name);
    added->set_value(counter.value);
    added->set_low(counter.low);
    added->set_high(counter.high);
  }
  proto.mutable_quantities()->insert(report.quantities.begin(), report.quantities.end());
  for (const std::string& left_out : report.left_out) proto.add_left_out(Utf8(left_out));
  return proto;
}

absl::StatusOr<CountReport> FromWire(const worker::v1::CountReport& proto) {
  if (!IsOutcome(proto.outcome())) {
    return absl::InvalidArgumentError(absl::StrCat("no such outcome: ", proto.outcome()));
  }
  CountReport report;
  report.outcome = static_cast<Outcome>(proto.outcome());
  report.message = proto.message();
  report.unavailable = proto.unavailable();
  report.chip = proto.chip();
  report.pass_count = proto.pass_count();
  report.reading_count = proto.reading_count();
  // A counter that does not apply (a rate over nothing) comes as not-a-number: it was not counted.
  for (const auto& counter : proto.counters()) {
    if (!std::isfinite(counter.value()) || !std::isfinite(counter.low()) ||
        !std::isfinite(counter.high())) {
      continue;
    }
    report.counters.push_back({counter.name(), counter.value(), counter.low(), counter.high()});
  }
  for (const auto& [quantity, value] : proto.quantities()) {
    if (std::isfinite(value)) report.quantities.emplace(quantity, value);
  }
  report.left_out.assign(proto.left_out().begin(), proto.left_out().end());
  return report;
}

worker::v1::CalibrationReport ToWire(const CalibrationReport& report) {
  worker::v1::CalibrationReport proto;
  proto.set_unavailable(Utf8(report.unavailable));
  proto.set_chip(Utf8(report.chip));
  for (const CalibrationEntry& entry : report.entries) {
    worker::v1::CalibrationEntry* added = proto.add_entries();
    added->set_name(entry.name);
    added->set_quantity(entry.quantity);
    added->set_counter(entry.counter);
    added->set_expected(entry.expected);
    added->set_counted(entry.counted);
    added->set_tolerance(entry.tolerance);
    added->set_message(Utf8(entry.message));
  }
  return proto;
}

CalibrationReport FromWire(const worker::v1::CalibrationReport& proto) {
  CalibrationReport report{.unavailable = proto.unavailable(), .chip = proto.chip()};
  for (const auto& entry : proto.entries()) {
    report.entries.push_back({.name = entry.name(),
                              .quantity = entry.quantity(),
                              .counter = entry.counter(),
                              .expected = entry.expected(),
                              .counted = entry.counted(),
                              .tolerance = entry.tolerance(),
                              .message = entry.message()});
  }
  return report;
}

}  // namespace tune::server
