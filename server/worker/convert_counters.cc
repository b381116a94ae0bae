// SPDX-License-Identifier: Apache-2.0
#include "server/worker/convert_counters.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "server/wire/nouns.h"
#include "server/worker/convert.h"

namespace tune::server {
namespace {

constexpr int kReadingsMax = 100;

bool AreFinite(std::initializer_list<double> values) {
  return std::all_of(values.begin(), values.end(),
                     [](double value) { return std::isfinite(value); });
}

}  // namespace

worker::v1::CeilingsReply ToWire(const std::vector<Ceiling>& ceilings) {
  worker::v1::CeilingsReply proto;
  for (const Ceiling& ceiling : ceilings) Encode(ceiling, *proto.add_ceilings());
  return proto;
}

absl::StatusOr<std::vector<Ceiling>> FromWire(const worker::v1::CeilingsReply& proto) {
  std::vector<Ceiling> ceilings;
  for (const v1::Ceiling& told : proto.ceilings()) {
    ASSIGN_OR_RETURN(Ceiling ceiling, Decoded<Ceiling>(told));
    if (!std::isfinite(ceiling.value) || ceiling.value <= 0) continue;
    if (!std::isfinite(ceiling.theoretical)) ceiling.theoretical = 0;
    ceilings.push_back(std::move(ceiling));
  }
  return ceilings;
}

worker::v1::Count ToWire(const CountRequest& request) {
  worker::v1::Count proto;
  *proto.mutable_run() =
      ToWire(RunRequest{.program = request.program, .policy = {.cache_mode = request.cache_mode}});
  proto.set_set(static_cast<v1::MetricSet>(request.set));
  proto.set_readings(request.readings);
  proto.set_tensor_quantity(request.tensor_quantity);
  return proto;
}

absl::StatusOr<CountRequest> FromWire(const worker::v1::Count& proto) {
  ASSIGN_OR_RETURN(RunRequest run, FromWire(proto.run()));
  if (!v1::MetricSet_IsValid(proto.set()) || proto.set() == v1::METRIC_SET_UNSPECIFIED) {
    return absl::InvalidArgumentError(absl::StrCat("no such metric set: ", proto.set()));
  }
  return CountRequest{.program = std::move(run.program),
                      .set = static_cast<MetricSet>(proto.set()),
                      .cache_mode = run.policy.cache_mode,
                      .readings = std::clamp(proto.readings(), 1, kReadingsMax),
                      .tensor_quantity = proto.tensor_quantity()};
}

worker::v1::CountReport ToWire(const CountReport& report) {
  return Encoded<worker::v1::CountReport>(report);
}

absl::StatusOr<CountReport> FromWire(const worker::v1::CountReport& proto) {
  ASSIGN_OR_RETURN(CountReport report, Decoded<CountReport>(proto));
  // A counter that does not apply (a rate over nothing) comes as not-a-number: it was not counted.
  std::erase_if(report.counters, [](const CounterReading& counter) {
    return !AreFinite({counter.value, counter.low, counter.high});
  });
  std::erase_if(report.quantities, [](const auto& entry) { return !std::isfinite(entry.second); });
  return report;
}

worker::v1::CalibrationReport ToWire(const CalibrationReport& report) {
  return Encoded<worker::v1::CalibrationReport>(report);
}

absl::StatusOr<CalibrationReport> FromWire(const worker::v1::CalibrationReport& proto) {
  return Decoded<CalibrationReport>(proto);
}

}  // namespace tune::server
