// SPDX-License-Identifier: Apache-2.0
#include "client/export/export_format.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/near_name.h"
#include "base/spec_dtype.h"

namespace tune::client {
namespace {

using Json = nlohmann::ordered_json;

const Json& Member(const Json& object, const char* name) {
  static const Json kNull;
  if (!object.is_object()) return kNull;
  const auto found = object.find(name);
  return found == object.end() ? kNull : *found;
}

std::string TextOf(const Json& object, const char* name) {
  const Json& member = Member(object, name);
  return member.is_string() ? member.get<std::string>() : "";
}

double NumberOf(const Json& object, const char* name) {
  const Json& member = Member(object, name);
  return member.is_number() ? member.get<double>() : 0;
}

// Nullopt if it lacks a field that every record has.
std::optional<ExportRecord> ToRecord(const Json& json) {
  const Json& hard = Member(json, "hard");
  ExportRecord record{.dtype = TextOf(hard, "dtype"),
                      .config = Member(json, "config"),
                      .confidence = TextOf(json, "confidence"),
                      .compiler = TextOf(Member(json, "soft"), "compiler"),
                      .latency_ns = NumberOf(Member(json, "latency_ns"), "median"),
                      .default_latency_ns = NumberOf(json, "default_latency_ns")};
  const Json& dims = Member(hard, "dims");
  if (!dims.is_object() || !record.config.is_object()) return std::nullopt;
  for (const auto& [name, value] : dims.items()) {
    if (!value.is_number_integer()) return std::nullopt;
    record.dims.emplace_back(name, value.get<int64_t>());
  }
  for (const auto& [name, value] : record.config.items()) {
    if (!value.is_primitive() || value.is_null()) return std::nullopt;
  }
  return record;
}

// The devices that `asked` may mean: the device of that name, else those whose names begin with it.
std::vector<std::string> Named(const std::string& asked, const std::vector<std::string>& devices) {
  std::vector<std::string> named;
  for (const std::string& device : devices) {
    if (device == asked) return {device};
    if (absl::StartsWith(device, asked)) named.push_back(device);
  }
  return named;
}

// The hash of the kernel's source of today, as the snapshot tells it; empty if it does not.
std::string CurrentHash(const Json& snapshot, const std::string& kernel) {
  const Json& kernels = Member(snapshot, "kernels");
  if (!kernels.is_array()) return "";
  for (const Json& one : kernels) {
    if (TextOf(one, "name") == kernel) return TextOf(one, "hash");
  }
  return "";
}

// A record with what it is chosen by.
struct Candidate {
  std::string kernel_hash;
  double published_unix_ms = 0;
  ExportRecord record;
};

bool IsChosen(const ExportRecord& record, const ExportChoice& choice) {
  if (!choice.dtype.empty() && record.dtype != SpecDType(choice.dtype)) return false;
  return std::all_of(choice.dims.begin(), choice.dims.end(), [&](const auto& dim) {
    return std::find(record.dims.begin(), record.dims.end(), dim) != record.dims.end();
  });
}

// An error for a kernel that has no record: the near name of a kernel that the snapshot knows, or
// the kernels that have records.
absl::Status NoRecordOf(const std::string& kernel, const Json& snapshot) {
  std::vector<std::string> names;
  for (const Json& one : Member(snapshot, "kernels")) names.push_back(TextOf(one, "name"));
  std::set<std::string> known;
  for (const Json& json : Member(snapshot, "records")) known.insert(TextOf(json, "kernel"));
  known.erase(kernel);  // with records of a warm cache alone
  names.insert(names.end(), known.begin(), known.end());
  names.erase(std::remove(names.begin(), names.end(), kernel), names.end());
  const std::string near = DidYouMean(kernel, names);
  return absl::NotFoundError(absl::StrCat(
      "the snapshot has no record of ", kernel,
      !near.empty()   ? near
      : known.empty() ? "; it has none at all"
                      : absl::StrCat("; it has some of ", absl::StrJoin(known, ", "))));
}

// An error for a choice that leaves none of the kernel's problems, with those that there are.
absl::Status NoneIsChosen(const ExportChoice& choice, const std::set<std::string>& problems) {
  constexpr size_t kShown = 5;
  std::string asked = choice.dtype.empty() ? "" : absl::StrCat(" --dtype ", choice.dtype);
  for (const auto& [dim, size] : choice.dims) absl::StrAppend(&asked, " --dim ", dim, "=", size);
  const std::vector<std::string> all(problems.begin(), problems.end());
  const std::vector<std::string> shown(all.begin(), all.begin() + std::min(all.size(), kShown));
  return absl::NotFoundError(
      absl::StrCat("the snapshot has records of ", choice.kernel, ", but none is left by", asked,
                   "; there is: ", absl::StrJoin(shown, ", "),
                   all.size() > kShown ? absl::StrCat(" and ", all.size() - kShown, " more") : ""));
}

// Keeps the records of one source: configs of two sources may not even have the same params.
void KeepOneSource(const std::string& current, std::vector<Candidate>& records,
                   std::vector<std::string>& notes) {
  const auto is_current = [&](const Candidate& one) { return one.kernel_hash == current; };
  const bool has_current = std::any_of(records.begin(), records.end(), is_current);
  const auto newest =
      std::max_element(records.begin(), records.end(), [](const Candidate& a, const Candidate& b) {
        return a.published_unix_ms < b.published_unix_ms;
      });
  const std::string kept = has_current || newest == records.end() ? current : newest->kernel_hash;
  const size_t left_out =
      std::erase_if(records, [&](const Candidate& one) { return one.kernel_hash != kept; });
  if (left_out > 0) {
    notes.push_back(absl::StrCat(left_out, left_out == 1 ? " record" : " records",
                                 " of other sources of the kernel left out"));
  }
  if (!has_current && !current.empty() && !records.empty()) {
    notes.push_back(
        "no record is of the kernel's source of today: these are of the source that was "
        "tuned last; tune it again to be sure");
  }
}

}  // namespace

const std::vector<ExportFormat>& ExportFormats() {
  static const auto* const kFormats = new std::vector<ExportFormat>{
      {"triton", "a Python file with a triton.Config for each problem", WriteTritonConfigs},
      {"cpp", "a C++ header with a table of the configs", WriteCppHeader},
      {"moe", "the tables of vLLM's and SGLang's fused MoE kernels, in a folder", WriteMoeTables},
  };
  return *kFormats;
}

absl::StatusOr<ExportSource> ReadExportSource(const std::string& text, const std::string& digest,
                                              const ExportChoice& choice) {
  const std::string& kernel = choice.kernel;
  const std::string& device = choice.device;
  const Json snapshot = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  const Json& records = Member(snapshot, "records");
  if (!records.is_array()) return absl::InvalidArgumentError("this is no snapshot");
  std::map<std::string, std::vector<Candidate>> by_device;
  std::set<std::string> problems;  // of the kernel, chosen or not
  for (const Json& json : records) {
    const Json& hard = Member(json, "hard");
    if (TextOf(json, "kernel") != kernel || TextOf(hard, "cache_mode") == "warm") continue;
    std::optional<ExportRecord> record = ToRecord(json);
    if (!record) continue;
    problems.insert(absl::StrCat(absl::StrJoin(record->dims, " ", absl::PairFormatter("=")), " ",
                                 record->dtype));
    if (!IsChosen(*record, choice)) continue;
    by_device[TextOf(hard, "device")].push_back(
        {.kernel_hash = TextOf(hard, "kernel_hash"),
         .published_unix_ms = NumberOf(json, "published_unix_ms"),
         .record = *std::move(record)});
  }
  if (problems.empty()) return NoRecordOf(kernel, snapshot);
  if (by_device.empty()) return NoneIsChosen(choice, problems);
  std::vector<std::string> devices;
  for (const auto& [name, unused] : by_device) devices.push_back(name);
  const std::vector<std::string> chosen = Named(device, devices);
  if (chosen.size() > 1) {
    return absl::InvalidArgumentError(absl::StrCat("the snapshot has records of ", kernel, " on ",
                                                   absl::StrJoin(chosen, ", "),
                                                   ": choose one with --device"));
  }
  if (chosen.empty()) {
    return absl::NotFoundError(absl::StrCat("the snapshot has no record of ", kernel, " on ",
                                            device, ", only on ", absl::StrJoin(devices, ", ")));
  }
  ExportSource source{.kernel = kernel, .device = chosen.front(), .digest = digest};
  std::vector<Candidate>& kept = by_device[chosen.front()];
  KeepOneSource(CurrentHash(snapshot, kernel), kept, source.notes);
  for (Candidate& one : kept) source.records.push_back(std::move(one.record));
  std::sort(source.records.begin(), source.records.end(), [](const auto& a, const auto& b) {
    return std::tie(a.dtype, a.dims) < std::tie(b.dtype, b.dims);
  });
  return source;
}

}  // namespace tune::client
