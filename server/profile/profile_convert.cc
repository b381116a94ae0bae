// SPDX-License-Identifier: Apache-2.0
#include "server/profile/profile_convert.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "server/wire/nouns.h"

namespace tune::server {
namespace {

std::optional<double> Find(const Quantities& quantities, const std::string& name) {
  const auto it = quantities.find(name);
  if (it == quantities.end()) return std::nullopt;
  return it->second;
}

void SetStalls(const Quantities& quantities, v1::Profile& proto) {
  double all = 0;
  std::vector<std::pair<double, std::string>> stalls;
  for (const auto& [name, warps] : quantities) {
    absl::string_view reason = name;
    if (!absl::ConsumePrefix(&reason, "stall_")) continue;
    all += warps;
    stalls.emplace_back(warps, reason);
  }
  std::sort(stalls.rbegin(), stalls.rend());
  for (const auto& [warps, reason] : stalls) {
    v1::Stall* stall = proto.add_stalls();
    stall->set_reason(reason);
    stall->set_warps(warps);
    if (all > 0) stall->set_share(warps / all);
  }
}

void SetTraffic(const Profile& profile, v1::Profile& proto) {
  const Quantities& quantities = profile.quantities;
  if (const auto value = Find(quantities, "dram_read")) proto.set_dram_read_bytes(*value);
  if (const auto value = Find(quantities, "dram_write")) proto.set_dram_write_bytes(*value);
  if (const auto value = Find(quantities, "l2")) proto.set_l2_bytes(*value);
  if (const auto value = Find(quantities, "l1")) proto.set_l1_bytes(*value);
  if (const auto value = Find(quantities, "shared")) proto.set_shared_bytes(*value);
  if (const auto value = Find(quantities, "l2_hit_rate")) proto.set_l2_hit_rate(*value);
  if (const auto value = Find(quantities, "occupancy")) proto.set_occupancy(*value);
  if (const auto value = Find(quantities, "issue_active")) proto.set_issue_active(*value);
  if (const auto value = Find(quantities, "sm_clock")) proto.set_sm_clock_hz(*value);
  if (const auto value = Find(quantities, "memory_clock")) proto.set_memory_clock_hz(*value);
  if (const auto value = Find(quantities, "tensor_instructions")) {
    proto.set_tensor_instructions(*value);
  }
}

void SetIntensities(const Profile& profile, v1::Profile& proto) {
  const double counted = CountedFlops(profile);
  const double flops = counted > 0 ? counted : profile.work.flops;
  const double dram = LevelBytes(profile, "dram");
  const double l2 = LevelBytes(profile, "l2");
  const double l1 = LevelBytes(profile, "l1");
  if (flops > 0 && dram > 0) proto.set_dram_intensity(flops / dram);
  if (flops > 0 && l2 > 0) proto.set_l2_intensity(flops / l2);
  if (flops > 0 && l1 > 0) proto.set_l1_intensity(flops / l1);
  if (dram >= 0 && profile.work.bytes > 0) proto.set_reread_factor(dram / profile.work.bytes);
}

}  // namespace

v1::Profile ToProto(const db::ProfileRow& row) {
  const Profile& profile = row.profile;
  v1::Profile proto;
  proto.set_id(profile.id);
  proto.set_trial_id(profile.trial_id);
  proto.set_sweep_id(profile.sweep_id);
  proto.set_kernel_name(row.kernel_name);
  proto.set_kernel_hash(row.key.kernel_hash);
  *proto.mutable_problem() = ToProto(row.key.problem);
  *proto.mutable_config() = ToProto(profile.config);
  proto.set_device_name(row.key.device_name);
  proto.set_target(row.key.target);
  proto.set_driver(row.key.driver);
  proto.set_compiler(row.key.compiler);
  proto.set_chip(profile.chip);
  proto.set_set(static_cast<v1::MetricSet>(profile.set));
  proto.set_profiled_unix_ms(profile.profiled_unix_ms);
  proto.set_outcome(static_cast<v1::Outcome>(profile.outcome));
  proto.set_message(Utf8(profile.message));
  proto.set_counted(profile.counted);
  proto.set_pass_count(profile.pass_count);
  proto.set_reading_count(profile.reading_count);
  if (profile.measurement.latency_ns_median > 0) {
    *proto.mutable_measurement() = ToProto(profile.measurement, Samples::kOmit);
    proto.mutable_measurement()->set_sample_count(static_cast<uint32_t>(profile.sample_count));
  }
  proto.mutable_resources()->set_registers(profile.resources.registers);
  proto.mutable_resources()->set_spill_bytes(profile.resources.spill_bytes);
  proto.mutable_resources()->set_static_shared_bytes(profile.resources.static_shared_bytes);
  proto.mutable_resources()->set_dynamic_shared_bytes(profile.resources.dynamic_shared_bytes);
  proto.set_declared_bytes(profile.work.bytes);
  proto.set_declared_flops(profile.work.flops);
  proto.set_peak(profile.work.peak);
  SetTraffic(profile, proto);
  for (const auto& [name, value] : profile.quantities) {
    if (IsFlopQuantity(name)) (*proto.mutable_flops())[name] = value;
  }
  SetIntensities(profile, proto);
  proto.set_write_back_debt_bytes(profile.write_back_debt_bytes);
  SetStalls(profile.quantities, proto);
  for (const CounterReading& counter : profile.counters) {
    v1::Counter* added = proto.add_counters();
    added->set_name(counter.name);
    added->set_value(counter.value);
    added->set_low(counter.low);
    added->set_high(counter.high);
  }
  for (const std::string& note : profile.notes) proto.add_notes(Utf8(note));
  return proto;
}

absl::StatusOr<MetricSet> FromProto(v1::MetricSet set) {
  if (set == v1::METRIC_SET_UNSPECIFIED) return MetricSet::kDefault;
  if (v1::MetricSet_IsValid(set)) return static_cast<MetricSet>(set);
  return absl::InvalidArgumentError(absl::StrCat("no metric set ", static_cast<int>(set)));
}

}  // namespace tune::server
