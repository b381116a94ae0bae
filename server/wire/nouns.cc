// SPDX-License-Identifier: Apache-2.0
#include "server/wire/nouns.h"

namespace tune::server {

void Encode(const Value& value, v1::Value& proto) {
  if (const bool* boolean = std::get_if<bool>(&value)) {
    proto.set_boolean(*boolean);
  } else if (const int64_t* integer = std::get_if<int64_t>(&value)) {
    proto.set_integer(*integer);
  } else if (const double* real = std::get_if<double>(&value)) {
    proto.set_real(*real);
  } else {
    proto.set_text(std::get<std::string>(value));
  }
}

void Encode(const Config& config, v1::Config& proto) {
  proto.mutable_entries()->Reserve(static_cast<int>(config.entries.size()));
  for (const auto& [name, value] : config.entries) {
    v1::ConfigEntry& entry = *proto.add_entries();
    entry.set_param(Utf8(name));
    Encode(value, *entry.mutable_value());
  }
}

v1::Value ToProto(const Value& value) {
  v1::Value proto;
  Encode(value, proto);
  return proto;
}

v1::Config ToProto(const Config& config) {
  v1::Config proto;
  Encode(config, proto);
  return proto;
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

Config FromProto(const v1::Config& config) {
  Config result;
  for (const v1::ConfigEntry& entry : config.entries()) {
    result.entries.emplace_back(entry.param(), FromProto(entry.value()));
  }
  return result;
}

CacheMode FromProto(v1::CacheMode mode) {
  return mode == v1::CACHE_MODE_WARM ? CacheMode::kWarm : CacheMode::kCold;
}

v1::Measurement ToProto(const Measurement& measurement, Samples samples) {
  auto proto = Encoded<v1::Measurement>(measurement);
  if (samples == Samples::kOmit) proto.clear_samples_ns();
  return proto;
}

v1::Trial ToProto(const Trial& trial, Samples samples) {
  auto proto = Encoded<v1::Trial>(trial);
  if (samples == Samples::kOmit) proto.mutable_measurement()->clear_samples_ns();
  if (!WasTimed(trial)) proto.clear_measurement();
  return proto;
}

}  // namespace tune::server
