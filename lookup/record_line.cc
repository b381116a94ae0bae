// SPDX-License-Identifier: Apache-2.0
// A record's line, read as server/snapshots/snapshot_text.cc writes it: one pass, no tree of JSON.
// A job's start reads thousands. What is laid out otherwise, or has texts that are escaped or not
// ASCII, is read as any JSON is.
#include <algorithm>
#include <charconv>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/strip.h"
#include "lookup/snapshot_json.h"

namespace tune::lookup {
namespace {

// Reads from the front of a line. Each part is there as it is asked for, or nothing is read.
class Cursor {
 public:
  explicit Cursor(absl::string_view line) : rest_(line) {}

  bool Skip(absl::string_view literal) { return absl::ConsumePrefix(&rest_, literal); }
  bool at_end() const { return rest_.empty(); }

  bool Text(absl::string_view& text) {
    if (!Skip("\"")) return false;
    const size_t size = rest_.find('"');
    if (size == rest_.npos) return false;
    text = rest_.substr(0, size);
    rest_.remove_prefix(size + 1);
    return std::all_of(text.begin(), text.end(), IsPlain);
  }
  bool Text(std::string& text) {
    absl::string_view found;
    if (!Text(found)) return false;
    text.assign(found.data(), found.size());
    return true;
  }

  // The text of a number, by JSON's grammar.
  bool Numeral(absl::string_view& numeral, bool& is_integer) {
    const char* const begin = rest_.data();
    Skip("-");
    if (!Skip("0") && !Digits()) return false;
    is_integer = true;
    if (Skip(".")) {
      is_integer = false;
      if (!Digits()) return false;
    }
    if (Skip("e") || Skip("E")) {
      is_integer = false;
      if (!Skip("+")) Skip("-");
      if (!Digits()) return false;
    }
    numeral = absl::string_view(begin, static_cast<size_t>(rest_.data() - begin));
    return true;
  }

  bool Integer(int64_t& value) {
    absl::string_view numeral;
    bool is_integer = false;
    return Numeral(numeral, is_integer) && is_integer && Convert(numeral, value);
  }

  bool Number(double& value) {
    absl::string_view numeral;
    bool is_integer = false;
    return Numeral(numeral, is_integer) && Convert(numeral, value);
  }

  bool Value(tune::Value& value) {
    if (absl::StartsWith(rest_, "\"")) return Text(value.emplace<std::string>());
    if (Skip("true")) return value = true, true;
    if (Skip("false")) return value = false, true;
    absl::string_view numeral;
    bool is_integer = false;
    if (!Numeral(numeral, is_integer)) return false;
    return is_integer ? Convert(numeral, value.emplace<int64_t>())
                      : Convert(numeral, value.emplace<double>());
  }

  // The members of an object, each by `read(name)`.
  template <typename Read>
  bool Members(Read read) {
    if (!Skip("{")) return false;
    if (Skip("}")) return true;
    std::string name;
    do {
      if (!Text(name) || !Skip(":") || !read(name)) return false;
    } while (Skip(","));
    return Skip("}");
  }

 private:
  static bool IsPlain(char c) { return c >= ' ' && c < '\x7f' && c != '\\'; }

  bool Digits() {
    size_t count = 0;
    while (count < rest_.size() && absl::ascii_isdigit(rest_[count])) ++count;
    rest_.remove_prefix(count);
    return count > 0;
  }

  template <typename Number>
  static bool Convert(absl::string_view numeral, Number& value) {
    const char* const end = numeral.data() + numeral.size();
    const auto [stopped, error] = std::from_chars(numeral.data(), end, value);
    return error == std::errc() && stopped == end;
  }

  absl::string_view rest_;
};

// A name that is there twice is for others to judge.
template <typename Entries>
bool IsNew(const Entries& entries, const std::string& name) {
  for (const auto& entry : entries) {
    if (entry.first == name) return false;
  }
  return true;
}

bool ReadKey(Cursor& line, TrialKey& key, std::string& dtype) {
  absl::string_view cache_mode;
  auto& dims = key.problem.dims;
  const bool read = line.Skip("\"hard\":{\"kernel_hash\":") && line.Text(key.kernel_hash) &&
                    line.Skip(",\"target\":") && line.Text(key.target) &&
                    line.Skip(",\"device\":") && line.Text(key.device_name) &&
                    line.Skip(",\"dtype\":") && line.Text(dtype) && line.Skip(",\"dims\":") &&
                    line.Members([&](const std::string& name) {
                      return IsNew(dims, name) && line.Integer(dims.emplace_back(name, 0).second);
                    }) &&
                    line.Skip(",\"cache_mode\":") && line.Text(cache_mode) &&
                    (!line.Skip(",\"include_digest\":") || line.Text(key.include_digest)) &&
                    line.Skip("},\"soft\":{\"driver\":") && line.Text(key.driver) &&
                    line.Skip(",\"compiler\":") && line.Text(key.compiler) && line.Skip("},");
  key.cache_mode = cache_mode == ToText(CacheMode::kWarm) ? CacheMode::kWarm : CacheMode::kCold;
  return read;
}

bool ReadLatency(Cursor& line, Measurement& measured) {
  return line.Skip("\"latency_ns\":{\"median\":") && line.Number(measured.latency_ns_median) &&
         line.Skip(",\"low\":") && line.Number(measured.latency_ns_low) &&
         line.Skip(",\"high\":") && line.Number(measured.latency_ns_high) && line.Skip("},") &&
         IsInterval(measured);
}

// False: it is laid out otherwise.
bool ReadAsWritten(Cursor line, SnapshotRecord& record) {
  Record& row = record.row;
  auto& config = row.trial.config.entries;
  std::string dtype;
  const bool read =
      line.Skip("{\"id\":") && line.Integer(row.id) && line.Skip(",\"kernel\":") &&
      line.Text(row.kernel_name) && line.Skip(",") && ReadKey(line, row.key, dtype) &&
      line.Skip("\"config\":") && line.Members([&](const std::string& name) {
        return IsNew(config, name) && line.Value(config.emplace_back(name, false).second);
      }) &&
      line.Skip(",\"confidence\":") && line.Text(record.evidence.confidence) && line.Skip(",") &&
      ReadLatency(line, row.trial.measurement) && line.Skip("\"default_latency_ns\":") &&
      line.Number(row.default_latency_ns) && line.Skip(",\"published_unix_ms\":") &&
      line.Integer(row.published_unix_ms) && line.Skip(",\"binary_sha256\":") &&
      line.Text(row.trial.resources.binary_sha256) &&
      (!line.Skip(",\"artifact\":") || line.Text(row.artifact)) && line.Skip(",\"evidence\":") &&
      line.Text(record.evidence.digest) &&
      (line.Skip(kMeasuredMember) || (line.Skip("}") && line.at_end()));
  if (read) SetDType(dtype, record);
  return read;
}

}  // namespace

absl::StatusOr<SnapshotRecord> ReadRecordLine(absl::string_view line) {
  SnapshotRecord record;
  if (ReadAsWritten(Cursor(line), record)) return record;
  const Json json = Json::parse(line.begin(), line.end(), nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) return absl::DataLossError("a record is no JSON");
  return ReadRecord(json);
}

}  // namespace tune::lookup
