// SPDX-License-Identifier: Apache-2.0
#include "base/secret_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/descriptor.h"
#include "base/status_macros.h"

namespace tune {
namespace {

constexpr size_t kSecretBytesMax = 64 << 10;

absl::Status CheckPrivate(const std::string& path, const struct stat& file) {
  const bool own = file.st_uid == geteuid() || file.st_uid == 0;
  const mode_t others = file.st_uid == 0 ? S_IRWXO : S_IRWXG | S_IRWXO;
  if (own && (file.st_mode & others) == 0) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat(
      "'", path, "' holds a secret and ",
      own ? absl::StrCat(ModeLets(file.st_mode, others), ", so it is not used: chmod 600 ", path)
          : absl::StrCat("belongs to user ", file.st_uid, ", so it is not used")));
}

// The text of a regular file that `check` admits.
absl::StatusOr<std::string> Read(const std::string& path, size_t bytes_max,
                                 absl::FunctionRef<absl::Status(const struct stat&)> check) {
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat state = {};
  if (!file.ok() || fstat(file.get(), &state) != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot read '", path, "': ", std::strerror(errno)));
  }
  if (!S_ISREG(state.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat("'", path, "' is no file"));
  }
  RETURN_IF_ERROR(check(state));
  std::string text(bytes_max + 1, '\0');
  const ssize_t got = read(file.get(), text.data(), text.size());
  if (got < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot read '", path, "': ", std::strerror(errno)));
  }
  if (static_cast<size_t>(got) > bytes_max) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", path, "' is too long: at most ", bytes_max, " bytes"));
  }
  text.resize(static_cast<size_t>(got));
  return text;
}

}  // namespace

std::string ModeLets(mode_t mode, mode_t mask) {
  mode &= 07777;
  const mode_t bits = mode & mask;
  std::vector<std::string> acts;
  if (bits & (S_IRGRP | S_IROTH)) acts.push_back("read");
  if (bits & (S_IWGRP | S_IWOTH)) acts.push_back("write");
  if (bits & (S_IXGRP | S_IXOTH)) acts.push_back("execute");
  const char* const who = (bits & S_IRWXG) == 0   ? "others"
                          : (bits & S_IRWXO) == 0 ? "its group"
                                                  : "its group and others";
  return absl::StrFormat("mode %04o lets %s %s it", mode, who, absl::StrJoin(acts, " and "));
}

absl::StatusOr<std::string> ReadSecret(const std::string& path) {
  return Read(path, kSecretBytesMax,
              [&](const struct stat& file) { return CheckPrivate(path, file); });
}

absl::StatusOr<std::string> ReadNamed(const std::string& path, size_t bytes_max) {
  return Read(path, bytes_max, [](const struct stat&) { return absl::OkStatus(); });
}

}  // namespace tune
