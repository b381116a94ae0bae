// SPDX-License-Identifier: Apache-2.0
// Reads commits of the repository that the working folder is in, which may be a clone of anybody's.
// git is shown a folder of our own, with links to the repository's objects and refs and with our
// own configuration, so that nothing of the repository's is run: no hook, filter, alias, fetch,
// helper or other command that its configuration or attributes name.
#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "base/child_process.h"

namespace tune::client {

struct GitOptions {
  std::chrono::milliseconds timeout = std::chrono::seconds(60);  // of each wait for git
};

struct GitFile {
  std::string object;  // its hash
  size_t bytes = 0;
  bool is_link = false;  // a symbolic link: the object holds where it leads
  bool is_file = false;  // or a regular file; else a submodule
  bool is_here = true;   // else the object is missing, as in a partial clone
};

// Not thread-safe.
class GitRepository {
 public:
  // INVALID_ARGUMENT: no repository here, or another user's that git does not trust.
  static absl::StatusOr<std::unique_ptr<GitRepository>> Open(const GitOptions& options = {});
  ~GitRepository();

  // The commit that a revision names, as hex digits. INVALID_ARGUMENT if it names none.
  absl::StatusOr<std::string> CommitOf(const std::string& revision);

  // The files in a folder of a commit, by path from the top of the repository; all of them if
  // `folder` is empty. The list has at most 16 MiB.
  absl::StatusOr<std::map<std::string, GitFile>> Files(const std::string& commit,
                                                       const std::string& folder);

  absl::StatusOr<std::string> Read(const GitFile& file, size_t bytes_max);

 private:
  explicit GitRepository(const GitOptions& options) : options_(options) {}
  absl::Status MakeView();
  absl::StatusOr<std::string> Run(const std::vector<std::string>& arguments);

  const GitOptions options_;
  std::string view_;  // the folder of our own
  std::vector<std::string> environment_;
  std::unique_ptr<Conversation> reader_;  // git cat-file, once something was read
};

}  // namespace tune::client
