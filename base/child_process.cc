// SPDX-License-Identifier: Apache-2.0
#include "base/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <tuple>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace tune {
namespace {

constexpr size_t kErrorBytesMax = 4096;
constexpr size_t kChunkBytes = 1 << 16;
constexpr rlim_t kDataBytesMax = rlim_t{2} << 30;  // what unpacking an object may take
constexpr auto kEndEvery = std::chrono::milliseconds(2);
constexpr auto kKillWait = std::chrono::seconds(2);

// The absolute folders of PATH. Relative ones are left out: the current folder may be a clone of an
// untrusted repository.
std::string TrustedPath() {
  const char* path = std::getenv("PATH");
  std::vector<absl::string_view> folders;
  for (const absl::string_view folder :
       absl::StrSplit(path == nullptr ? "/usr/bin:/bin" : path, ':')) {
    if (absl::StartsWith(folder, "/")) folders.push_back(folder);
  }
  return absl::StrJoin(folders, ":");
}

std::string Find(const std::string& name, const std::string& path) {
  for (const absl::string_view folder : absl::StrSplit(path, ':', absl::SkipEmpty())) {
    std::string program = absl::StrCat(folder, "/", name);
    struct stat info;
    const bool is_file = stat(program.c_str(), &info) == 0 && S_ISREG(info.st_mode);
    if (is_file && access(program.c_str(), X_OK) == 0) return program;
  }
  return "";
}

std::vector<std::string> Environment(const std::string& path,
                                     const std::vector<std::string>& added) {
  std::vector<std::string> variables = {absl::StrCat("PATH=", path), "LC_ALL=C", "LANGUAGE="};
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const absl::string_view text = *variable;
    if (absl::StartsWith(text, "GIT_") || absl::StartsWith(text, "PYTHON") ||
        absl::StartsWith(text, "PATH=") || absl::StartsWith(text, "LC_") ||
        absl::StartsWith(text, "LANG")) {
      continue;
    }
    variables.emplace_back(text);
  }
  variables.insert(variables.end(), added.begin(), added.end());
  return variables;
}

std::vector<char*> Pointers(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return pointers;
}

struct Pipe {
  Descriptor read_end, write_end;
  bool Make() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return false;
    read_end.Reset(ends[0]);
    write_end.Reset(ends[1]);
    return true;
  }
};

}  // namespace

absl::StatusOr<std::unique_ptr<ChildProcess>> ChildProcess::Start(const ChildCommand& command) {
  const std::string path = TrustedPath();
  const std::string program = Find(command.program, path);
  if (program.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("no ", command.program, " in PATH; ", command.if_missing));
  }
  std::vector<std::string> words = {command.program};
  words.insert(words.end(), command.arguments.begin(), command.arguments.end());
  std::vector<std::string> variables = Environment(path, command.environment);
  Pipe in, out, err;
  if (!in.Make() || !out.Make() || !err.Make()) {
    return absl::InternalError(
        absl::StrCat("cannot start ", command.program, ": ", std::strerror(errno)));
  }
  std::unique_ptr<ChildProcess> child(new ChildProcess(command));
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in.read_end.get(), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, out.write_end.get(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, err.write_end.get(), STDERR_FILENO);
  // The child gets its own process group, so that it can be killed with its children, and the
  // default SIGPIPE, which this process ignores.
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t broken_pipe;
  sigemptyset(&broken_pipe);
  sigaddset(&broken_pipe, SIGPIPE);
  posix_spawnattr_setsigdefault(&attributes, &broken_pipe);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF);
  const int failed = posix_spawn(&child->pid_, program.c_str(), &actions, &attributes,
                                 Pointers(words).data(), Pointers(variables).data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) {
    child->pid_ = -1;
    return absl::InternalError(
        absl::StrCat("cannot start ", command.program, ": ", std::strerror(failed)));
  }
  const rlimit memory = {kDataBytesMax, kDataBytesMax};
  prlimit(child->pid_, RLIMIT_DATA, &memory, nullptr);
  const rlimit files = {0, 0};  // it writes none
  prlimit(child->pid_, RLIMIT_FSIZE, &files, nullptr);
  child->in_ = std::move(in.write_end);
  child->out_ = std::move(out.read_end);
  child->err_ = std::move(err.read_end);
  fcntl(child->in_.get(), F_SETFL, O_NONBLOCK);
  return child;
}

ChildProcess::~ChildProcess() { Kill(); }

void ChildProcess::Kill() {
  if (pid_ <= 0) return;
  kill(-pid_, SIGKILL);
  const Time deadline = std::chrono::steady_clock::now() + kKillWait;
  // A process that is stuck in a dead file system ends when that responds. Nobody waits for it.
  while (waitpid(pid_, nullptr, WNOHANG) == 0 && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(kEndEvery);
  }
  pid_ = -1;
}

absl::Status ChildProcess::Late() const {
  return absl::DeadlineExceededError(absl::StrCat("'", command_, "' took longer than ",
                                                  timeout_.count() / 1000.0, " s and was stopped",
                                                  if_late_));
}

absl::StatusOr<bool> ChildProcess::ReadSome(Time deadline) {
  pollfd polled[2] = {{out_.get(), POLLIN, 0}, {err_.get(), POLLIN, 0}};
  if (!out_.ok() && !err_.ok()) return false;
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
      deadline - std::chrono::steady_clock::now());
  if (left.count() <= 0) return Late();
  const int ready = poll(polled, 2, static_cast<int>(left.count()) + 1);
  if (ready == 0) return Late();
  if (ready < 0) return true;  // EINTR: the deadline is looked at again
  char buffer[kChunkBytes];
  for (const auto& [end, fd, text] :
       {std::tuple(&polled[0], &out_, &output_), std::tuple(&polled[1], &err_, &errors_)}) {
    if (!fd->ok() || end->revents == 0) continue;
    const ssize_t count = read(fd->get(), buffer, sizeof(buffer));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      fd->Reset();
    } else if (text == &output_) {
      text->append(buffer, static_cast<size_t>(count));
    } else {
      const size_t room = kErrorBytesMax - std::min(kErrorBytesMax, text->size());
      text->append(buffer, std::min(static_cast<size_t>(count), room));
    }
  }
  return true;
}

absl::Status ChildProcess::Exited(Time deadline) {
  int status = 0;
  while (waitpid(pid_, &status, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() > deadline) return Late();
    std::this_thread::sleep_for(kEndEvery);
  }
  pid_ = -1;
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return absl::OkStatus();
  absl::StripAsciiWhitespace(&errors_);
  return absl::InvalidArgumentError(
      absl::StrCat("'", command_, "' failed: ", errors_.empty() ? "it does not say why" : errors_));
}

absl::StatusOr<std::string> ChildProcess::ReadToEnd(size_t bytes_max) {
  in_.Reset();
  const Time deadline = std::chrono::steady_clock::now() + timeout_;
  while (output_.size() <= bytes_max) {
    absl::StatusOr<bool> more = ReadSome(deadline);
    if (!more.ok()) return more.status();
    if (*more) continue;
    absl::Status exited = Exited(deadline);
    if (!exited.ok()) return exited;
    return std::move(output_);
  }
  return absl::ResourceExhaustedError(
      absl::StrCat("'", command_, "' prints more than ", bytes_max, " bytes"));
}

absl::Status ChildProcess::Write(const std::string& text) {
  // Each request is one short line, for which the pipe of a child that reads has room.
  if (write(in_.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size())) {
    return absl::OkStatus();
  }
  const Time deadline = std::chrono::steady_clock::now() + timeout_;
  while (out_.ok() || err_.ok()) {
    absl::StatusOr<bool> more = ReadSome(deadline);
    if (!more.ok()) return more.status();
  }
  absl::Status exited = Exited(deadline);
  return exited.ok() ? absl::InternalError(absl::StrCat("'", command_, "' ended")) : exited;
}

absl::StatusOr<std::string> ChildProcess::ReadLine(size_t bytes_max) {
  const Time deadline = std::chrono::steady_clock::now() + timeout_;
  size_t end = 0;
  while ((end = output_.find('\n')) == std::string::npos) {
    if (output_.size() > bytes_max) {
      return absl::ResourceExhaustedError(absl::StrCat("'", command_, "' prints a long line"));
    }
    absl::StatusOr<bool> more = ReadSome(deadline);
    if (!more.ok()) return more.status();
    if (*more) continue;
    absl::Status exited = Exited(deadline);
    return exited.ok() ? absl::InternalError(absl::StrCat("'", command_, "' ended")) : exited;
  }
  std::string line = output_.substr(0, end);
  output_.erase(0, end + 1);
  return line;
}

absl::StatusOr<std::string> ChildProcess::ReadBytes(size_t count) {
  const Time deadline = std::chrono::steady_clock::now() + timeout_;
  while (output_.size() < count) {
    absl::StatusOr<bool> more = ReadSome(deadline);
    if (!more.ok()) return more.status();
    if (*more) continue;
    absl::Status exited = Exited(deadline);
    return exited.ok() ? absl::InternalError(absl::StrCat("'", command_, "' ended")) : exited;
  }
  std::string bytes = output_.substr(0, count);
  output_.erase(0, count);
  return bytes;
}

}  // namespace tune
