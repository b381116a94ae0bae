// SPDX-License-Identifier: Apache-2.0
#include "client/cli/user_file.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace tune::client {

absl::StatusOr<std::string> ReadFile(const std::string& path, size_t bytes_max) {
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
  if (text.size() > bytes_max) {
    return absl::InvalidArgumentError(absl::StrCat(
        "'", path, "' has ", text.size(), " bytes; at most ", bytes_max >> 20, " MiB are read"));
  }
  return text;
}

absl::Status WriteFile(const std::string& path, const std::string& text) {
  const auto failed = [&](int error) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot write '", path, "': ", std::strerror(error)));
  };
  namespace fs = std::filesystem;
  std::error_code error;
  // Past the stream its text would be written over, or out of order.
  if (path == "/dev/stdout") {
    std::fputs(text.c_str(), stdout);
    return absl::OkStatus();
  }
  // Whoever reads the file meanwhile has all of the old one or all of the new one. What a link
  // names is replaced, not the link; a device or a pipe is written to.
  const fs::file_status there = fs::status(path, error);
  const bool in_place = fs::exists(there) && !fs::is_regular_file(there);
  const bool is_link = !in_place && fs::is_symlink(path, error);
  const fs::path target = is_link ? fs::weakly_canonical(path, error) : fs::path(path);
  const std::string written =
      in_place ? target.string() : absl::StrCat(target.string(), ".", getpid(), ".new");
  errno = 0;
  std::ofstream out(written, std::ios::binary);
  out << text;
  out.close();
  if (!out) {
    const int why = errno;
    if (!in_place) fs::remove(written, error);
    return failed(why);
  }
  if (in_place) return absl::OkStatus();
  if (fs::exists(there)) fs::permissions(written, there.permissions(), error);
  fs::rename(written, target, error);
  if (!error) return absl::OkStatus();
  const int why = error.value();
  fs::remove(written, error);
  return failed(why);
}

}  // namespace tune::client
