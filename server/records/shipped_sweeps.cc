// SPDX-License-Identifier: Apache-2.0
#include "server/records/shipped_sweeps.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/catalogue.h"
#include "nlohmann/json.hpp"
#include "server/records/shipped_records.h"

namespace tune::server {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMeasuredFields = 4;  // of a config, after its params

std::string PlaceOf(const std::string& kernel_name, const TrialKey& key) {
  return absl::StrCat(kernel_name, "\n", key.kernel_hash, "\n", key.device_name, "\n", key.target,
                      "\n", ToText(key.problem), "\n", static_cast<int>(key.cache_mode));
}

absl::Status Invalid(absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("these are no sweeps: ", why));
}

absl::StatusOr<Value> ValueOf(const Json& json) {
  if (json.is_boolean()) return Value(json.get<bool>());
  if (json.is_number_integer()) return Value(json.get<int64_t>());
  if (json.is_number_float()) return Value(json.get<double>());
  if (json.is_string()) return Value(json.get<std::string>());
  return Invalid(absl::StrCat("a param has the value ", json.dump()));
}

absl::StatusOr<std::vector<ShippedSweeps::Param>> ParamsOf(const Json& json) {
  std::vector<ShippedSweeps::Param> params;
  for (const Json& one : json) {
    ShippedSweeps::Param param{.name = one.at(0).get<std::string>()};
    for (const Json& value : one.at(1)) {
      ASSIGN_OR_RETURN(Value parsed, ValueOf(value));
      param.values.push_back(std::move(parsed));
    }
    params.push_back(std::move(param));
  }
  return params;
}

absl::Status AddRow(const Json& json, ShippedSweeps::Sweep& sweep) {
  const size_t count = sweep.params.size();
  if (json.size() != count + kMeasuredFields) {
    return Invalid(absl::StrCat("a config has ", json.size(), " fields"));
  }
  for (size_t i = 0; i < count; ++i) {
    const size_t digit = json.at(i).get<size_t>();
    if (digit >= sweep.params[i].values.size()) {
      return Invalid(absl::StrCat(sweep.params[i].name, " has no value ", digit));
    }
    sweep.digits.push_back(static_cast<uint16_t>(digit));
  }
  const ShippedSweeps::Row row = {.latency_ns = json.at(count).get<float>(),
                                  .registers = json.at(count + 1).get<uint32_t>(),
                                  .static_shared_bytes = json.at(count + 2).get<uint32_t>(),
                                  .dynamic_shared_bytes = json.at(count + 3).get<uint32_t>()};
  if (!(row.latency_ns > 0)) return Invalid("a config took no time");
  if (!sweep.rows.empty() && row.latency_ns < sweep.rows.back().latency_ns) {
    return Invalid("a config is faster than the one before");
  }
  sweep.rows.push_back(row);
  return absl::OkStatus();
}

absl::StatusOr<ShippedSweeps::Sweep> SweepOf(const Json& json) {
  ShippedSweeps::Sweep sweep{.kernel_name = json.at("kernel").get<std::string>()};
  sweep.key = {.kernel_hash = json.at("kernel_hash").get<std::string>(),
               .device_name = json.at("device").get<std::string>(),
               .target = json.at("target").get<std::string>()};
  for (const auto& [dim, value] : json.at("dims").items()) {
    sweep.key.problem.dims.emplace_back(dim, value.get<int64_t>());
  }
  ASSIGN_OR_RETURN(sweep.key.problem.dtype, ParseDType(json.at("dtype").get<std::string>()));
  ASSIGN_OR_RETURN(sweep.params, ParamsOf(json.at("params")));
  for (const Json& one : json.at("configs")) RETURN_IF_ERROR(AddRow(one, sweep));
  return sweep;
}

}  // namespace

std::vector<lookup::TimedConfig> ShippedSweeps::Sweep::Configs(size_t limit) const {
  std::vector<lookup::TimedConfig> configs;
  for (size_t i = 0; i < std::min(limit, rows.size()); ++i) {
    lookup::TimedConfig& config = configs.emplace_back();
    for (size_t p = 0; p < params.size(); ++p) {
      const Value& value = params[p].values[digits[i * params.size() + p]];
      config.config.entries.emplace_back(params[p].name, value);
    }
    config.latency_ns_median = rows[i].latency_ns;
    config.registers = rows[i].registers;
    config.static_shared_bytes = rows[i].static_shared_bytes;
    config.dynamic_shared_bytes = rows[i].dynamic_shared_bytes;
  }
  return configs;
}

absl::StatusOr<ShippedSweeps> ShippedSweeps::Parse(const std::vector<std::string_view>& texts) {
  ShippedSweeps all;
  try {
    for (std::string_view text : texts) {
      const Json file = Json::parse(text);
      for (const Json& one : file.at("sweeps")) {
        ASSIGN_OR_RETURN(Sweep sweep, SweepOf(one));
        all.places_[PlaceOf(sweep.kernel_name, sweep.key)] = all.sweeps_.size();
        all.sweeps_.push_back(std::move(sweep));
      }
    }
  } catch (const Json::exception& error) {
    return Invalid(error.what());
  }
  return all;
}

absl::StatusOr<ShippedSweeps> ShippedSweeps::Load() {
  std::vector<std::string_view> texts;
  for (const RecordsFile& file : CatalogueSweeps()) texts.push_back(file.text);
  absl::StatusOr<ShippedSweeps> all = Parse(texts);
  if (!all.ok()) {
    return absl::InternalError(absl::StrCat("kernels/records/sweeps/: ", all.status().message()));
  }
  return all;
}

const ShippedSweeps::Sweep* ShippedSweeps::Of(const lookup::Record& record) const {
  if (!IsShipped(record)) return nullptr;
  const auto found = places_.find(PlaceOf(record.kernel_name, record.key));
  return found == places_.end() ? nullptr : &sweeps_[found->second];
}

}  // namespace tune::server
