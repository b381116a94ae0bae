// SPDX-License-Identifier: Apache-2.0
#include "tuner/device/replay/formats.h"

#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "tuner/device/replay/format_readers.h"
#include "base/gzip.h"

namespace tune::replay {
namespace {

absl::Status In(const std::string& name, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat(name, ": ", status.message()));
}

// The members of the first "configuration" in the text of a T4 file, in their order there.
std::vector<std::string> FirstConfigurationKeys(absl::string_view text) {
  const size_t name = text.find("\"configuration\"");
  const size_t open = name == absl::string_view::npos ? name : text.find('{', name);
  if (open == absl::string_view::npos) return {};
  const size_t close = text.find('}', open);
  const auto object = nlohmann::ordered_json::parse(text.substr(open, close - open + 1), nullptr,
                                                    /*allow_exceptions=*/false);
  std::vector<std::string> keys;
  if (!object.is_object()) return keys;
  for (const auto& [key, value] : object.items()) keys.push_back(key);
  return keys;
}

// The files of a recording, distinguished by their content.
struct Parts {
  std::string name;  // of the file that holds the recording, or describes it
  std::string text;
  Json json;
  std::optional<std::string> csv;
  std::optional<Definition> definition;
};

absl::Status AddJson(const std::string& name, std::string text, Parts& parts) {
  absl::StatusOr<Json> json = ParseUnclosedCache(text);
  if (!json.ok()) return In(name, json.status());
  if (IsT1(*json)) {
    absl::StatusOr<Definition> definition = ReadT1(*json);
    if (!definition.ok()) return In(name, definition.status());
    parts.definition = *std::move(definition);
    return absl::OkStatus();
  }
  if (!IsNeutral(*json) && !IsKernelTunerCache(*json) && !IsT4(*json)) {
    return absl::InvalidArgumentError(absl::StrCat(
        name,
        ": no recording: neither 'parameters' (the neutral form), 'cache' (Kernel Tuner) nor "
        "'results' (T4) is in it"));
  }
  if (!parts.name.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(parts.name, " and ", name, " are two recordings; read one at a time"));
  }
  parts.name = name;
  parts.text = std::move(text);
  parts.json = *std::move(json);
  return absl::OkStatus();
}

absl::StatusOr<Parts> Sort(const std::vector<RecordingFile>& files) {
  Parts parts;
  for (const RecordingFile& file : files) {
    std::string text = file.content;
    if (IsGzip(text)) {
      absl::StatusOr<std::string> unpacked = Gunzip(text, kMaxRecordingBytes);
      if (!unpacked.ok()) return In(file.name, unpacked.status());
      text = *std::move(unpacked);
    }
    if (absl::EndsWith(file.name, ".csv") || absl::EndsWith(file.name, ".csv.gz")) {
      parts.csv = std::move(text);
    } else {
      RETURN_IF_ERROR(AddJson(file.name, std::move(text), parts));
    }
  }
  if (parts.name.empty()) {
    return absl::InvalidArgumentError(
        "no recording among the files: name the .json file of the neutral form, a Kernel Tuner "
        "cache or T4 results");
  }
  return parts;
}

}  // namespace

std::string ToText(RecordingFormat format) {
  switch (format) {
    case RecordingFormat::kNeutral:
      return "neutral";
    case RecordingFormat::kKernelTuner:
      return "kernel-tuner";
    case RecordingFormat::kT4:
      return "t4";
  }
  return "";
}

absl::StatusOr<RecordingFormat> ParseFormat(absl::string_view text) {
  for (const RecordingFormat format :
       {RecordingFormat::kNeutral, RecordingFormat::kKernelTuner, RecordingFormat::kT4}) {
    if (text == ToText(format)) return format;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("unknown format '", text, "'; there are neutral, kernel-tuner and t4"));
}

absl::StatusOr<Recording> ReadRecording(const std::vector<RecordingFile>& files) {
  ASSIGN_OR_RETURN(Parts parts, Sort(files));
  const Definition* definition = parts.definition ? &*parts.definition : nullptr;
  absl::StatusOr<Recording> recording;
  if (IsNeutral(parts.json)) {
    if (!parts.csv) {
      return absl::InvalidArgumentError(absl::StrCat(
          parts.name, " describes a recording whose rows are in another file, ",
          TextOr(Member(parts.json, "data"), "a .csv or .csv.gz"), ": it must stand beside it"));
    }
    recording = ReadNeutral(parts.json, *parts.csv);
  } else if (IsKernelTunerCache(parts.json)) {
    recording = ReadKernelTunerCache(parts.json, definition);
  } else {
    recording = ReadT4(parts.json, FirstConfigurationKeys(parts.text), definition);
  }
  if (!recording.ok()) return In(parts.name, recording.status());
  if (recording->name.empty()) recording->name = parts.name.substr(0, parts.name.find('.'));
  return recording;
}

std::vector<RecordingFile> WriteRecording(const Recording& recording, RecordingFormat format,
                                          const std::string& stem) {
  switch (format) {
    case RecordingFormat::kNeutral:
      return WriteNeutral(recording, stem);
    case RecordingFormat::kKernelTuner:
      return {{stem + ".json", WriteKernelTunerCache(recording)}};
    case RecordingFormat::kT4:
      return {{stem + ".json", WriteT4(recording)}};
  }
  return {};
}

}  // namespace tune::replay
