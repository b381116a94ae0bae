// SPDX-License-Identifier: Apache-2.0
#include "client/cli/kernel_set.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <map>
#include <memory>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "client/cli/contained_file.h"
#include "client/cli/git_repository.h"
#include "client/cli/kernel_files.h"

namespace tune::client {
namespace {

namespace fs = std::filesystem;

constexpr size_t kSpecsMax = 1000;
constexpr size_t kEntriesMax = 100'000;
constexpr int kLinksMax = 8;  // that lead from one to the next
constexpr size_t kLinkBytesMax = 4096;
constexpr char kSpecSuffix[] = ".textproto";

absl::Status Add(KernelFiles files, KernelSet& set) {
  const std::string& name = files.spec.name();
  if (name.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(files.source.spec_name(), " of ", set.label,
                     " is no kernel spec; see what is wrong with `tunectl kernel check`"));
  }
  if (!set.kernels.emplace(name, std::move(files.source)).second) {
    return absl::InvalidArgumentError(
        absl::StrCat(set.label, " has two kernels named '", name, "'"));
  }
  return absl::OkStatus();
}

// Adds the specs among the .textproto files of `where`, which may be of other messages, too.
absl::Status AddSpecs(const std::string& where, const std::vector<std::string>& paths,
                      const FileReader& read, KernelSet& set) {
  if (paths.size() > kSpecsMax) {
    return absl::InvalidArgumentError(
        absl::StrCat(where, " has ", paths.size(), " .textproto files; at most ", kSpecsMax));
  }
  for (const std::string& path : paths) {
    ASSIGN_OR_RETURN(KernelFiles files, ReadKernelFiles(path, read));
    if (files.is_spec) RETURN_IF_ERROR(Add(std::move(files), set));
  }
  if (!set.kernels.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(where,
                   " has no kernels: looked for <name>/<name>.textproto; --folder names another "
                   "place"));
}

bool MayBeSpec(absl::string_view path) { return absl::EndsWith(path, kSpecSuffix); }

// Files that end like specs, in the folder itself and in the folders in it. Links to folders are
// not entered, as git does not.
absl::StatusOr<std::vector<std::string>> SpecsIn(const fs::path& folder) {
  std::vector<std::string> specs;
  std::error_code error;
  size_t entries = 0;
  fs::recursive_directory_iterator it(folder, error);
  for (const fs::recursive_directory_iterator end; !error && it != end; it.increment(error)) {
    if (++entries > kEntriesMax) {
      return absl::InvalidArgumentError(
          absl::StrCat("'", folder.string(), "' has more than ", kEntriesMax,
                       " files; name the folder of the kernels, or let --folder do it"));
    }
    if (it.depth() > 0) it.disable_recursion_pending();
    if (MayBeSpec(it->path().filename().string())) specs.push_back(it->path().string());
  }
  if (error) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot read folder '", folder.string(), "': ", error.message()));
  }
  std::sort(specs.begin(), specs.end());
  return specs;
}

absl::StatusOr<KernelSet> ReadFolder(const std::string& where, const std::string& folder) {
  KernelSet set{.label = where};
  ASSIGN_OR_RETURN(const bool has_inner, HasFolder(where, folder));
  ASSIGN_OR_RETURN(const auto paths,
                   SpecsIn(has_inner ? fs::path(where) / folder : fs::path(where)));
  RETURN_IF_ERROR(AddSpecs(where, paths, ReadContained, set));
  return set;
}

using GitFiles = std::map<std::string, GitFile>;

// The regular file that a path of a commit leads to. Like a link on disk, one in a commit must not
// lead out of its folder.
absl::StatusOr<GitFiles::const_iterator> Followed(GitRepository& repository, const GitFiles& files,
                                                  const std::string& folder,
                                                  const std::string& name) {
  fs::path path = fs::path(folder) / name;
  for (int links = 0; links < kLinksMax; ++links) {
    const auto it = files.find(path.string());
    if (it == files.end()) return absl::NotFoundError("the commit does not have it");
    if (it->second.is_file) return it;
    if (!it->second.is_link) return absl::InvalidArgumentError("it is a submodule, not a file");
    ASSIGN_OR_RETURN(std::string target, repository.Read(it->second, kLinkBytesMax));
    path = (path.parent_path() / target).lexically_normal();
    const std::string inner = path.lexically_relative(folder.empty() ? "." : folder).string();
    if (fs::path(target).is_absolute() || inner.empty() || inner == ".." ||
        absl::StartsWith(inner, "../")) {
      return absl::InvalidArgumentError(
          "it leads out of its folder by a symbolic link, and is not read: copy what it leads to "
          "into the folder");
    }
  }
  return absl::InvalidArgumentError("its symbolic links lead in a circle");
}

absl::StatusOr<std::string> ReadOfCommit(GitRepository& repository, const GitFiles& files,
                                         const std::string& folder, const std::string& name,
                                         size_t bytes_max) {
  auto file = Followed(repository, files, folder, name);
  absl::StatusOr<std::string> text =
      file.ok() ? repository.Read((*file)->second, bytes_max) : file.status();
  if (text.ok()) return text;
  return absl::Status(text.status().code(),
                      absl::StrCat("cannot read '", (fs::path(folder) / name).string(),
                                   "' of the commit: ", text.status().message()));
}

absl::StatusOr<KernelSet> ReadRevision(const std::string& where, const std::string& folder,
                                       const GitOptions& options) {
  auto opened = GitRepository::Open(options);
  if (absl::IsInvalidArgument(opened.status())) {
    return absl::InvalidArgumentError(absl::StrCat(
        "'", where, "' is no folder and no .textproto file, and no git revision is read: ",
        opened.status().message()));
  }
  RETURN_IF_ERROR(opened.status());
  const std::unique_ptr<GitRepository> repository = *std::move(opened);
  ASSIGN_OR_RETURN(std::string commit, repository->CommitOf(where));
  KernelSet set{.label = commit};
  // Paths count from the top of the repository, wherever we are in it.
  fs::path top = fs::path(folder).lexically_normal();
  if (top == ".") top.clear();
  ASSIGN_OR_RETURN(const GitFiles files, repository->Files(commit, top.string()));
  std::vector<std::string> paths;
  for (const auto& [path, file] : files) {
    const fs::path inner = fs::path(path).lexically_relative(top.empty() ? "." : top);
    const auto depth = std::distance(inner.begin(), inner.end());
    if (MayBeSpec(path) && depth <= 2) paths.push_back(path);
  }
  const FileReader read = [&](const std::string& in, const std::string& name, size_t bytes_max) {
    return ReadOfCommit(*repository, files, in, name, bytes_max);
  };
  const std::string shown = absl::StrCat("folder '", folder, "' of commit ", commit);
  RETURN_IF_ERROR(AddSpecs(shown, paths, read, set));
  return set;
}

}  // namespace

absl::StatusOr<KernelSet> ReadKernelSet(const std::string& where, const std::string& folder,
                                        const GitOptions& options) {
  std::error_code error;
  if (fs::is_directory(where, error)) return ReadFolder(where, folder);
  if (!MayBeSpec(where)) return ReadRevision(where, folder, options);
  KernelSet set{.label = where};
  ASSIGN_OR_RETURN(KernelFiles files, ReadKernelFiles(where));
  RETURN_IF_ERROR(Add(std::move(files), set));
  return set;
}

}  // namespace tune::client
