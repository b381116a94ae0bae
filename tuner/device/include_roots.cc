// SPDX-License-Identifier: Apache-2.0
#include "tuner/device/include_roots.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

#include "absl/functional/function_ref.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/sha256.h"
#include "base/status_macros.h"

namespace tune {
namespace {

namespace fs = std::filesystem;

constexpr size_t kFilesMax = 200'000;

bool IsName(const std::string& name) {
  return !name.empty() && name.size() <= 64 && absl::ascii_islower(name[0]) &&
         std::all_of(name.begin(), name.end(), [](unsigned char c) {
           return absl::ascii_islower(c) || absl::ascii_isdigit(c) || c == '_' || c == '-';
         });
}

// The digest of the names of all files below a folder, each with its description.
absl::StatusOr<std::string> DigestOfFiles(
    const std::string& dir, absl::FunctionRef<std::string(const fs::path& path)> describe) {
  std::vector<std::string> files;
  std::error_code error;
  fs::recursive_directory_iterator it(dir, fs::directory_options::skip_permission_denied, error);
  for (const fs::recursive_directory_iterator end; !error && it != end; it.increment(error)) {
    std::error_code gone;
    const std::string name = it->path().lexically_relative(dir).string();
    if (it->is_symlink(gone)) {
      files.push_back(absl::StrCat(name, " -> ", fs::read_symlink(it->path(), gone).string()));
    }
    if (!it->is_regular_file(gone)) continue;
    if (files.size() >= kFilesMax) {
      return absl::InvalidArgumentError(absl::StrCat("include root ", dir, " has more than ",
                                                     kFilesMax, " files: name a folder within"));
    }
    files.push_back(absl::StrCat(name, " ", describe(it->path())));
  }
  std::sort(files.begin(), files.end());
  return Sha256Hex(absl::StrJoin(files, "\n"));
}

std::string ContentOf(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return Sha256Hex(text.str());
}

// The time of the last change is the system's to set: a file that was given its old time again has
// another one.
std::string StampOf(const fs::path& path) {
  struct stat info = {};
  if (stat(path.c_str(), &info) != 0) return "gone";
  return absl::StrCat(info.st_ino, " ", info.st_size, " ", info.st_mtim.tv_sec, ".",
                      info.st_mtim.tv_nsec, " ", info.st_ctim.tv_sec, ".", info.st_ctim.tv_nsec);
}

}  // namespace

absl::StatusOr<IncludeRoots> IncludeRoots::Read(const std::vector<std::string>& texts) {
  IncludeRoots roots;
  for (const std::string& text : texts) {
    RETURN_IF_ERROR(roots.Add(text));
    IncludeRoot& root = roots.roots_.back();
    // First the stamp: what is written while the files are read counts as a change.
    ASSIGN_OR_RETURN(root.stamp, DigestOfFiles(root.dir, StampOf));
    ASSIGN_OR_RETURN(root.digest, DigestOfFiles(root.dir, ContentOf));
  }
  return roots;
}

absl::Status IncludeRoots::Add(const std::string& text) {
  const size_t equals = std::min(text.find('='), text.size());
  IncludeRoot root = {.name = text.substr(0, equals)};
  if (!IsName(root.name) || equals + 1 >= text.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", text, "' is no NAME=DIR: a name of lower case letters, digits, '_' and ",
                     "'-', and a folder, as cutlass=/opt/cutlass/include"));
  }
  if (Find(root.name) != nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("two include roots are called '", root.name, "'"));
  }
  std::error_code error;
  root.dir = fs::canonical(text.substr(equals + 1), error).string();
  if (error || !fs::is_directory(root.dir, error) || root.dir == "/") {
    return absl::InvalidArgumentError(
        absl::StrCat("include root '", root.name, "': no folder ", text.substr(equals + 1)));
  }
  roots_.push_back(std::move(root));
  return absl::OkStatus();
}

const IncludeRoot* IncludeRoots::Find(const std::string& name) const {
  const auto root = std::find_if(roots_.begin(), roots_.end(),
                                 [&](const IncludeRoot& known) { return known.name == name; });
  return root == roots_.end() ? nullptr : &*root;
}

absl::Status IncludeRoots::Check(const std::vector<std::string>& names) const {
  for (const std::string& name : names) {
    if (Find(name) != nullptr) continue;
    const auto append = [](std::string* out, const IncludeRoot& root) { *out += root.name; };
    return absl::InvalidArgumentError(absl::StrCat(
        "the kernel includes from '", name, "', which this host does not offer (it has: ",
        roots_.empty() ? "none" : absl::StrJoin(roots_, ", ", append),
        "): start tunerd, or tunectl where none runs, with --include-root ", name, "=DIR"));
  }
  return absl::OkStatus();
}

std::vector<std::string> IncludeRoots::DirsOf(const std::vector<std::string>& names) const {
  std::vector<std::string> dirs;
  for (const std::string& name : names) {
    if (const IncludeRoot* root = Find(name); root != nullptr) dirs.push_back(root->dir);
  }
  return dirs;
}

std::string IncludeRoots::DigestOf(const std::vector<std::string>& names) const {
  std::string text;
  for (const std::string& name : names) {
    const IncludeRoot* root = Find(name);
    if (root == nullptr) return "";
    absl::StrAppend(&text, name, " ", root->digest, "\n");
  }
  return text.empty() ? "" : Sha256Hex(text);
}

absl::Status IncludeRoots::CheckUnchanged(const std::vector<std::string>& names) const {
  for (const std::string& name : names) {
    const IncludeRoot* root = Find(name);
    if (root == nullptr || root->stamp.empty()) continue;
    ASSIGN_OR_RETURN(const std::string stamp, DigestOfFiles(root->dir, StampOf));
    if (stamp == root->stamp) continue;
    return absl::FailedPreconditionError(
        absl::StrCat("the headers in ", root->dir, ", of the include root '", name,
                     "', have changed since they were read: start tunerd again, and what they "
                     "are part of is measured again"));
  }
  return absl::OkStatus();
}

}  // namespace tune
