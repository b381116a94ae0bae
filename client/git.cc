// SPDX-License-Identifier: Apache-2.0
#include "client/git.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace tune::client {
namespace {

constexpr size_t kOutputMax = 16 << 20;
constexpr size_t kErrorMax = 4096;

struct Pipe {
  int ends[2] = {-1, -1};
  ~Pipe() {
    Close(0);
    Close(1);
  }
  void Close(int end) {
    if (ends[end] >= 0) close(ends[end]);
    ends[end] = -1;
  }
};

// Reads both pipes to their end; what is over a limit is dropped.
void Drain(Pipe& output, Pipe& errors, std::string& output_text, std::string& error_text) {
  std::array<pollfd, 2> polled = {{{output.ends[0], POLLIN, 0}, {errors.ends[0], POLLIN, 0}}};
  char buffer[1 << 16];
  while (polled[0].fd >= 0 || polled[1].fd >= 0) {
    if (poll(polled.data(), polled.size(), -1) < 0 && errno != EINTR) return;
    for (size_t i = 0; i < polled.size(); ++i) {
      if (polled[i].fd < 0 || polled[i].revents == 0) continue;
      const ssize_t count = read(polled[i].fd, buffer, sizeof(buffer));
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) {
        polled[i].fd = -1;
        continue;
      }
      std::string& text = i == 0 ? output_text : error_text;
      const size_t limit = i == 0 ? kOutputMax + 1 : kErrorMax;
      const size_t room = limit - std::min(limit, text.size());
      text.append(buffer, std::min(static_cast<size_t>(count), room));
    }
  }
}

}  // namespace

absl::StatusOr<std::string> RunGit(const std::vector<std::string>& arguments) {
  std::vector<std::string> words = {"git", "--no-pager"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  Pipe output;
  Pipe errors;
  if (pipe2(output.ends, O_CLOEXEC) != 0 || pipe2(errors.ends, O_CLOEXEC) != 0) {
    return absl::InternalError(absl::StrCat("cannot start git: ", std::strerror(errno)));
  }
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, output.ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, errors.ends[1], STDERR_FILENO);
  pid_t pid = 0;
  const int failed = posix_spawnp(&pid, "git", &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) {
    return absl::InvalidArgumentError(absl::StrCat("cannot start git: ", std::strerror(failed),
                                                   "; install it, or name a folder instead of a "
                                                   "revision"));
  }
  output.Close(1);
  errors.Close(1);
  std::string output_text;
  std::string error_text;
  Drain(output, errors, output_text, error_text);
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (output_text.size() > kOutputMax) {
    return absl::InvalidArgumentError(absl::StrCat("git ", absl::StrJoin(arguments, " "),
                                                   " prints more than 16 MiB"));
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return output_text;
  absl::StripAsciiWhitespace(&error_text);
  return absl::InvalidArgumentError(
      absl::StrCat("git ", absl::StrJoin(arguments, " "), " failed: ", error_text));
}

absl::StatusOr<std::string> CommitOf(const std::string& revision) {
  // What begins with a dash would be an option to git.
  if (revision.empty() || absl::StartsWith(revision, "-")) {
    return absl::InvalidArgumentError(absl::StrCat("'", revision, "' is no revision"));
  }
  absl::StatusOr<std::string> commit =
      RunGit({"rev-parse", "--quiet", "--verify", absl::StrCat(revision, "^{commit}")});
  if (!commit.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "'", revision, "' is no folder, no .textproto file and no revision that git knows here"));
  }
  absl::StripAsciiWhitespace(&*commit);
  return commit;
}

}  // namespace tune::client
