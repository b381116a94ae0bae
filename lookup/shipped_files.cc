// SPDX-License-Identifier: Apache-2.0
#include "lookup/shipped_files.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/gzip.h"
#include "base/status_macros.h"

namespace tune::lookup {
namespace {

constexpr size_t kTextBytesMax = size_t{64} << 20;

absl::Status In(const std::string& path, const absl::Status& status) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", status.message()));
}

}  // namespace

absl::StatusOr<std::string> ShippedFile::Text() const {
  absl::StatusOr<std::string> text = Gunzip(bytes, kTextBytesMax);
  return text.ok() ? text : In(path, text.status());
}

absl::StatusOr<std::string> ShippedFile::TextWithoutGrids() const {
  constexpr absl::string_view kGrids = ",\n\"grids\":";
  absl::StatusOr<std::string> text = GunzipUntil(bytes, kGrids, kTextBytesMax);
  if (!text.ok()) return In(path, text.status());
  return absl::EndsWith(*text, "}\n") ? text : absl::StrCat(*text, "}\n");
}

absl::StatusOr<ShippedFile> ReadShippedFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return In(path, absl::NotFoundError("it cannot be read"));
  return ShippedFile{path,
                     {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()}};
}

absl::StatusOr<std::vector<ShippedFile>> ReadShippedFiles(const std::string& folder,
                                                          absl::string_view ending) {
  std::vector<std::string> paths;
  std::error_code error;
  for (std::filesystem::directory_iterator file(folder, error), end; !error && file != end;
       file.increment(error)) {
    if (absl::EndsWith(file->path().native(), ending)) paths.push_back(file->path());
  }
  std::sort(paths.begin(), paths.end());
  std::vector<ShippedFile> files;
  for (const std::string& path : paths) {
    ASSIGN_OR_RETURN(ShippedFile file, ReadShippedFile(path));
    files.push_back(std::move(file));
  }
  return files;
}

}  // namespace tune::lookup
