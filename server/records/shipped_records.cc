// SPDX-License-Identifier: Apache-2.0
#include "server/records/shipped_records.h"

#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <set>
#include <system_error>
#include <tuple>
#include <type_traits>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/fields.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "lookup/snapshot_json.h"

namespace tune::server {
namespace {

using lookup::Json;

constexpr char kFolder[] = "share/tunectl/records";

absl::Status NoRecords(absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("these are no records: ", why));
}

// The key by which two records answer for the same problem.
auto WorkloadOf(const lookup::Record& record) {
  const TrialKey& key = record.key;
  return std::tuple(record.kernel_name, key.kernel_hash, key.device_name, key.target,
                    ToText(key.problem), key.cache_mode);
}

absl::StatusOr<Clock> ClockOf(const Json& json) {
  for (const Clock clock : {Clock::kUnknown, Clock::kCupti, Clock::kEvents, Clock::kHost}) {
    if (json == ToText(clock)) return clock;
  }
  return NoRecords("a clock is not known");
}

// The members that are there, into the fields of their names.
template <typename Noun>
absl::Status TakeFields(const Json& json, Noun& noun) {
  absl::Status status;
  ForEachField(noun, [&](const char* name, auto& field) {
    using Type = std::remove_reference_t<decltype(field)>;
    const auto found = json.find(name);
    if (found == json.end()) return;
    if constexpr (std::is_same_v<Type, Clock>) {
      absl::StatusOr<Clock> clock = ClockOf(*found);
      status.Update(clock.status());
      if (clock.ok()) field = *clock;
    } else if constexpr (!std::is_enum_v<Type>) {
      found->get_to(field);
    }
  });
  return status;
}

// Fields of a record that a snapshot leaves out and a daemon reports.
absl::Status TakeMeasured(const Json& json, lookup::Record& record) {
  json.at("seed").get_to(record.seed);
  json.at("tie_count").get_to(record.tie_count);
  for (const Json& tie : json.at("ties")) {
    ASSIGN_OR_RETURN(Config config, lookup::ReadConfig(tie.at(0)));
    record.ties.push_back({std::move(config), tie.at(1).get<double>()});
  }
  RETURN_IF_ERROR(TakeFields(json.at("measurement"), record.trial.measurement));
  RETURN_IF_ERROR(TakeFields(json.at("resources"), record.trial.resources));
  return TakeFields(json.at("telemetry"), record.trial.telemetry);
}

absl::StatusOr<lookup::Record> RecordOfLine(absl::string_view line) {
  absl::StatusOr<lookup::SnapshotRecord> read = lookup::ReadRecordLine(line);
  if (!read.ok()) return NoRecords(read.status().message());
  lookup::Record record = std::move(read->row);
  const bool has_key = read->dtype_is_known && !record.key.kernel_hash.empty() &&
                       !record.key.device_name.empty() && !record.key.target.empty() &&
                       !record.trial.config.entries.empty();
  if (!has_key) return NoRecords(absl::StrCat("one of '", record.kernel_name, "' lacks its key"));
  // No text of JSON has a quote in it that is not escaped: this is the member.
  const size_t place = line.find(lookup::kMeasuredMember);
  if (place == line.npos) return NoRecords("one lacks what was measured");
  const absl::string_view rest = line.substr(place + sizeof(lookup::kMeasuredMember) - 1);
  try {  // the library tells in no other way that a member is missing
    RETURN_IF_ERROR(TakeMeasured(Json::parse(rest.begin(), rest.end() - 1), record));
  } catch (const Json::exception& error) {
    return NoRecords(error.what());
  }
  record.trial.measurement.cache_mode = record.key.cache_mode;
  record.id = 0;
  return record;
}

}  // namespace

std::string ShippedFolder() {
  if (const char* named = std::getenv("TUNE_RECORDS_DIR"); named != nullptr && *named != '\0') {
    return named;
  }
  std::error_code error;
  std::filesystem::path folder = std::filesystem::read_symlink("/proc/self/exe", error);
  while (folder.has_relative_path()) {
    folder = folder.parent_path();
    if (std::filesystem::is_directory(folder / kFolder, error)) return folder / kFolder;
  }
  return "";
}

absl::StatusOr<std::shared_ptr<const ShippedRecords>> ShippedRecords::Open(
    std::vector<lookup::ShippedFile> files) {
  auto shipped = std::make_shared<ShippedRecords>();
  for (lookup::ShippedFile& file : files) {
    auto one = std::make_unique<OfDevice>();
    ASSIGN_OR_RETURN(one->text, file.TextWithoutGrids());
    std::optional<lookup::SnapshotLines> split = lookup::SplitSnapshot(one->text);
    if (!split) return NoRecords(absl::StrCat(file.path, " is not laid out as a snapshot"));
    one->file = std::move(file);
    one->lines = std::move(split->by_kernel);
    for (const auto& [name, lines] : one->lines) {
      if (lines.records.empty()) continue;
      ASSIGN_OR_RETURN(const lookup::Record record, RecordOfLine(lines.records.front()));
      one->device = record.key.device_name;
      shipped->devices_[one->device] = {.target = record.key.target};
      break;
    }
    shipped->files_.push_back(std::move(one));
  }
  return shipped;
}

absl::StatusOr<std::shared_ptr<const ShippedRecords>> ShippedRecords::Load(
    const std::string& folder) {
  ASSIGN_OR_RETURN(std::vector<lookup::ShippedFile> files,
                   lookup::ReadShippedFiles(folder, lookup::kRecordsFile));
  return Open(std::move(files));
}

absl::StatusOr<std::vector<lookup::Record>> ShippedRecords::All() const {
  std::set<std::string> kernels;
  for (const auto& one : files_) {
    for (const auto& [name, lines] : one->lines) kernels.insert(name);
  }
  std::vector<lookup::Record> all;
  for (const std::string& name : kernels) {
    ASSIGN_OR_RETURN(std::vector<lookup::Record> records, OfKernel(name));
    all.insert(all.end(), std::make_move_iterator(records.begin()),
               std::make_move_iterator(records.end()));
  }
  return all;
}

absl::StatusOr<std::vector<lookup::Record>> ShippedRecords::OfKernel(
    const std::string& kernel_name) const {
  std::vector<lookup::Record> records;
  for (const auto& one : files_) {
    const auto kernel = one->lines.find(kernel_name);
    if (kernel == one->lines.end()) continue;
    for (const absl::string_view line : kernel->second.records) {
      ASSIGN_OR_RETURN(lookup::Record record, RecordOfLine(line));
      records.push_back(std::move(record));
    }
  }
  return records;
}

const lookup::LinesByKernel& ShippedRecords::Whole(const OfDevice& one) {
  std::call_once(one.once, [&] {
    absl::StatusOr<std::string> text = one.file.Text();
    if (!text.ok()) return;
    one.whole_text = *std::move(text);
    std::optional<lookup::SnapshotLines> split = lookup::SplitSnapshot(one.whole_text);
    if (split) one.whole = std::move(split->by_kernel);
  });
  return one.whole;
}

std::optional<ShapeGrid> ShippedRecords::GridOf(const GridKey& grid) const {
  const TrialKey& key = grid.record.key;
  Json fixed = Json::object();
  for (const auto& [name, value] : grid.fixed) fixed[name] = value;
  std::string start = Json{
      {"kernel", grid.record.kernel_name},
      {"kernel_hash", key.kernel_hash},
      {"target", key.target},
      {"device", key.device_name},
      {"dtype", ToText(key.problem.dtype)},
      {"fixed", std::move(fixed)},
      {"axes", grid.axes}}.dump();
  start.back() = ',';
  for (const auto& one : files_) {
    if (one->device != key.device_name) continue;
    const auto kernel = Whole(*one).find(grid.record.kernel_name);
    if (kernel == one->whole.end()) continue;
    for (const absl::string_view line : kernel->second.grids) {
      if (!absl::StartsWith(line, start)) continue;
      const Json json = Json::parse(line.begin(), line.end(), nullptr, /*allow_exceptions=*/false);
      absl::StatusOr<lookup::SnapshotGrid> read = lookup::ReadGrid(json);
      if (read.ok()) return std::move(read->grid);
    }
  }
  return std::nullopt;
}

std::string ShippedRecords::Digest() const {
  std::string all;
  for (const auto& one : files_) all += one->file.bytes;
  return Sha256Hex(all);
}

std::vector<lookup::Record> WithShipped(std::vector<lookup::Record> shipped,
                                        std::vector<lookup::Record> own) {
  std::set<decltype(WorkloadOf(std::declval<const lookup::Record&>()))> known;
  for (const lookup::Record& record : own) known.insert(WorkloadOf(record));
  std::vector<lookup::Record> all;
  for (lookup::Record& record : shipped) {
    if (!known.contains(WorkloadOf(record))) all.push_back(std::move(record));
  }
  all.insert(all.end(), std::move_iterator(own.begin()), std::move_iterator(own.end()));
  return all;
}

}  // namespace tune::server
