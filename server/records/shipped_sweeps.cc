// SPDX-License-Identifier: Apache-2.0
#include "server/records/shipped_sweeps.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "lookup/json_fields.h"
#include "lookup/shipped_files.h"
#include "server/records/shipped_records.h"

namespace tune::server {
namespace {

using lookup::Json;

constexpr double kLatencyUnit = 10;  // a latency is in tenths of nanoseconds

absl::Status NoSweeps(absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("these are no sweeps: ", why));
}

absl::StatusOr<Value> ValueOf(const Json& json) {
  if (json.is_boolean()) return Value(json.get<bool>());
  if (json.is_number_integer()) return Value(json.get<int64_t>());
  if (json.is_number_float()) return Value(json.get<double>());
  if (json.is_string()) return Value(json.get<std::string>());
  return NoSweeps(absl::StrCat("a param has the value ", json.dump()));
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

absl::Status ReadLatencies(const Json& json, ShippedSweeps::Sweep& sweep) {
  int64_t tenths = 0;
  for (const Json& one : json) {
    const int64_t more = one.get<int64_t>();
    if (more < 0 || (sweep.rows.empty() && more == 0)) {
      return NoSweeps("a config is faster than the one before, or takes no time");
    }
    tenths += more;
    sweep.rows.push_back(
        {.latency_ns = static_cast<float>(static_cast<double>(tenths) / kLatencyUnit)});
  }
  return absl::OkStatus();
}

absl::Status ReadConfigs(const Json& json, ShippedSweeps::Sweep& sweep) {
  const size_t params = sweep.params.size();
  if (json.size() != params) return NoSweeps("there is no text of configs for each param");
  sweep.digits.resize(params * sweep.rows.size());
  for (size_t p = 0; p < params; ++p) {
    const std::string letters = json.at(p).get<std::string>();
    if (letters.size() != sweep.rows.size()) return NoSweeps("there is no latency for each config");
    for (size_t i = 0; i < letters.size(); ++i) {
      const int place = letters[i] - 'A';
      if (place < 0 || place >= static_cast<int>(sweep.params[p].values.size())) {
        return NoSweeps(absl::StrCat(sweep.params[p].name, " has no value ", place));
      }
      sweep.digits[i * params + p] = static_cast<uint16_t>(place);
    }
  }
  return absl::OkStatus();
}

absl::Status ReadResource(const Json& json, uint32_t ShippedSweeps::Row::*resource,
                          ShippedSweeps::Sweep& sweep) {
  if (json.size() > sweep.rows.size()) return NoSweeps("there are resources of no config");
  for (size_t i = 0; i < json.size(); ++i) sweep.rows[i].*resource = json[i].get<uint32_t>();
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
  using Row = ShippedSweeps::Row;
  RETURN_IF_ERROR(ReadLatencies(json.at("latency_tenths"), sweep));
  RETURN_IF_ERROR(ReadConfigs(json.at("configs"), sweep));
  RETURN_IF_ERROR(ReadResource(json.at("registers"), &Row::registers, sweep));
  RETURN_IF_ERROR(ReadResource(json.at("static_shared_bytes"), &Row::static_shared_bytes, sweep));
  RETURN_IF_ERROR(ReadResource(json.at("dynamic_shared_bytes"), &Row::dynamic_shared_bytes, sweep));
  return sweep;
}

absl::StatusOr<std::vector<ShippedSweeps::Sweep>> ReadSweeps(
    const std::vector<absl::string_view>& lines) {
  std::vector<ShippedSweeps::Sweep> sweeps;
  try {  // the library tells in no other way that a member is missing
    for (const absl::string_view line : lines) {
      ASSIGN_OR_RETURN(ShippedSweeps::Sweep sweep, SweepOf(Json::parse(line.begin(), line.end())));
      sweeps.push_back(std::move(sweep));
    }
  } catch (const Json::exception& error) {
    return NoSweeps(error.what());
  }
  return sweeps;
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

absl::StatusOr<std::shared_ptr<const ShippedSweeps>> ShippedSweeps::Parse(
    std::vector<std::string> texts) {
  auto sweeps = std::make_shared<ShippedSweeps>();
  sweeps->texts_ = std::move(texts);
  for (const std::string& text : sweeps->texts_) {
    std::optional<lookup::SnapshotLines> split = lookup::SplitSnapshot(text);
    if (!split) return NoSweeps("a file is not laid out as a snapshot");
    lookup::AddLines(std::move(split->by_kernel), sweeps->lines_);
  }
  return sweeps;
}

absl::StatusOr<std::shared_ptr<const ShippedSweeps>> ShippedSweeps::Load(
    const std::string& folder) {
  ASSIGN_OR_RETURN(std::vector<lookup::ShippedFile> files,
                   lookup::ReadShippedFiles(folder, lookup::kSweepsFile));
  std::vector<std::string> texts;
  for (const lookup::ShippedFile& file : files) {
    ASSIGN_OR_RETURN(std::string text, file.Text());
    texts.push_back(std::move(text));
  }
  return Parse(std::move(texts));
}

absl::StatusOr<const std::vector<ShippedSweeps::Sweep>*> ShippedSweeps::OfKernel(
    const std::string& kernel_name) const {
  static const std::vector<Sweep> none;
  const auto lines = lines_.find(kernel_name);
  if (lines == lines_.end()) return &none;
  MutexLock lock(mutex_);
  const auto known = read_.find(kernel_name);
  if (known != read_.end()) return &known->second;
  ASSIGN_OR_RETURN(std::vector<Sweep> sweeps, ReadSweeps(lines->second.sweeps));
  return &(read_[kernel_name] = std::move(sweeps));
}

absl::StatusOr<const ShippedSweeps::Sweep*> ShippedSweeps::Of(const lookup::Record& record) const {
  const Sweep* found = nullptr;
  if (!IsShipped(record)) return found;
  ASSIGN_OR_RETURN(const std::vector<Sweep>* sweeps, OfKernel(record.kernel_name));
  const TrialKey& key = record.key;
  for (const Sweep& sweep : *sweeps) {
    const TrialKey& of = sweep.key;
    if (of.kernel_hash == key.kernel_hash && of.device_name == key.device_name &&
        of.target == key.target && of.problem == key.problem && of.cache_mode == key.cache_mode) {
      found = &sweep;
    }
  }
  return found;
}

std::vector<std::string> ShippedSweeps::kernel_names() const {
  std::vector<std::string> names;
  for (const auto& [name, lines] : lines_) names.push_back(name);
  return names;
}

}  // namespace tune::server
