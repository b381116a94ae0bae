// SPDX-License-Identifier: Apache-2.0
// T4, the results format of the auto-tuning community, and the params of T1, its input format
// (github.com/odgaard/TuningSchema).
#include <algorithm>
#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "tuner/device/replay/format_readers.h"
#include "tuner/expression/python_list.h"

namespace tune::replay {
namespace {

constexpr char kT4Version[] = "1.0.0";

// Milliseconds in a unit; 0 for one that is no time.
double MsPer(const std::string& unit) {
  const std::string name = absl::AsciiStrToLower(unit);
  for (const char* ms : {"ms", "milliseconds", "miliseconds", "millisecond"}) {
    if (name == ms) return 1;
  }
  for (const char* s : {"s", "seconds", "second"}) {
    if (name == s) return 1e3;
  }
  for (const char* us : {"us", "microseconds", "microsecond"}) {
    if (name == us) return 1e-3;
  }
  for (const char* ns : {"ns", "nanoseconds", "nanosecond"}) {
    if (name == ns) return 1e-6;
  }
  return 0;
}

// The unit of the file, which writers spell in different ways; Kernel Tuner's is milliseconds.
double FileMs(const Json& json) {
  const Json& metadata = Member(json, "metadata");
  for (const char* name : {"timeunit", "time_unit"}) {
    const Json& unit = Member(metadata, name);
    if (unit.is_string()) return MsPer(unit.get<std::string>());
  }
  return 1;
}

Outcome OutcomeOfInvalidity(const std::string& invalidity) {
  if (invalidity == "correct") return Outcome::kOk;
  if (invalidity == "timeout") return Outcome::kTimedOut;
  if (invalidity == "compile") return Outcome::kCompileFailed;
  if (invalidity == "correctness") return Outcome::kWrongResult;
  if (invalidity == "constraints") return Outcome::kInvalidConfig;
  return Outcome::kLaunchFailed;
}

const char* InvalidityOf(Outcome outcome) {
  switch (outcome) {
    case Outcome::kOk:
      return "correct";
    case Outcome::kInvalidConfig:
      return "constraints";
    case Outcome::kCompileFailed:
    case Outcome::kCompileTimeout:
      return "compile";
    case Outcome::kWrongResult:
      return "correctness";
    case Outcome::kTimedOut:
      return "timeout";
    default:
      return "runtime";
  }
}

// In milliseconds; 0 if the result has no time.
double LatencyMs(const Json& result, double file_ms) {
  const Json& objectives = Member(result, "objectives");
  std::string objective = "time";
  if (objectives.is_array() && !objectives.empty()) objective = TextOr(objectives[0], objective);
  for (const std::string& wanted : {objective, std::string("time")}) {
    for (const Json& measurement : Member(result, "measurements")) {
      if (TextOr(Member(measurement, "name"), "") != wanted) continue;
      const std::string unit = TextOr(Member(measurement, "unit"), "");
      // A figure of another kind, such as GFLOP/s, is not what a recording holds.
      if (unit.empty() && wanted != "time") continue;
      return NumberOr(Member(measurement, "value"), 0) * (unit.empty() ? file_ms : MsPer(unit));
    }
  }
  return 0;
}

double Sum(const Json& numbers) {
  double sum = 0;
  for (const Json& number : numbers) sum += std::max(0.0, NumberOr(number, 0));
  return sum;
}

// Milliseconds in a unit of `runtimes`. Some writers have these in the unit of the measurement,
// not in the file's: the unit in which their mean is nearest to the measured time.
double RuntimesMs(const Json& result, const Json& runtimes, double latency_ms, double file_ms) {
  const double mean = runtimes.empty() ? 0 : Sum(runtimes) / static_cast<double>(runtimes.size());
  if (mean <= 0 || latency_ms <= 0) return file_ms;
  const auto distance = [&](double ms) { return std::abs(std::log(mean * ms / latency_ms)); };
  double best = file_ms;
  for (const Json& measurement : Member(result, "measurements")) {
    const double ms = MsPer(TextOr(Member(measurement, "unit"), ""));
    if (ms > 0 && distance(ms) < distance(best)) best = ms;
  }
  return best;
}

absl::StatusOr<RecordedTrial> ReadTrial(const Json& result, double file_ms) {
  RecordedTrial trial;
  const Json& times = Member(result, "times");
  double evaluate = 0;
  for (const char* part :
       {"compilation", "compilation_time", "benchmark", "framework", "validation"}) {
    const double spent = NumberOr(Member(times, part), 0);
    if (spent > 0) evaluate += spent;
  }
  const Json& runtimes = Member(times, "runtimes");
  const double runtimes_ms = RuntimesMs(result, runtimes, LatencyMs(result, file_ms), file_ms);
  // Kernel Tuner writes no time of benchmarking: it is that of the launches.
  const double launches_ms =
      Member(times, "benchmark").is_number() ? 0 : Sum(runtimes) * runtimes_ms;
  trial.evaluate_seconds = (evaluate * file_ms + launches_ms) / 1e3;
  trial.outcome = OutcomeOfInvalidity(TextOr(Member(result, "invalidity"), ""));
  if (trial.outcome != Outcome::kOk) return trial;
  const double latency_ms = LatencyMs(result, file_ms);
  if (!IsLatencyMs(latency_ms)) {
    if (Member(result, "measurements").empty()) {
      return absl::InvalidArgumentError("it is correct, but has no measurement of its time");
    }
    trial.outcome = Outcome::kLaunchFailed;
    return trial;
  }
  trial.latency_ns = latency_ms * kNsPerMs;
  trial.latency_ns_std = StandardDeviation(runtimes) * runtimes_ms * kNsPerMs;
  return trial;
}

Json WriteResult(const RecordedTrial& trial) {
  Json times = {{"compilation", 0}, {"benchmark", trial.evaluate_seconds * 1e3},
                {"framework", 0},   {"search_algorithm", 0},
                {"validation", 0},  {"runtimes", Json::array()}};
  Json measurements = Json::array();
  if (trial.outcome == Outcome::kOk) {
    const double latency_ms = trial.latency_ns / kNsPerMs;
    times["runtimes"].push_back(latency_ms);
    measurements.push_back({{"name", "time"}, {"value", latency_ms}, {"unit", "ms"}});
  }
  return {{"times", std::move(times)},
          {"invalidity", InvalidityOf(trial.outcome)},
          {"correctness", trial.outcome == Outcome::kWrongResult ? 0 : 1},
          {"measurements", std::move(measurements)},
          {"objectives", {"time"}}};
}

}  // namespace

bool IsT4(const Json& json) { return Member(json, "results").is_array(); }

absl::StatusOr<Recording> ReadT4(const Json& json, const std::vector<std::string>& param_names,
                                 const Definition* definition) {
  const Json& metadata = Member(json, "metadata");
  Recording header;
  header.device = TextOr(Member(metadata, "device_name"), "");
  header.kernel = TextOr(Member(metadata, "kernel_name"), "");
  header.problem = ProblemText(Member(metadata, "problem_size"));
  header.name = absl::StrCat(header.kernel.empty() ? "t4" : header.kernel,
                             header.device.empty() ? "" : "-", header.device);
  header.sampled = true;
  for (const std::string& name : param_names) header.params.push_back({.name = name, .values = {}});
  if (definition != nullptr) RETURN_IF_ERROR(Apply(*definition, header));
  RecordingBuilder builder(std::move(header));
  const double file_ms = FileMs(json);
  if (file_ms == 0) return absl::InvalidArgumentError("metadata: unknown time unit");
  size_t place = 0;
  for (const Json& result : Member(json, "results")) {
    const Json& config = Member(result, "configuration");
    std::vector<Value> values;
    absl::Status status;
    for (const SpaceParam& param : builder.header().params) {
      const std::optional<Value> value = ToValue(Member(config, param.name.c_str()));
      if (!value) {
        status = absl::InvalidArgumentError(absl::StrCat("its configuration has no ", param.name));
        break;
      }
      values.push_back(*value);
    }
    if (status.ok()) {
      absl::StatusOr<RecordedTrial> trial = ReadTrial(result, file_ms);
      status = trial.ok() ? builder.Add(values, *trial) : trial.status();
    }
    if (!status.ok()) {
      return absl::Status(status.code(), absl::StrCat("results[", place, "]: ", status.message()));
    }
    ++place;
  }
  return std::move(builder).Build();
}

std::string WriteT4(const Recording& recording) {
  const Json metadata = {{"timeunit", "milliseconds"},
                         {"device_name", recording.device},
                         {"kernel_name", recording.kernel},
                         {"problem_size", recording.problem}};
  std::string text = absl::StrCat("{\"schema_version\": \"", kT4Version,
                                  "\",\n\"metadata\": ", metadata.dump(), ",\n\"results\": [");
  for (size_t i = 0; i < recording.trials.size(); ++i) {
    const Config config = recording.ConfigOf(i);
    // Written by hand: the order of the params is that of the first configuration.
    const std::string configuration =
        absl::StrJoin(config.entries, ", ", [](std::string* out, const auto& entry) {
          absl::StrAppend(out, Json(entry.first).dump(), ": ", ToJson(entry.second).dump());
        });
    const std::string rest = WriteResult(recording.trials[i]).dump();
    absl::StrAppend(&text, i == 0 ? "\n" : ",\n", "{\"configuration\": {", configuration, "}, ",
                    rest.substr(1));
  }
  return text + "\n]}\n";
}

bool IsT1(const Json& json) {
  return Member(Member(json, "ConfigurationSpace"), "TuningParameters").is_array();
}

absl::StatusOr<Definition> ReadT1(const Json& json) {
  Definition definition;
  const Json& kernel = Member(json, "KernelSpecification");
  definition.kernel = TextOr(Member(kernel, "KernelName"), "");
  definition.problem = ProblemText(Member(kernel, "ProblemSize"));
  const Json& space = Member(json, "ConfigurationSpace");
  for (const Json& parameter : Member(space, "TuningParameters")) {
    SpaceParam& param = definition.params.emplace_back();
    param.name = TextOr(Member(parameter, "Name"), "");
    const std::string text = TextOr(Member(parameter, "Values"), "");
    absl::StatusOr<std::vector<Value>> values = ParsePythonList(text);
    if (!values.ok()) {
      return absl::InvalidArgumentError(absl::StrCat("ConfigurationSpace.TuningParameters: '",
                                                     param.name, "': ", values.status().message()));
    }
    param.values = *std::move(values);
  }
  for (const Json& condition : Member(space, "Conditions")) {
    definition.constraints.push_back(TextOr(Member(condition, "Expression"), ""));
  }
  return definition;
}

absl::Status Apply(const Definition& definition, Recording& header) {
  std::vector<std::string> defined;
  std::vector<std::string> recorded;
  for (const SpaceParam& param : definition.params) defined.push_back(param.name);
  for (const SpaceParam& param : header.params) recorded.push_back(param.name);
  std::vector<std::string> sorted = defined;
  std::sort(sorted.begin(), sorted.end());
  std::sort(recorded.begin(), recorded.end());
  if (sorted != recorded) {
    return absl::InvalidArgumentError(
        absl::StrCat("the definition's params are ", absl::StrJoin(sorted, ", "),
                     "; the recording's are ", absl::StrJoin(recorded, ", ")));
  }
  header.params = definition.params;
  header.constraints = definition.constraints;
  if (header.kernel.empty()) header.kernel = definition.kernel;
  if (header.problem.empty()) header.problem = definition.problem;
  return absl::OkStatus();
}

}  // namespace tune::replay
