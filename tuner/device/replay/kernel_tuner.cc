// SPDX-License-Identifier: Apache-2.0
// Kernel Tuner's cache files (github.com/KernelTuner/kernel_tuner). Times are in milliseconds.
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "tuner/device/replay/format_readers.h"

namespace tune::replay {
namespace {

constexpr char kCacheVersion[] = "1.0.0";

absl::StatusOr<Recording> ReadCacheHeader(const Json& json) {
  Recording header;
  header.device = TextOr(Member(json, "device_name"), "");
  header.kernel = TextOr(Member(json, "kernel_name"), "");
  header.problem = ProblemText(Member(json, "problem_size"));
  header.name = absl::StrCat(header.kernel, "-", header.device);
  // A cache does not say which configs are valid, nor whether all of them were tried.
  header.sampled = true;
  const Json& values = Member(json, "tune_params");
  for (const Json& key : Member(json, "tune_params_keys")) {
    SpaceParam& param = header.params.emplace_back();
    param.name = TextOr(key, "");
    for (const Json& json_value : Member(values, param.name.c_str())) {
      const std::optional<Value> value = ToValue(json_value);
      if (!value) {
        return absl::InvalidArgumentError(
            absl::StrCat("tune_params: '", param.name, "' has a value that is no number or text"));
      }
      param.values.push_back(*value);
    }
  }
  return header;
}

Outcome OutcomeOfError(const std::string& error) {
  if (error == "InvalidConfig") return Outcome::kInvalidConfig;
  if (error == "CompilationFailedConfig") return Outcome::kCompileFailed;
  return Outcome::kLaunchFailed;  // RuntimeFailedConfig
}

absl::StatusOr<RecordedTrial> ReadTrial(const Json& row) {
  RecordedTrial trial;
  double evaluate_ms = 0;
  for (const char* part :
       {"compile_time", "verification_time", "benchmark_time", "framework_time"}) {
    const double part_ms = NumberOr(Member(row, part), 0);
    if (part_ms > 0) evaluate_ms += part_ms;
  }
  trial.evaluate_seconds = evaluate_ms / 1e3;
  const Json& time = Member(row, "time");
  if (time.is_string()) {
    trial.outcome = OutcomeOfError(time.get<std::string>());
  } else if (row.find("time") == row.end()) {
    return absl::InvalidArgumentError("it has no 'time'");
  } else if (const double time_ms = NumberOr(time, 0); IsLatencyMs(time_ms)) {
    trial.latency_ns = time_ms * kNsPerMs;
    trial.latency_ns_std = StandardDeviation(Member(row, "times")) * kNsPerMs;
  } else {
    trial.outcome = Outcome::kLaunchFailed;
  }
  return trial;
}

// The params' values stand in the row; in the key they are text, in the order of the params.
absl::StatusOr<std::vector<Value>> ReadConfig(const Recording& header, const Json& keys,
                                              const std::string& key, const Json& row) {
  std::vector<std::string> parts;
  std::vector<Value> values;
  for (const SpaceParam& param : header.params) {
    if (const std::optional<Value> value = ToValue(Member(row, param.name.c_str()))) {
      values.push_back(*value);
      continue;
    }
    if (parts.empty()) parts = absl::StrSplit(key, ',');
    size_t place = 0;
    while (place < keys.size() && TextOr(keys[place], "") != param.name) ++place;
    if (parts.size() != keys.size() || place == keys.size()) {
      return absl::InvalidArgumentError(absl::StrCat("it does not say what '", param.name, "' is"));
    }
    values.push_back(ValueFromText(parts[place]));
  }
  return values;
}

Json WriteRow(const Config& config, const RecordedTrial& trial) {
  Json row = Json::object();
  for (const auto& [name, value] : config.entries) row[name] = ToJson(value);
  switch (trial.outcome) {
    case Outcome::kOk:
      row["time"] = trial.latency_ns / kNsPerMs;
      break;
    case Outcome::kInvalidConfig:
      row["time"] = "InvalidConfig";
      break;
    case Outcome::kCompileFailed:
    case Outcome::kCompileTimeout:
      row["time"] = "CompilationFailedConfig";
      break;
    default:
      row["time"] = "RuntimeFailedConfig";
  }
  // Kernel Tuner wants them all; what a trial cost is known as a whole.
  row["compile_time"] = 0;
  row["verification_time"] = 0;
  row["benchmark_time"] = trial.evaluate_seconds * 1e3;
  row["strategy_time"] = 0;
  row["framework_time"] = 0;
  row["timestamp"] = "1970-01-01 00:00:00+00:00";  // a recording does not keep when
  return row;
}

}  // namespace

bool IsLatencyMs(double latency_ms) {
  // 1e20 and the largest double stand for failures.
  return std::isfinite(latency_ms) && latency_ms > 0 && latency_ms < 1e15;
}

bool IsKernelTunerCache(const Json& json) { return Member(json, "cache").is_object(); }

absl::StatusOr<Json> ParseUnclosedCache(absl::string_view text) {
  absl::StatusOr<Json> whole = ParseJson(text);
  if (whole.ok() || text.find("\"cache\"") == absl::string_view::npos) return whole;
  // Kernel Tuner appends `"key": {...},` and a line end for each config, and closes the file when
  // it ends. The last line may be cut short if it was killed.
  for (const absl::string_view part : {text, text.substr(0, text.find_last_of('\n'))}) {
    absl::string_view kept = absl::StripTrailingAsciiWhitespace(part);
    absl::ConsumeSuffix(&kept, ",");
    absl::StatusOr<Json> closed = ParseJson(absl::StrCat(kept, "}}"));
    if (closed.ok()) return closed;
  }
  return whole;
}

absl::StatusOr<Recording> ReadKernelTunerCache(const Json& json, const Definition* definition) {
  ASSIGN_OR_RETURN(Recording header, ReadCacheHeader(json));
  if (definition != nullptr) RETURN_IF_ERROR(Apply(*definition, header));
  RecordingBuilder builder(std::move(header));
  const Json& keys = Member(json, "tune_params_keys");
  for (const auto& [key, row] : Member(json, "cache").items()) {
    absl::StatusOr<std::vector<Value>> values = ReadConfig(builder.header(), keys, key, row);
    absl::Status status = values.status();
    if (status.ok()) {
      absl::StatusOr<RecordedTrial> trial = ReadTrial(row);
      status = trial.ok() ? builder.Add(*values, *trial) : trial.status();
    }
    if (!status.ok()) {
      return absl::Status(status.code(),
                          absl::StrCat("cache entry \"", key, "\": ", status.message()));
    }
  }
  return std::move(builder).Build();
}

std::string WriteKernelTunerCache(const Recording& recording) {
  Json keys = Json::array();
  Json params = Json::object();
  for (const SpaceParam& param : recording.params) {
    keys.push_back(param.name);
    Json& values = params[param.name] = Json::array();
    for (const Value& value : param.values) values.push_back(ToJson(value));
  }
  std::string text =
      absl::StrCat("{\"schema_version\": \"", kCacheVersion,
                   "\",\n\"device_name\": ", Json(recording.device).dump(),
                   ",\n\"kernel_name\": ", Json(recording.kernel).dump(),
                   ",\n\"problem_size\": ", Json(recording.problem).dump(),
                   ",\n\"tune_params_keys\": ", keys.dump(), ",\n\"tune_params\": ", params.dump(),
                   ",\n\"objective\": \"time\",\n\"cache\": {");
  for (size_t i = 0; i < recording.trials.size(); ++i) {
    const Config config = recording.ConfigOf(i);
    const std::string key = absl::StrJoin(config.entries, ",", [](std::string* out, const auto& e) {
      absl::StrAppend(out, ToText(e.second));
    });
    absl::StrAppend(&text, i == 0 ? "\n" : ",\n", Json(key).dump(), ": ",
                    WriteRow(config, recording.trials[i]).dump());
  }
  return text + "\n}}\n";
}

}  // namespace tune::replay
