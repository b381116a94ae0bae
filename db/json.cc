// SPDX-License-Identifier: Apache-2.0
#include "db/json.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace tune::db {
namespace {

using Json = nlohmann::ordered_json;

std::string Write(const Json& json) {
  // Replacing bad UTF-8 rather than throwing: the caller compares with what it put in.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

double Finite(double value) { return std::isfinite(value) ? value : 0; }

absl::Status Unexpected(absl::string_view text) {
  return absl::DataLossError(absl::StrCat("unexpected JSON in the database: ", text));
}

absl::StatusOr<Json> Parse(absl::string_view text, Json::value_t type) {
  Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_discarded() && json.type() == type) return json;
  return Unexpected(text);
}

bool Take(const Json& json, int64_t& number) {
  if (json.is_number_integer()) number = json.get<int64_t>();
  return json.is_number_integer();
}

bool Take(const Json& json, double& number) {
  if (json.is_number()) number = json.get<double>();
  return json.is_number();
}

bool Take(const Json& json, std::string& text) {
  if (json.is_string()) text = json.get<std::string>();
  return json.is_string();
}

bool Take(const Json& json, Value& value) {
  if (json.is_boolean()) value = json.get<bool>();
  if (json.is_number_integer()) value = json.get<int64_t>();
  if (json.is_number_float()) value = json.get<double>();
  if (json.is_string()) value = json.get<std::string>();
  return json.is_primitive() && !json.is_null();
}

bool Take(const Json& json, CounterReading& reading) {
  return json.is_array() && json.size() == 3 && Take(json[0], reading.value) &&
         Take(json[1], reading.low) && Take(json[2], reading.high);
}

bool Take(const Json& json, lookup::RecordTie& tie) {
  return json.is_array() && json.size() == 2 && json[0].is_string() &&
         Take(json[1], tie.latency_ns_median) &&
         Decode(json[0].get_ref<const std::string&>(), tie.config).ok();
}

template <typename T>
absl::Status DecodeList(absl::string_view text, std::vector<T>& list) {
  ASSIGN_OR_RETURN(const Json json, Parse(text, Json::value_t::array));
  for (const Json& element : json) {
    if (!Take(element, list.emplace_back())) return Unexpected(text);
  }
  return absl::OkStatus();
}

// Calls add(name, element) for each member.
template <typename T, typename Add>
absl::Status DecodeMembers(absl::string_view text, Add add) {
  ASSIGN_OR_RETURN(const Json json, Parse(text, Json::value_t::object));
  for (const auto& [name, member] : json.items()) {
    T element{};
    if (!Take(member, element)) return Unexpected(text);
    add(name, std::move(element));
  }
  return absl::OkStatus();
}

// The text of a noun. INVALID_ARGUMENT if the text does not read back as an equal noun.
template <typename T>
absl::StatusOr<std::string> Reversible(const Json& json, const T& noun) {
  std::string text = Write(json);
  T read_back;
  if (Decode(text, read_back).ok() && read_back == noun) return text;
  return absl::InvalidArgumentError(absl::StrCat(
      text,
      " cannot be stored: a name is there twice, a number is not finite or a text not UTF-8"));
}

}  // namespace

absl::StatusOr<std::string> Encode(const Config& config) {
  Json json = Json::object();
  for (const auto& [name, value] : config.entries) {
    std::visit([&, &name = name](const auto& held) { json[name] = held; }, value);
  }
  return Reversible(json, config);
}

absl::StatusOr<std::string> Encode(const Dims& dims) {
  Json json = Json::object();
  for (const auto& [name, value] : dims) json[name] = value;
  return Reversible(json, dims);
}

absl::StatusOr<std::string> Encode(const std::vector<int64_t>& ids) { return Write(ids); }

absl::StatusOr<std::string> Encode(const std::vector<std::string>& texts) { return Write(texts); }

absl::StatusOr<std::string> Encode(const Quantities& quantities) {
  Json json = Json::object();
  for (const auto& [name, value] : quantities) json[name] = Finite(value);
  return Write(json);
}

absl::StatusOr<std::string> Encode(const std::vector<CounterReading>& readings) {
  Json json = Json::object();
  for (const CounterReading& reading : readings) {
    json[reading.name] = {Finite(reading.value), Finite(reading.low), Finite(reading.high)};
  }
  return Write(json);
}

absl::Status Decode(absl::string_view text, Config& config) {
  return DecodeMembers<Value>(text, [&](const std::string& name, Value value) {
    config.entries.emplace_back(name, std::move(value));
  });
}

absl::Status Decode(absl::string_view text, Dims& dims) {
  return DecodeMembers<int64_t>(
      text, [&](const std::string& name, int64_t value) { dims.emplace_back(name, value); });
}

absl::Status Decode(absl::string_view text, Quantities& quantities) {
  return DecodeMembers<double>(
      text, [&](const std::string& name, double value) { quantities[name] = value; });
}

absl::Status Decode(absl::string_view text, std::vector<CounterReading>& readings) {
  return DecodeMembers<CounterReading>(text, [&](const std::string& name, CounterReading reading) {
    reading.name = name;
    readings.push_back(std::move(reading));
  });
}

absl::Status Decode(absl::string_view text, std::vector<int64_t>& ids) {
  return DecodeList(text, ids);
}

absl::Status Decode(absl::string_view text, std::vector<std::string>& texts) {
  return DecodeList(text, texts);
}

absl::Status Decode(absl::string_view text, std::vector<lookup::RecordTie>& ties) {
  return DecodeList(text, ties);
}

// The targets this program is built for (x86-64, arm64) are little-endian: bytes as they are.
static_assert(std::endian::native == std::endian::little);

std::string Encode(const std::vector<double>& samples) {
  std::string bytes(samples.size() * sizeof(double), '\0');
  if (!samples.empty()) std::memcpy(bytes.data(), samples.data(), bytes.size());
  return bytes;
}

absl::Status Decode(absl::string_view bytes, std::vector<double>& samples) {
  samples.resize(bytes.size() / sizeof(double));
  if (!samples.empty()) std::memcpy(samples.data(), bytes.data(), samples.size() * sizeof(double));
  return absl::OkStatus();
}

}  // namespace tune::db
