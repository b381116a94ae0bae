// SPDX-License-Identifier: Apache-2.0
#include "tuner/device/cpu/subprocess.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace tune::cpu {
namespace {

// A template recursion can print megabytes; the first errors are the ones that help.
constexpr size_t kOutputBytesMax = 64 * 1024;

std::vector<std::string> EnvironmentFor(const std::string& folder) {
  std::vector<std::string> environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const absl::string_view text = *entry;
    // GCC also takes folders to search, and options, from variables of its own.
    const bool ours = absl::StartsWith(text, "TMPDIR=") || absl::StartsWith(text, "LC_") ||
                      absl::StartsWith(text, "LANG") || absl::StartsWith(text, "CPATH=") ||
                      absl::StartsWith(text, "C_INCLUDE_PATH=") ||
                      absl::StartsWith(text, "CPLUS_INCLUDE_PATH=") ||
                      absl::StartsWith(text, "DEPENDENCIES_OUTPUT=") ||
                      absl::StartsWith(text, "SUNPRO_DEPENDENCIES=");
    if (!ours) environment.emplace_back(text);
  }
  environment.push_back(absl::StrCat("TMPDIR=", folder));
  environment.push_back("LC_ALL=C");
  return environment;
}

std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

std::string ReadAll(int fd) {
  std::string output;
  char buffer[4096];
  while (true) {
    const ssize_t count = read(fd, buffer, sizeof(buffer));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return output;
    const size_t room = kOutputBytesMax - output.size();
    output.append(buffer, std::min(room, static_cast<size_t>(count)));
  }
}

}  // namespace

absl::StatusOr<ProgramResult> RunProgram(const std::vector<std::string>& arguments,
                                         const std::string& folder) {
  std::vector<std::string> argument_texts = arguments;
  std::vector<std::string> environment_texts = EnvironmentFor(folder);
  std::vector<char*> argv = Pointers(argument_texts);
  std::vector<char*> envp = Pointers(environment_texts);
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    return absl::UnavailableError(absl::StrCat("no pipe: ", strerror(errno)));
  }
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
  posix_spawn_file_actions_addchdir_np(&actions, folder.c_str());
  pid_t child = 0;
  const int error = posix_spawn(&child, argv[0], &actions, nullptr, argv.data(), envp.data());
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  if (error != 0) {
    close(ends[0]);
    return absl::UnavailableError(
        absl::StrCat(arguments[0], " could not be started: ", strerror(error)));
  }
  ProgramResult result;
  result.output = ReadAll(ends[0]);
  close(ends[0]);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}

}  // namespace tune::cpu
