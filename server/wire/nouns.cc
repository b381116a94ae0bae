// SPDX-License-Identifier: Apache-2.0
#include "server/wire/nouns.h"

#include <algorithm>
#include <cstdint>
#include <limits>

namespace tune::server {
namespace {

uint32_t Clamp32(int64_t value) {
  return static_cast<uint32_t>(std::clamp<int64_t>(value, 0, std::numeric_limits<uint32_t>::max()));
}

// Is there a well-formed sequence of 2, 3 or 4 bytes here: no stray, overlong or surrogate form?
bool IsUtf8Sequence(const std::string& text, size_t at, size_t length) {
  if (at + length > text.size()) return false;
  const unsigned char first = static_cast<unsigned char>(text[at]);
  const unsigned char second = static_cast<unsigned char>(text[at + 1]);
  if (first < 0xc2 || first > 0xf4) return false;
  for (size_t i = 1; i < length; ++i) {
    if ((static_cast<unsigned char>(text[at + i]) & 0xc0) != 0x80) return false;
  }
  if (first == 0xe0) return second >= 0xa0;
  if (first == 0xed) return second < 0xa0;
  if (first == 0xf0) return second >= 0x90;
  if (first == 0xf4) return second < 0x90;
  return true;
}

v1::Outcome OutcomeToProto(Outcome outcome) { return static_cast<v1::Outcome>(outcome); }
v1::Clock ClockToProto(Clock clock) { return static_cast<v1::Clock>(clock); }

}  // namespace

std::string Utf8(const std::string& text) {
  std::string valid;
  valid.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const unsigned char first = static_cast<unsigned char>(text[at]);
    const size_t length = first < 0x80 ? 1 : first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
    const bool whole = length == 1 || IsUtf8Sequence(text, at, length);
    if (first == 0) {
      valid += "\\0";
    } else if (whole) {
      valid.append(text, at, length);
    } else {
      valid += '?';
    }
    at += whole ? length : 1;
  }
  return valid;
}

v1::Value ToProto(const Value& value) {
  v1::Value proto;
  if (const bool* boolean = std::get_if<bool>(&value)) {
    proto.set_boolean(*boolean);
  } else if (const int64_t* integer = std::get_if<int64_t>(&value)) {
    proto.set_integer(*integer);
  } else if (const double* real = std::get_if<double>(&value)) {
    proto.set_real(*real);
  } else {
    proto.set_text(std::get<std::string>(value));
  }
  return proto;
}

v1::Resources ToProto(const Resources& resources) {
  v1::Resources proto;
  proto.set_registers(Clamp32(resources.registers));
  proto.set_spill_bytes(Clamp32(resources.spill_bytes));
  proto.set_stack_bytes(Clamp32(resources.stack_bytes));
  proto.set_static_shared_bytes(Clamp32(resources.static_shared_bytes));
  proto.set_dynamic_shared_bytes(Clamp32(resources.dynamic_shared_bytes));
  proto.set_binary_bytes(Clamp32(resources.binary_bytes));
  proto.set_binary_sha256(resources.binary_sha256);
  return proto;
}

v1::Telemetry ToProto(const Telemetry& telemetry) {
  v1::Telemetry proto;
  proto.set_sm_clock_mhz(Clamp32(telemetry.sm_clock_mhz));
  proto.set_memory_clock_mhz(Clamp32(telemetry.memory_clock_mhz));
  proto.set_power_mw(Clamp32(telemetry.power_mw));
  proto.set_temperature_c(Clamp32(telemetry.temperature_c));
  proto.set_throttle_reasons(telemetry.throttle_reasons);
  proto.set_compute_processes(Clamp32(telemetry.compute_processes));
  return proto;
}

v1::ResultError ToProto(const ResultError& error) {
  v1::ResultError proto;
  proto.set_max_abs(error.max_abs);
  proto.set_max_rel(error.max_rel);
  proto.set_relative_l2(error.relative_l2);
  proto.set_bad_elements(error.bad_elements);
  proto.set_worst(Utf8(error.worst));
  return proto;
}

Resources FromProto(const v1::Resources& proto) {
  Resources resources;
  resources.registers = proto.registers();
  resources.spill_bytes = proto.spill_bytes();
  resources.stack_bytes = proto.stack_bytes();
  resources.static_shared_bytes = proto.static_shared_bytes();
  resources.dynamic_shared_bytes = proto.dynamic_shared_bytes();
  resources.binary_bytes = proto.binary_bytes();
  resources.binary_sha256 = proto.binary_sha256();
  return resources;
}

Telemetry FromProto(const v1::Telemetry& proto) {
  return {proto.sm_clock_mhz(),  proto.memory_clock_mhz(), proto.power_mw(),
          proto.temperature_c(), proto.throttle_reasons(), proto.compute_processes()};
}

ResultError FromProto(const v1::ResultError& proto) {
  return {proto.max_abs(), proto.max_rel(), proto.relative_l2(), proto.bad_elements(),
          proto.worst()};
}

Value FromProto(const v1::Value& value) {
  switch (value.kind_case()) {
    case v1::Value::kBoolean:
      return value.boolean();
    case v1::Value::kReal:
      return value.real();
    case v1::Value::kText:
      return value.text();
    case v1::Value::kInteger:
    case v1::Value::KIND_NOT_SET:
      break;
  }
  return value.integer();
}

v1::Config ToProto(const Config& config) {
  v1::Config proto;
  for (const auto& [param, value] : config.entries) {
    v1::ConfigEntry* entry = proto.add_entries();
    entry->set_param(param);
    *entry->mutable_value() = ToProto(value);
  }
  return proto;
}

Config FromProto(const v1::Config& config) {
  Config result;
  for (const v1::ConfigEntry& entry : config.entries()) {
    result.entries.emplace_back(entry.param(), FromProto(entry.value()));
  }
  return result;
}

v1::Problem ToProto(const Problem& problem) {
  v1::Problem proto;
  for (const auto& [name, value] : problem.dims) {
    v1::DimValue* dim = proto.add_dims();
    dim->set_name(name);
    dim->set_value(value);
  }
  proto.set_dtype(ToText(problem.dtype));
  return proto;
}

v1::CacheMode ToProto(CacheMode mode) { return static_cast<v1::CacheMode>(mode); }

CacheMode FromProto(v1::CacheMode mode) {
  return mode == v1::CACHE_MODE_WARM ? CacheMode::kWarm : CacheMode::kCold;
}

v1::Measurement ToProto(const Measurement& measurement, Samples samples) {
  v1::Measurement proto;
  proto.set_sample_count(measurement.samples_ns.size());
  proto.set_latency_ns_median(measurement.latency_ns_median);
  proto.set_latency_ns_low(measurement.latency_ns_low);
  proto.set_latency_ns_high(measurement.latency_ns_high);
  proto.set_latency_ns_min(measurement.latency_ns_min);
  proto.set_latency_ns_mean(measurement.latency_ns_mean);
  proto.set_clock(ClockToProto(measurement.clock));
  proto.set_cache_mode(ToProto(measurement.cache_mode));
  proto.set_bytes_per_second(measurement.bytes_per_second);
  proto.set_flops_per_second(measurement.flops_per_second);
  proto.set_peak_fraction(measurement.peak_fraction);
  proto.set_stopped_early(measurement.stopped_early);
  if (samples == Samples::kInclude) {
    proto.mutable_samples_ns()->Add(measurement.samples_ns.begin(), measurement.samples_ns.end());
  }
  return proto;
}

v1::Trial ToProto(const Trial& trial, Samples samples) {
  v1::Trial proto;
  proto.set_id(trial.id);
  proto.set_sweep_id(trial.sweep_id);
  *proto.mutable_config() = ToProto(trial.config);
  proto.set_outcome(OutcomeToProto(trial.outcome));
  proto.set_message(Utf8(trial.message));
  if (!trial.measurement.samples_ns.empty() || trial.outcome == Outcome::kOk) {
    *proto.mutable_measurement() = ToProto(trial.measurement, samples);
  }
  *proto.mutable_resources() = ToProto(trial.resources);
  *proto.mutable_telemetry() = ToProto(trial.telemetry);
  *proto.mutable_error() = ToProto(trial.error);
  proto.set_compile_seconds(trial.compile_seconds);
  proto.set_compile_cached(trial.compile_cached);
  proto.set_evaluate_seconds(trial.evaluate_seconds);
  proto.set_finished_unix_ms(trial.finished_unix_ms);
  proto.set_purpose(static_cast<v1::TrialPurpose>(trial.purpose));
  return proto;
}

}  // namespace tune::server
