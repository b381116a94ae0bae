// SPDX-License-Identifier: Apache-2.0
#include "client/commands/user_file.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace tune::client {
namespace {

constexpr size_t kFileBytesMax = size_t{64} << 20;

}  // namespace

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    return absl::InvalidArgumentError(absl::StrCat("'", path, "' is a folder, not a file"));
  }
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  std::string text(std::istreambuf_iterator<char>(in), {});
  if (!in.is_open() || in.bad()) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot read '", path, "': ", std::strerror(errno)));
  }
  if (text.size() > kFileBytesMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", path, "' has ", text.size(), " bytes; at most 64 MiB can be imported"));
  }
  return text;
}

absl::Status WriteFile(const std::string& path, const std::string& text) {
  errno = 0;
  std::ofstream out(path, std::ios::binary);
  out << text;
  out.close();
  if (out) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("cannot write '", path, "': ", std::strerror(errno)));
}

}  // namespace tune::client
