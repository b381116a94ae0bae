// SPDX-License-Identifier: Apache-2.0
// The neutral form: a JSON file that describes the space, a CSV file with its rows.
#include <cmath>
#include <functional>
#include <map>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "tuner/device/replay/format_readers.h"
#include "base/gzip.h"
#include "tuner/expression/expression.h"

namespace tune::replay {
namespace {

// Splits one line; a cell may be quoted, with quotes in it doubled.
std::vector<std::string> SplitCells(absl::string_view line) {
  std::vector<std::string> cells(1);
  bool quoted = false;
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '"') {
      if (quoted && i + 1 < line.size() && line[i + 1] == '"') {
        cells.back() += '"';
        ++i;
      } else {
        quoted = !quoted;
      }
    } else if (line[i] == ',' && !quoted) {
      cells.emplace_back();
    } else if (line[i] != '\r') {
      cells.back() += line[i];
    }
  }
  return cells;
}

std::string Cell(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

absl::StatusOr<Outcome> ParseOutcome(const std::string& text) {
  for (int i = 1; i <= static_cast<int>(Outcome::kAboveRoof); ++i) {
    if (text == ToText(static_cast<Outcome>(i))) return static_cast<Outcome>(i);
  }
  return absl::InvalidArgumentError(absl::StrCat("unknown outcome '", text, "'"));
}

class RowReader {
 public:
  static absl::StatusOr<RowReader> Create(const Recording& header,
                                          const std::vector<std::string>& columns) {
    RowReader reader;
    std::map<std::string, size_t> places;
    for (size_t i = 0; i < columns.size(); ++i) places.emplace(columns[i], i);
    for (const SpaceParam& param : header.params) {
      const auto place = places.find(param.name);
      if (place == places.end()) {
        return absl::InvalidArgumentError(absl::StrCat("no column '", param.name, "'"));
      }
      reader.params_.push_back(place->second);
    }
    if (places.count("time_ms") == 0) return absl::InvalidArgumentError("no column 'time_ms'");
    reader.places_ = std::move(places);
    reader.width_ = columns.size();
    return reader;
  }

  absl::Status Read(const std::vector<std::string>& cells, RecordingBuilder& builder) const {
    if (cells.size() != width_) {
      return absl::InvalidArgumentError(
          absl::StrCat(cells.size(), " cells for ", width_, " columns"));
    }
    std::vector<Value> values;
    for (const size_t place : params_) values.push_back(ValueFromText(cells[place]));
    RecordedTrial trial;
    ASSIGN_OR_RETURN(const double time_ms, Number(cells, "time_ms"));
    ASSIGN_OR_RETURN(const double std_ms, Number(cells, "std_ms"));
    ASSIGN_OR_RETURN(const double eval_ms, Number(cells, "eval_ms"));
    ASSIGN_OR_RETURN(const double registers, Number(cells, "registers"));
    ASSIGN_OR_RETURN(const double spill_bytes, Number(cells, "spill_bytes"));
    ASSIGN_OR_RETURN(const double shared_bytes, Number(cells, "shared_bytes"));
    trial.evaluate_seconds = std::isfinite(eval_ms) ? eval_ms / 1e3 : 0;
    trial.registers = static_cast<int64_t>(registers);
    trial.spill_bytes = static_cast<int64_t>(spill_bytes);
    trial.shared_bytes = static_cast<int64_t>(shared_bytes);
    if (IsLatencyMs(time_ms)) {
      trial.latency_ns = time_ms * kNsPerMs;
      trial.latency_ns_std = std::isfinite(std_ms) ? std_ms * kNsPerMs : 0;
    } else {
      // The original form does not say which way it failed.
      trial.outcome = Outcome::kLaunchFailed;
      const auto place = places_.find("outcome");
      if (place != places_.end()) {
        ASSIGN_OR_RETURN(trial.outcome, ParseOutcome(cells[place->second]));
      }
      if (trial.outcome == Outcome::kOk)
        return absl::InvalidArgumentError("ok, but without a time");
    }
    return builder.Add(values, trial);
  }

 private:
  // 0 if the column or the cell is empty.
  absl::StatusOr<double> Number(const std::vector<std::string>& cells, const char* column) const {
    const auto place = places_.find(column);
    if (place == places_.end() || cells[place->second].empty()) return 0.0;
    double number = 0;
    if (!absl::SimpleAtod(cells[place->second], &number) || number < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(column, " is no number: '", cells[place->second], "'"));
    }
    return number;
  }

  size_t width_ = 0;
  std::vector<size_t> params_;
  std::map<std::string, size_t> places_;
};

std::string SourceText(const Json& source) {
  if (source.is_string()) return source.get<std::string>();
  std::vector<std::string> parts;
  if (source.is_object()) {
    for (const auto& [name, value] : source.items()) {
      if (value.is_string()) parts.push_back(absl::StrCat(name, " ", value.get<std::string>()));
    }
  }
  return absl::StrJoin(parts, ", ");
}

absl::StatusOr<Recording> ReadHeader(const Json& json) {
  Recording header;
  header.name = TextOr(Member(json, "name"), "");
  header.kernel = TextOr(Member(json, "kernel"), header.name);
  header.device = TextOr(Member(json, "gpu"), "");
  header.problem = ProblemText(Member(json, "problem_size"));
  header.source = SourceText(Member(json, "source"));
  const Json& sampled = Member(json, "sampled");
  header.sampled = sampled.is_boolean() && sampled.get<bool>();
  for (const Json& param : Member(json, "parameters")) {
    SpaceParam& added = header.params.emplace_back();
    added.name = TextOr(Member(param, "name"), "");
    for (const Json& json_value : Member(param, "values")) {
      const std::optional<Value> value = ToValue(json_value);
      if (!value) {
        return absl::InvalidArgumentError(
            absl::StrCat("param '", added.name, "' has a value that is no number or text"));
      }
      added.values.push_back(*value);
    }
  }
  for (const Json& constraint : Member(json, "constraints")) {
    const Json& text = constraint.is_string() ? constraint : Member(constraint, "expr");
    header.constraints.push_back(TextOr(text, ""));
  }
  return header;
}

Json Describe(const Recording& recording, const std::string& data) {
  Json json;
  json["name"] = recording.name;
  json["kernel"] = recording.kernel;
  json["gpu"] = recording.device;
  json["problem_size"] = recording.problem;
  json["source"] = recording.source;
  json["sampled"] = recording.sampled;
  json["data"] = data;
  json["parameters"] = Json::array();
  for (const SpaceParam& param : recording.params) {
    Json values = Json::array();
    for (const Value& value : param.values) values.push_back(ToJson(value));
    json["parameters"].push_back({{"name", param.name}, {"values", std::move(values)}});
  }
  json["constraints"] = Json::array();
  for (const std::string& constraint : recording.constraints) {
    Json entry = {{"expr", constraint}};
    if (absl::StatusOr<Expression> parsed = Expression::Parse(constraint); parsed.ok()) {
      entry["params"] = parsed->names();
    }
    json["constraints"].push_back(std::move(entry));
  }
  json["rows"] = recording.trials.size();
  json["measured"] = recording.CountOk();
  json["failed"] = recording.trials.size() - recording.CountOk();
  if (const std::optional<size_t> best = recording.Best()) {
    Json config = Json::object();
    for (const auto& [name, value] : recording.ConfigOf(*best).entries) {
      config[name] = ToJson(value);
    }
    json["optimum"] = {{"time_ms", recording.trials[*best].latency_ns / kNsPerMs},
                       {"config", std::move(config)}};
  }
  return json;
}

std::string NumberCell(double number) { return number == 0 ? "" : Json(number).dump(); }

std::string Rows(const Recording& recording) {
  std::string csv;
  for (const SpaceParam& param : recording.params) absl::StrAppend(&csv, Cell(param.name), ",");
  absl::StrAppend(&csv, "time_ms,std_ms,eval_ms,outcome,registers,spill_bytes,shared_bytes\n");
  for (size_t i = 0; i < recording.trials.size(); ++i) {
    const absl::Span<const uint16_t> row = recording.DigitsOf(i);
    for (size_t j = 0; j < row.size(); ++j) {
      absl::StrAppend(&csv, Cell(ToText(recording.params[j].values[row[j]])), ",");
    }
    const RecordedTrial& trial = recording.trials[i];
    const bool ok = trial.outcome == Outcome::kOk;
    absl::StrAppend(&csv, ok ? NumberCell(trial.latency_ns / kNsPerMs) : "inf", ",",
                    NumberCell(trial.latency_ns_std / kNsPerMs), ",",
                    NumberCell(trial.evaluate_seconds * 1e3), ",", ToText(trial.outcome), ",");
    if (trial.registers == 0) {
      absl::StrAppend(&csv, ",,\n");
    } else {
      absl::StrAppend(&csv, trial.registers, ",", trial.spill_bytes, ",", trial.shared_bytes, "\n");
    }
  }
  return csv;
}

}  // namespace

bool IsNeutral(const Json& json) { return Member(json, "parameters").is_array(); }

absl::StatusOr<Recording> ReadNeutral(const Json& json, absl::string_view csv) {
  ASSIGN_OR_RETURN(Recording header, ReadHeader(json));
  RecordingBuilder builder(std::move(header));
  std::optional<RowReader> reader;
  size_t line_number = 0;
  for (const absl::string_view line : absl::StrSplit(csv, '\n')) {
    ++line_number;
    if (line.empty() || line == "\r") continue;
    const std::vector<std::string> cells = SplitCells(line);
    absl::Status status;
    if (!reader) {
      absl::StatusOr<RowReader> created = RowReader::Create(builder.header(), cells);
      status = created.status();
      if (created.ok()) reader = *std::move(created);
    } else {
      status = reader->Read(cells, builder);
    }
    if (!status.ok()) {
      return absl::Status(status.code(),
                          absl::StrCat("line ", line_number, ": ", status.message()));
    }
  }
  return std::move(builder).Build();
}

std::vector<RecordingFile> WriteNeutral(const Recording& recording, const std::string& stem) {
  const std::string data = stem + ".csv.gz";
  return {{stem + ".json", Describe(recording, data).dump(1) + "\n"},
          {data, Gzip(Rows(recording))}};
}

}  // namespace tune::replay
