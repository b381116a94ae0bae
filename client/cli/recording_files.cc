// SPDX-License-Identifier: Apache-2.0
#include "client/cli/recording_files.h"

#include <filesystem>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "client/cli/user_file.h"

namespace tune::client {
namespace {

namespace fs = std::filesystem;

constexpr size_t kFileBytesMax = size_t{512} << 20;

bool IsFile(const std::string& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

absl::Status AddFile(const std::string& path, v1::RecordingSource& source) {
  v1::RecordingFile& file = *source.add_files();
  file.set_name(fs::path(path).filename().string());
  ASSIGN_OR_RETURN(*file.mutable_content(), ReadFile(path, kFileBytesMax));
  return absl::OkStatus();
}

}  // namespace

std::string RecordingStem(const std::string& path) {
  absl::string_view stem = path;
  absl::ConsumeSuffix(&stem, ".gz");
  if (!absl::ConsumeSuffix(&stem, ".json")) absl::ConsumeSuffix(&stem, ".csv");
  return std::string(stem);
}

absl::StatusOr<v1::RecordingSource> ReadRecordingFiles(const std::string& path,
                                                       const std::string& definition_path) {
  const std::string stem = RecordingStem(path);
  const bool is_csv = absl::EndsWith(path, ".csv") || absl::EndsWith(path, ".csv.gz");
  std::string described = path;
  if (is_csv) described = IsFile(stem + ".json") ? stem + ".json" : stem + ".json.gz";
  v1::RecordingSource source;
  RETURN_IF_ERROR(AddFile(described, source));
  for (const char* suffix : {".csv.gz", ".csv"}) {
    if (!IsFile(stem + suffix)) continue;
    RETURN_IF_ERROR(AddFile(stem + suffix, source));
    break;
  }
  if (!definition_path.empty()) {
    RETURN_IF_ERROR(AddFile(definition_path, source));
  }
  return source;
}

absl::Status WriteFiles(const std::string& folder, const std::vector<v1::RecordingFile>& files,
                        Overwrite overwrite) {
  const fs::path into = folder.empty() ? fs::path(".") : fs::path(folder);
  for (const v1::RecordingFile& file : files) {
    if (overwrite == Overwrite::kAllow || !IsFile((into / file.name()).string())) continue;
    return absl::AlreadyExistsError(absl::StrCat("'", (into / file.name()).string(),
                                                 "' is there already; --force writes over it"));
  }
  for (const v1::RecordingFile& file : files) {
    const std::string path = (into / file.name()).string();
    if (const absl::Status written = WriteFile(path, file.content()); !written.ok()) {
      return absl::FailedPreconditionError(written.message());
    }
  }
  return absl::OkStatus();
}

}  // namespace tune::client
