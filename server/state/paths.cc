// SPDX-License-Identifier: Apache-2.0
#include "server/state/paths.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace tune::server {
namespace {

std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

absl::StatusOr<std::string> DefaultStateDir() {
  if (std::string dir = Variable("TUNE_STATE_DIR"); !dir.empty()) return dir;
  if (std::string state = Variable("XDG_STATE_HOME"); !state.empty()) return state + "/tunectl";
  if (geteuid() == 0) return "/var/lib/tunectl";
  if (std::string home = Variable("HOME"); !home.empty()) return home + "/.local/state/tunectl";
  return absl::FailedPreconditionError(
      "no place for the state: set TUNE_STATE_DIR (or HOME), or give --state-dir");
}

absl::Status MakeDir(const std::string& path) {
  std::error_code error;
  const std::filesystem::path parent = std::filesystem::path(path).parent_path();
  if (!parent.empty()) std::filesystem::create_directories(parent, error);
  if (!error && mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
    error = std::error_code(errno, std::generic_category());
  }
  if (!error && !std::filesystem::is_directory(path, error) && !error) {
    error = std::make_error_code(std::errc::not_a_directory);
  }
  if (!error) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("cannot create folder ", path, ": ", error.message()));
}

absl::Status MakePrivateDir(const std::string& path) {
  RETURN_IF_ERROR(MakeDir(path));
  struct stat folder = {};
  if (stat(path.c_str(), &folder) != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot read folder ", path, ": ", strerror(errno)));
  }
  if (folder.st_uid != geteuid() && folder.st_uid != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("folder ", path, " belongs to user ", folder.st_uid,
                     ", so it is not used: chown it to user ", geteuid(), ", or name another"));
  }
  if ((folder.st_mode & (S_IWGRP | S_IWOTH)) == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("other users may write to folder ", path,
                                                    ", so it is not used: chmod go-w ", path));
}

absl::StatusOr<PrivateFolder> PrivateFolder::Make() {
  std::string path = Variable("TMPDIR");
  if (path.empty()) path = "/tmp";
  path += "/tunectl-XXXXXX";
  if (mkdtemp(path.data()) == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat(
        "cannot create a folder ", path, ": ", strerror(errno), "; TMPDIR names another place"));
  }
  return PrivateFolder(std::move(path));
}

PrivateFolder::~PrivateFolder() {
  if (path_.empty()) return;
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace tune::server
