// SPDX-License-Identifier: Apache-2.0
#include "server/worker/trial_proto.h"

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

}  // namespace tune::server
