// SPDX-License-Identifier: Apache-2.0
#include "client/kernel_set.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/git.h"
#include "client/kernel_files.h"

namespace tune::client {
namespace {

namespace fs = std::filesystem;

constexpr size_t kSpecsMax = 1000;
constexpr char kSpecSuffix[] = ".textproto";

absl::Status Add(absl::StatusOr<KernelFiles> files, KernelSet& set) {
  if (!files.ok()) return files.status();
  const std::string& name = files->spec.name();
  if (name.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(files->source.spec_name(), " of ", set.label,
                     " is no kernel spec; see what is wrong with `tunectl kernel check`"));
  }
  if (!set.kernels.emplace(name, std::move(files->source)).second) {
    return absl::InvalidArgumentError(
        absl::StrCat(set.label, " has two kernels named '", name, "'"));
  }
  return absl::OkStatus();
}

absl::Status CheckCount(size_t specs, const std::string& where) {
  if (specs == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        where, " has no kernels: looked for <name>/<name>.textproto; --folder names another "
               "place"));
  }
  if (specs <= kSpecsMax) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(where, " has ", specs, " specs; at most ",
                                                 kSpecsMax));
}

// Files that end like specs, in the folder itself and in the folders in it.
std::vector<std::string> SpecsIn(const fs::path& folder) {
  std::vector<std::string> specs;
  std::error_code error;
  fs::recursive_directory_iterator it(folder, error);
  for (const fs::recursive_directory_iterator end; !error && it != end; it.increment(error)) {
    if (it.depth() > 0) it.disable_recursion_pending();
    if (absl::EndsWith(it->path().filename().string(), kSpecSuffix)) {
      specs.push_back(it->path().string());
    }
  }
  std::sort(specs.begin(), specs.end());
  return specs;
}

absl::StatusOr<KernelSet> ReadFolder(const std::string& where, const std::string& folder) {
  KernelSet set{.label = where};
  std::error_code error;
  const fs::path inner = fs::path(where) / folder;
  const bool has_inner = fs::is_directory(inner, error);
  const std::vector<std::string> specs = SpecsIn(has_inner ? inner : fs::path(where));
  absl::Status status = CheckCount(specs.size(), where);
  for (const std::string& spec : specs) {
    if (status.ok()) status = Add(ReadKernelFiles(spec), set);
  }
  if (!status.ok()) return status;
  return set;
}

absl::StatusOr<KernelSet> ReadRevision(const std::string& where, const std::string& folder) {
  absl::StatusOr<std::string> commit = CommitOf(where);
  if (!commit.ok()) return commit.status();
  KernelSet set{.label = *commit};
  // Paths count from the top of the repository, wherever we are in it.
  const absl::StatusOr<std::string> listing =
      RunGit({"ls-tree", "-r", "-z", "--name-only", "--full-tree", *commit, "--", folder});
  if (!listing.ok()) return listing.status();
  std::vector<std::string> specs;
  for (const absl::string_view path : absl::StrSplit(*listing, '\0', absl::SkipEmpty())) {
    if (absl::EndsWith(path, kSpecSuffix)) specs.emplace_back(path);
  }
  absl::Status status =
      CheckCount(specs.size(), absl::StrCat("folder '", folder, "' of commit ", *commit));
  const ReadFile read = [&](const std::string& path,
                            size_t bytes_left) -> absl::StatusOr<std::string> {
    absl::StatusOr<std::string> text =
        RunGit({"cat-file", "blob", absl::StrCat(*commit, ":", path)});
    if (!text.ok()) return text.status();
    if (text->size() > bytes_left) {
      return absl::InvalidArgumentError("kernel sources are limited to 1 MiB in all");
    }
    return text;
  };
  for (const std::string& spec : specs) {
    if (status.ok()) status = Add(ReadKernelFiles(spec, read), set);
  }
  if (!status.ok()) return status;
  return set;
}

}  // namespace

absl::StatusOr<KernelSet> ReadKernelSet(const std::string& where, const std::string& folder) {
  std::error_code error;
  if (fs::is_directory(where, error)) return ReadFolder(where, folder);
  if (!absl::EndsWith(where, kSpecSuffix)) return ReadRevision(where, folder);
  KernelSet set{.label = where};
  absl::Status status = Add(ReadKernelFiles(where), set);
  if (!status.ok()) return status;
  return set;
}

}  // namespace tune::client
