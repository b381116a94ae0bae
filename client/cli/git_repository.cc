// SPDX-License-Identifier: Apache-2.0
#include "client/cli/git_repository.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "client/cli/contained_file.h"

namespace tune::client {
namespace {

namespace fs = std::filesystem;

constexpr size_t kListBytesMax = 16 << 20;
constexpr size_t kLineBytesMax = 64 << 10;
constexpr size_t kHeadBytesMax = 1 << 20;

// Files that name commits beside HEAD. Copied, not linked: they are read as refs, not as links.
constexpr const char* kHeads[] = {"HEAD", "FETCH_HEAD", "ORIG_HEAD", "MERGE_HEAD",
                                  "CHERRY_PICK_HEAD"};
// Read by git where they are.
constexpr const char* kLinked[] = {"objects", "refs", "packed-refs", "logs", "shallow"};

// Turns off what no call of ours needs, whatever the configuration says. The first two are for git
// as the user has it set up, which says whose repositories are trusted; the view has no such
// settings.
std::vector<std::string> Hardened() {
  return {"GIT_ALLOW_PROTOCOL=",
          "GIT_NO_LAZY_FETCH=1",
          "GIT_PROTOCOL_FROM_USER=0",
          "GIT_TERMINAL_PROMPT=0",
          "GIT_OPTIONAL_LOCKS=0",
          "GIT_NO_REPLACE_OBJECTS=1",
          "GIT_LITERAL_PATHSPECS=1",
          "GIT_ATTR_NOSYSTEM=1",
          "GIT_ASKPASS=",
          "GIT_PAGER=cat"};
}

absl::StatusOr<std::unique_ptr<Conversation>> StartGit(const std::vector<std::string>& arguments,
                                                       const std::vector<std::string>& environment,
                                                       std::chrono::milliseconds timeout) {
  ConversationCommand git{.program = "git",
                          .arguments = {"--no-pager"},
                          .environment = environment,
                          .timeout = timeout,
                          .shown = absl::StrCat("git ", absl::StrJoin(arguments, " ")),
                          .if_missing = "install it, or name a folder instead of a revision",
                          .if_late =
                              "; see whether it ends by itself (the disk may be slow, or the "
                              "repository damaged: git fsck), or name a folder instead of a "
                              "revision, such as one of git worktree"};
  git.arguments.insert(git.arguments.end(), arguments.begin(), arguments.end());
  return Conversation::Start(git);
}

struct Place {
  std::string git_folder;     // of this working tree
  std::string common_folder;  // of all of them: objects and branches
  std::string object_format;
};

absl::StatusOr<Place> FindRepository(std::chrono::milliseconds timeout) {
  ASSIGN_OR_RETURN(auto git, StartGit({"rev-parse", "--path-format=absolute", "--git-dir",
                                       "--git-common-dir", "--show-object-format"},
                                      Hardened(), timeout));
  absl::StatusOr<std::string> text = git->ReadToEnd(kLineBytesMax);
  if (absl::IsInvalidArgument(text.status())) {
    if (absl::StrContains(text.status().message(), "dubious ownership")) {
      return absl::InvalidArgumentError(
          "this clone belongs to another user, so git does not read it; if you trust it: git "
          "config --global --add safe.directory \"$(pwd)\", with the clone's top in place of "
          "$(pwd); or name a folder instead of a revision");
    }
    if (absl::StrContains(text.status().message(), "not a git repository")) {
      return absl::InvalidArgumentError("this folder is in no git repository");
    }
    return absl::InvalidArgumentError(
        absl::StrCat(text.status().message(),
                     "; a revision is read from the repository that you are in: change to it, or "
                     "name a folder"));
  }
  RETURN_IF_ERROR(text.status());
  const std::vector<std::string> lines = absl::StrSplit(*text, '\n', absl::SkipEmpty());
  if (lines.size() != 3) {
    return absl::InvalidArgumentError("the name of this repository's folder cannot be read");
  }
  return Place{lines[0], lines[1], lines[2]};
}

absl::Status CannotPrepare(const std::string& what, const std::string& why) {
  return absl::FailedPreconditionError(
      absl::StrCat("cannot prepare ", what, " to read git's objects: ", why,
                   "; TMPDIR names another place, or name a folder instead of a revision"));
}

absl::Status WriteText(const fs::path& path, const std::string& text) {
  std::ofstream out(path, std::ios::binary);
  out << text;
  out.close();
  return out ? absl::OkStatus() : CannotPrepare(path.string(), "it cannot be written");
}

// "100644 blob 3b18e5...      12\tkernels/a/a.cu".
absl::Status AddFile(absl::string_view entry, std::map<std::string, GitFile>& files) {
  const std::vector<absl::string_view> halves = absl::StrSplit(entry, absl::MaxSplits('\t', 1));
  const std::vector<absl::string_view> words = absl::StrSplit(halves[0], ' ', absl::SkipEmpty());
  if (halves.size() != 2 || words.size() != 4) {
    return absl::InternalError("git ls-tree prints an unknown format");
  }
  GitFile file{.object = std::string(words[2]),
               .is_link = words[0] == "120000",
               .is_file = absl::StartsWith(words[0], "100")};
  uint64_t bytes = 0;
  file.is_here = absl::SimpleAtoi(words[3], &bytes);
  file.bytes = bytes;
  files[std::string(halves[1])] = file;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<GitRepository>> GitRepository::Open(const GitOptions& options) {
  std::unique_ptr<GitRepository> repository(new GitRepository(options));
  RETURN_IF_ERROR(repository->MakeView());
  return repository;
}

GitRepository::~GitRepository() {
  reader_.reset();
  std::error_code error;
  // Removes the links, not what they lead to.
  if (!view_.empty()) fs::remove_all(view_, error);
}

absl::Status GitRepository::MakeView() {
  ASSIGN_OR_RETURN(Place place, FindRepository(options_.timeout));
  std::error_code error;
  const fs::path temporary = fs::temp_directory_path(error);
  std::string name = (temporary / "tunectl-git-XXXXXX").string();
  if (error || mkdtemp(name.data()) == nullptr) {
    return CannotPrepare(name, error ? error.message() : std::strerror(errno));
  }
  view_ = name;
  const bool sha256 = place.object_format == "sha256";
  RETURN_IF_ERROR(
      WriteText(fs::path(view_) / "config",
                absl::StrCat("[core]\nrepositoryformatversion = ", sha256 ? 1 : 0,
                             "\nbare = true\npackedGitLimit = 512m\npackedGitWindowSize = 64m\n",
                             sha256 ? "[extensions]\nobjectFormat = sha256\n" : "")));
  for (const char* head : kHeads) {
    absl::StatusOr<std::string> text = ReadContained(place.git_folder, head, kHeadBytesMax);
    if (text.ok()) RETURN_IF_ERROR(WriteText(fs::path(view_) / head, *text));
  }
  for (const char* linked : kLinked) {
    fs::create_symlink(fs::path(place.common_folder) / linked, fs::path(view_) / linked, error);
    if (error) return CannotPrepare(view_, error.message());
  }
  environment_ = Hardened();
  environment_.insert(environment_.end(), {absl::StrCat("GIT_DIR=", view_), "GIT_CONFIG_NOSYSTEM=1",
                                           "GIT_CONFIG_GLOBAL=/dev/null"});
  return absl::OkStatus();
}

absl::StatusOr<std::string> GitRepository::Run(const std::vector<std::string>& arguments) {
  ASSIGN_OR_RETURN(auto git, StartGit(arguments, environment_, options_.timeout));
  return git->ReadToEnd(kListBytesMax);
}

absl::StatusOr<std::string> GitRepository::CommitOf(const std::string& revision) {
  // A revision that begins with a dash would be an option to git.
  if (revision.empty() || absl::StartsWith(revision, "-")) {
    return absl::InvalidArgumentError(absl::StrCat("'", revision, "' is no revision"));
  }
  absl::StatusOr<std::string> commit =
      Run({"rev-parse", "--quiet", "--verify", absl::StrCat(revision, "^{commit}")});
  if (absl::IsInvalidArgument(commit.status())) {
    return absl::InvalidArgumentError(absl::StrCat(
        "'", revision, "' is no folder, no .textproto file and no revision that git knows here"));
  }
  RETURN_IF_ERROR(commit.status());
  absl::StripAsciiWhitespace(&*commit);
  return commit;
}

absl::StatusOr<std::map<std::string, GitFile>> GitRepository::Files(const std::string& commit,
                                                                    const std::string& folder) {
  std::vector<std::string> arguments = {"ls-tree", "-r", "-l", "-z", "--full-tree", commit};
  if (!folder.empty()) arguments.insert(arguments.end(), {"--", folder});
  absl::StatusOr<std::string> listing = Run(arguments);
  if (absl::IsResourceExhausted(listing.status())) {
    return absl::InvalidArgumentError(absl::StrCat(
        "commit ", commit, " has too many files", folder.empty() ? "" : " in '", folder,
        folder.empty() ? "" : "'", "; --folder names the place of the kernels"));
  }
  if (absl::IsInvalidArgument(listing.status())) {
    return absl::InvalidArgumentError(absl::StrCat(
        listing.status().message(),
        "; in a partial or shallow clone fetch what is missing first, with git fetch --refetch"));
  }
  RETURN_IF_ERROR(listing.status());
  std::map<std::string, GitFile> files;
  for (const absl::string_view entry : absl::StrSplit(*listing, '\0', absl::SkipEmpty())) {
    RETURN_IF_ERROR(AddFile(entry, files));
  }
  return files;
}

absl::StatusOr<std::string> GitRepository::Read(const GitFile& file, size_t bytes_max) {
  if (file.bytes > bytes_max) {
    return absl::InvalidArgumentError(absl::StrCat("it has ", file.bytes, " bytes; ", bytes_max,
                                                   " are left of the 1 MiB that a "
                                                   "kernel's files have at most"));
  }
  if (reader_ == nullptr) {
    ASSIGN_OR_RETURN(reader_, StartGit({"cat-file", "--batch"}, environment_, options_.timeout));
  }
  RETURN_IF_ERROR(reader_->Write(absl::StrCat(file.object, "\n")));
  ASSIGN_OR_RETURN(std::string header, reader_->ReadLine(kLineBytesMax));
  if (header != absl::StrCat(file.object, " blob ", file.bytes)) {
    return absl::InvalidArgumentError(
        "this clone does not have it, as partial clones do not: fetch it first, with git fetch "
        "--refetch");
  }
  absl::StatusOr<std::string> text = reader_->ReadBytes(file.bytes + 1);  // and a line feed
  if (text.ok()) text->pop_back();
  return text;
}

}  // namespace tune::client
