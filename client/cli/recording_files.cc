// SPDX-License-Identifier: Apache-2.0
#include "client/cli/recording_files.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"

namespace tune::client {
namespace {

namespace fs = std::filesystem;

constexpr uintmax_t kFileBytesMax = uintmax_t{512} << 20;

bool IsFile(const std::string& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

absl::Status AddFile(const std::string& path, v1::RecordingSource& source) {
  std::error_code error;
  const uintmax_t bytes = fs::file_size(path, error);
  if (error) {
    return absl::InvalidArgumentError(absl::StrCat("cannot read '", path, "': ", error.message()));
  }
  if (bytes > kFileBytesMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", path, "' has more than ", kFileBytesMax >> 20, " MiB"));
  }
  std::ifstream in(path, std::ios::binary);
  v1::RecordingFile& file = *source.add_files();
  file.set_name(fs::path(path).filename().string());
  file.set_content(std::string(std::istreambuf_iterator<char>(in), {}));
  if (in.bad() || !in.is_open()) {
    return absl::InvalidArgumentError(absl::StrCat("cannot read '", path, "'"));
  }
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
    const std::string part = path + ".part";
    std::ofstream out(part, std::ios::binary | std::ios::trunc);
    out << file.content();
    out.close();
    std::error_code error;
    if (out) fs::rename(part, path, error);
    if (!out || error) {
      fs::remove(part, error);
      return absl::FailedPreconditionError(absl::StrCat("cannot write '", path, "'"));
    }
  }
  return absl::OkStatus();
}

}  // namespace tune::client
