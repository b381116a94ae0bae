// SPDX-License-Identifier: Apache-2.0
#include "db/json.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "tuner/status_macros.h"

namespace tune::db {
namespace {

using Json = nlohmann::ordered_json;

std::string Write(const Json& json) {
  // Replacing bad UTF-8 rather than throwing: the caller compares with what it put in.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

absl::StatusOr<Json> Parse(absl::string_view text, Json::value_t type) {
  Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_discarded() && json.type() == type) return json;
  return absl::DataLossError(absl::StrCat("unexpected JSON in the database: ", text));
}

absl::StatusOr<Value> ToValue(const Json& json) {
  if (json.is_boolean()) return Value(json.get<bool>());
  if (json.is_number_integer()) return Value(json.get<int64_t>());
  if (json.is_number_float()) return Value(json.get<double>());
  if (json.is_string()) return Value(json.get<std::string>());
  return absl::DataLossError(absl::StrCat("unexpected value in the database: ", Write(json)));
}

}  // namespace

absl::StatusOr<std::string> EncodeConfig(const Config& config) {
  Json json = Json::object();
  for (const auto& [name, value] : config.entries) {
    std::visit([&, &name = name](const auto& held) { json[name] = held; }, value);
  }
  std::string text = Write(json);
  absl::StatusOr<Config> read_back = DecodeConfig(text);
  if (read_back.ok() && *read_back == config) return text;
  return absl::InvalidArgumentError(absl::StrCat(
      "config '", ToText(config),
      "' cannot be stored: a name is there twice, a number is not finite or a text not UTF-8"));
}

absl::StatusOr<Config> DecodeConfig(absl::string_view text) {
  ASSIGN_OR_RETURN(Json json, Parse(text, Json::value_t::object));
  Config config;
  for (const auto& [name, member] : json.items()) {
    ASSIGN_OR_RETURN(Value value, ToValue(member));
    config.entries.emplace_back(name, std::move(value));
  }
  return config;
}

absl::StatusOr<std::string> EncodeDims(const Dims& dims) {
  Json json = Json::object();
  for (const auto& [name, value] : dims) json[name] = value;
  std::string text = Write(json);
  absl::StatusOr<Dims> read_back = DecodeDims(text);
  if (read_back.ok() && *read_back == dims) return text;
  return absl::InvalidArgumentError(
      absl::StrCat("dims ", text, " cannot be stored: a name is there twice or is not UTF-8"));
}

absl::StatusOr<Dims> DecodeDims(absl::string_view text) {
  ASSIGN_OR_RETURN(Json json, Parse(text, Json::value_t::object));
  Dims dims;
  for (const auto& [name, member] : json.items()) {
    if (!member.is_number_integer()) {
      return absl::DataLossError(absl::StrCat("unexpected dim in the database: ", text));
    }
    dims.emplace_back(name, member.get<int64_t>());
  }
  return dims;
}

std::string EncodeIds(const std::vector<int64_t>& ids) { return Write(Json(ids)); }

absl::StatusOr<std::vector<int64_t>> DecodeIds(absl::string_view text) {
  ASSIGN_OR_RETURN(Json json, Parse(text, Json::value_t::array));
  std::vector<int64_t> ids;
  for (const Json& member : json) {
    if (!member.is_number_integer()) {
      return absl::DataLossError(absl::StrCat("unexpected id in the database: ", text));
    }
    ids.push_back(member.get<int64_t>());
  }
  return ids;
}

absl::StatusOr<std::vector<std::pair<Config, double>>> DecodeTies(absl::string_view text) {
  ASSIGN_OR_RETURN(Json json, Parse(text, Json::value_t::array));
  std::vector<std::pair<Config, double>> ties;
  for (const Json& tie : json) {
    if (!tie.is_array() || tie.size() != 2 || !tie[0].is_string() || !tie[1].is_number()) {
      return absl::DataLossError(absl::StrCat("unexpected tie in the database: ", text));
    }
    ASSIGN_OR_RETURN(Config config, DecodeConfig(tie[0].get<std::string>()));
    ties.emplace_back(std::move(config), tie[1].get<double>());
  }
  return ties;
}

// The targets this program is built for (x86-64, arm64) are little-endian: bytes as they are.
static_assert(std::endian::native == std::endian::little);

std::string EncodeQuantities(const Quantities& quantities) {
  Json json = Json::object();
  for (const auto& [name, value] : quantities) json[name] = std::isfinite(value) ? value : 0.0;
  return Write(json);
}

absl::StatusOr<Quantities> DecodeQuantities(absl::string_view text) {
  ASSIGN_OR_RETURN(Json json, Parse(text, Json::value_t::object));
  Quantities quantities;
  for (const auto& [name, member] : json.items()) {
    if (!member.is_number()) return absl::DataLossError("a quantity that is not a number");
    quantities[name] = member.get<double>();
  }
  return quantities;
}

std::string EncodeReadings(const std::vector<CounterReading>& readings) {
  Json json = Json::object();
  for (const CounterReading& reading : readings) {
    Json& member = json[reading.name] = Json::array();
    for (double value : {reading.value, reading.low, reading.high}) {
      member.push_back(std::isfinite(value) ? value : 0.0);
    }
  }
  return Write(json);
}

absl::StatusOr<std::vector<CounterReading>> DecodeReadings(absl::string_view text) {
  ASSIGN_OR_RETURN(Json json, Parse(text, Json::value_t::object));
  std::vector<CounterReading> readings;
  for (const auto& [name, member] : json.items()) {
    const auto is_number = [](const Json& element) { return element.is_number(); };
    if (!member.is_array() || member.size() != 3 ||
        !std::all_of(member.begin(), member.end(), is_number)) {
      return absl::DataLossError(absl::StrCat("counter ", name, " is not three numbers"));
    }
    readings.push_back(
        {name, member[0].get<double>(), member[1].get<double>(), member[2].get<double>()});
  }
  return readings;
}

std::string EncodeTexts(const std::vector<std::string>& texts) { return Write(Json(texts)); }

absl::StatusOr<std::vector<std::string>> DecodeTexts(absl::string_view text) {
  ASSIGN_OR_RETURN(Json json, Parse(text, Json::value_t::array));
  std::vector<std::string> texts;
  for (const Json& element : json) {
    if (!element.is_string()) return absl::DataLossError("a note that is not a text");
    texts.push_back(element.get<std::string>());
  }
  return texts;
}

std::string EncodeSamples(const std::vector<double>& samples) {
  std::string bytes(samples.size() * sizeof(double), '\0');
  if (!samples.empty()) std::memcpy(bytes.data(), samples.data(), bytes.size());
  return bytes;
}

std::vector<double> DecodeSamples(absl::string_view bytes) {
  std::vector<double> samples(bytes.size() / sizeof(double));
  if (!samples.empty()) std::memcpy(samples.data(), bytes.data(), samples.size() * sizeof(double));
  return samples;
}

}  // namespace tune::db
