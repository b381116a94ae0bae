// SPDX-License-Identifier: Apache-2.0
#include "base/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"

extern char** environ;

namespace tune {
namespace {

constexpr int kLowestOfOurs = 10;  // above every number of a child's file
constexpr size_t kErrorBytesMax = 4096;
constexpr size_t kChunkBytes = 1 << 16;
constexpr rlim_t kDataBytesMax = rlim_t{2} << 30;  // what unpacking an object may take
constexpr int kWithoutPidFdMs = 1;                 // between looks, where there is no pidfd
constexpr auto kKillWait = std::chrono::seconds(2);

int MillisecondsUntil(Deadline deadline) {
  if (deadline == Deadline::max()) return -1;
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
  return static_cast<int>(std::clamp<int64_t>(left.count(), 0, 1 << 30));
}

std::vector<char*> Pointers(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  pointers.reserve(words.size() + 1);
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return pointers;
}

enum class Progress { kSome, kEnd, kLate };

// Appends the next piece of either stream; a stream that has ended is closed. Of each stream it
// keeps one byte more than its bound and discards the rest.
Progress ReadSome(Descriptor& out, Descriptor& err, const ChildBounds& bounds, std::string& output,
                  std::string& errors) {
  if (!out.ok() && !err.ok()) return Progress::kEnd;
  const int left_ms = MillisecondsUntil(bounds.deadline);
  pollfd polled[] = {{out.get(), POLLIN, 0}, {err.get(), POLLIN, 0}, {bounds.end_fd, POLLIN, 0}};
  const int ready = poll(polled, 3, left_ms);
  if (ready < 0 && errno == EINTR) return Progress::kSome;
  if (ready <= 0 || left_ms == 0 || polled[2].revents != 0) return Progress::kLate;
  const auto read_from = [](const pollfd& polled_end, Descriptor& end, size_t most,
                            std::string& text) {
    char buffer[kChunkBytes];
    if (polled_end.revents == 0) return;
    const ssize_t count = read(end.get(), buffer, sizeof(buffer));
    if (count < 0 && (errno == EINTR || errno == EAGAIN)) return;
    if (count <= 0) return end.Reset();
    const size_t room = most < text.size() ? 0 : most - text.size() + 1;
    text.append(buffer, std::min(static_cast<size_t>(count), room));
  };
  read_from(polled[0], out, bounds.output_max, output);
  read_from(polled[1], err, bounds.errors_max, errors);
  return Progress::kSome;
}

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

}  // namespace

std::vector<std::string> EnvironmentWithout(const std::vector<absl::string_view>& prefixes,
                                            std::vector<std::string> added) {
  std::vector<std::string> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const bool is_left_out =
        std::any_of(prefixes.begin(), prefixes.end(),
                    [&](absl::string_view prefix) { return absl::StartsWith(*variable, prefix); });
    if (!is_left_out) variables.emplace_back(*variable);
  }
  std::move(added.begin(), added.end(), std::back_inserter(variables));
  return variables;
}

Descriptor CopyAboveChildFiles(int fd) {
  return Descriptor(fcntl(fd, F_DUPFD_CLOEXEC, kLowestOfOurs));
}

absl::Status Pipe::Open() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    return absl::UnavailableError(absl::StrCat("no pipe: ", std::strerror(errno)));
  }
  const Descriptor low_read(ends[0]), low_write(ends[1]);
  read_end = CopyAboveChildFiles(ends[0]);
  write_end = CopyAboveChildFiles(ends[1]);
  if (read_end.ok() && write_end.ok()) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("no pipe: ", std::strerror(errno)));
}

absl::StatusOr<ChildProcess> ChildProcess::Start(const ChildCommand& command) {
  std::vector<std::string> words = {command.program};
  words.insert(words.end(), command.arguments.begin(), command.arguments.end());
  std::vector<std::string> variables = command.environment;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  std::array<bool, kLowestOfOurs> is_set = {};
  for (const auto& [ours, theirs] : command.files) {
    posix_spawn_file_actions_adddup2(&actions, ours, theirs);
    is_set[static_cast<size_t>(theirs)] = true;
  }
  if (!is_set[STDIN_FILENO]) {
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  }
  for (int fd = STDERR_FILENO + 1; fd < kLowestOfOurs; ++fd) {
    if (!is_set[static_cast<size_t>(fd)]) posix_spawn_file_actions_addclose(&actions, fd);
  }
  posix_spawn_file_actions_addclosefrom_np(&actions, kLowestOfOurs);
  if (!command.folder.empty()) {
    posix_spawn_file_actions_addchdir_np(&actions, command.folder.c_str());
  }
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t signals;
  sigemptyset(&signals);
  posix_spawnattr_setsigmask(&attributes, &signals);
  sigfillset(&signals);
  posix_spawnattr_setsigdefault(&attributes, &signals);
  const int group = command.leads_group ? POSIX_SPAWN_SETPGROUP : 0;
  posix_spawnattr_setflags(
      &attributes, static_cast<int16_t>(POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | group));
  pid_t pid = -1;
  const int error = posix_spawn(&pid, command.program.c_str(), &actions, &attributes,
                                Pointers(words).data(), Pointers(variables).data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (error == 0) return ChildProcess(pid, command.leads_group);
  return absl::UnavailableError(
      absl::StrCat("cannot start ", command.program, ": ", std::strerror(error)));
}

ChildProcess::ChildProcess(pid_t pid, bool leads_group)
    : pid_(pid),
      leads_group_(leads_group),
      pid_fd_(static_cast<int>(syscall(SYS_pidfd_open, pid, 0))) {}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      leads_group_(other.leads_group_),
      pid_fd_(std::move(other.pid_fd_)),
      status_(other.status_) {}

ChildProcess::~ChildProcess() {
  if (pid_ <= 0 || status_.has_value()) return;
  Signal();
  // A process that is stuck in a dead file system ends when that responds. Nobody waits for it.
  Wait(std::chrono::steady_clock::now() + kKillWait);
}

void ChildProcess::Signal() {
  if (status_.has_value()) return;
  // The child is not reaped yet, so its id cannot have become another process's or group's.
  kill(leads_group_ ? -pid_ : pid_, SIGKILL);
  // It may have left its group.
  if (pid_fd_.ok()) syscall(SYS_pidfd_send_signal, pid_fd_.get(), SIGKILL, nullptr, 0);
}

std::optional<int> ChildProcess::Wait(Deadline deadline, int end_fd) {
  while (!status_.has_value()) {
    const bool blocks = deadline == Deadline::max() && end_fd < 0;
    int status = 0;
    const pid_t ended = waitpid(pid_, &status, blocks ? 0 : WNOHANG);
    if (ended < 0 && errno == EINTR) continue;
    if (ended != 0) {
      status_ = ended < 0 ? 0 : status;
      break;
    }
    const int left_ms = MillisecondsUntil(deadline);
    if (left_ms == 0) return std::nullopt;
    pollfd ends[] = {{pid_fd_.get(), POLLIN, 0}, {end_fd, POLLIN, 0}};
    poll(ends, 2, pid_fd_.ok() ? left_ms : kWithoutPidFdMs);
    if (ends[1].revents != 0) return std::nullopt;
  }
  return status_;
}

int ExitCodeOf(int wait_status) {
  return WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 128 + WTERMSIG(wait_status);
}

absl::StatusOr<ChildResult> RunChild(ChildCommand command, ChildErrors errors,
                                     const ChildBounds& bounds) {
  Pipe out, err;
  RETURN_IF_ERROR(out.Open());
  command.files.emplace_back(out.write_end.get(), STDOUT_FILENO);
  if (errors == ChildErrors::kApart) {
    RETURN_IF_ERROR(err.Open());
    command.files.emplace_back(err.write_end.get(), STDERR_FILENO);
  } else if (errors == ChildErrors::kInOutput) {
    command.files.emplace_back(out.write_end.get(), STDERR_FILENO);
  }
  ASSIGN_OR_RETURN(ChildProcess child, ChildProcess::Start(command));
  out.write_end.Reset();
  err.write_end.Reset();
  ChildResult result;
  Progress progress = Progress::kSome;
  while (progress == Progress::kSome) {
    progress = ReadSome(out.read_end, err.read_end, bounds, result.output, result.errors);
    if (bounds.kills_at_max && result.output.size() > bounds.output_max) {
      return absl::ResourceExhaustedError(
          absl::StrCat(command.program, " printed more than ", bounds.output_max, " bytes"));
    }
  }
  const auto status =
      progress == Progress::kEnd ? child.Wait(bounds.deadline, bounds.end_fd) : std::nullopt;
  if (!status.has_value()) {
    return absl::DeadlineExceededError(absl::StrCat(command.program, " did not end in time"));
  }
  result.exit_code = ExitCodeOf(*status);
  result.output.resize(std::min(result.output.size(), bounds.output_max));
  return result;
}

absl::StatusOr<std::unique_ptr<Conversation>> Conversation::Start(
    const ConversationCommand& command) {
  const std::string path = TrustedPath();
  const std::string program = Find(command.program, path);
  if (program.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("no ", command.program, " in PATH; ", command.if_missing));
  }
  std::vector<std::string> added = {absl::StrCat("PATH=", path), "LC_ALL=C", "LANGUAGE="};
  added.insert(added.end(), command.environment.begin(), command.environment.end());
  Pipe in, out, err;
  for (Pipe* pipe : {&in, &out, &err}) RETURN_IF_ERROR(pipe->Open());
  ASSIGN_OR_RETURN(ChildProcess child,
                   ChildProcess::Start({.program = program,
                                        .arguments = command.arguments,
                                        .environment = EnvironmentWithout(
                                            {"GIT_", "PYTHON", "PATH=", "LC_", "LANG"}, added),
                                        .files = {{in.read_end.get(), STDIN_FILENO},
                                                  {out.write_end.get(), STDOUT_FILENO},
                                                  {err.write_end.get(), STDERR_FILENO}},
                                        .leads_group = true}));
  const rlimit memory = {kDataBytesMax, kDataBytesMax};
  prlimit(child.pid(), RLIMIT_DATA, &memory, nullptr);
  const rlimit files = {0, 0};
  prlimit(child.pid(), RLIMIT_FSIZE, &files, nullptr);
  std::unique_ptr<Conversation> conversation(new Conversation(command, std::move(child)));
  conversation->in_ = std::move(in.write_end);
  conversation->out_ = std::move(out.read_end);
  conversation->err_ = std::move(err.read_end);
  fcntl(conversation->in_.get(), F_SETFL, O_NONBLOCK);
  return conversation;
}

absl::Status Conversation::Late() const {
  return absl::DeadlineExceededError(absl::StrCat("'", command_.shown, "' took longer than ",
                                                  command_.timeout.count() / 1000.0,
                                                  " s and was stopped", command_.if_late));
}

absl::Status Conversation::End(Deadline deadline) {
  const std::optional<int> status = child_.Wait(deadline);
  if (!status.has_value()) return Late();
  if (*status == 0) return absl::OkStatus();
  absl::StripAsciiWhitespace(&errors_);
  return absl::InvalidArgumentError(absl::StrCat(
      "'", command_.shown, "' failed: ", errors_.empty() ? "it does not say why" : errors_));
}

absl::Status Conversation::ReadUntil(const std::function<bool()>& done) {
  const ChildBounds bounds = {.deadline = std::chrono::steady_clock::now() + command_.timeout,
                              .output_max = std::numeric_limits<size_t>::max() - 1,
                              .errors_max = kErrorBytesMax};
  while (!done()) {
    const Progress progress = ReadSome(out_, err_, bounds, output_, errors_);
    if (progress == Progress::kLate) return Late();
    if (progress == Progress::kSome) continue;
    RETURN_IF_ERROR(End(bounds.deadline));
    return absl::InternalError(absl::StrCat("'", command_.shown, "' ended"));
  }
  return absl::OkStatus();
}

std::string Conversation::TakeOutput(size_t bytes) {
  std::string taken = output_.substr(0, bytes);
  output_.erase(0, bytes);
  return taken;
}

absl::StatusOr<std::string> Conversation::ReadToEnd(size_t bytes_max) {
  in_.Reset();
  const absl::Status read = ReadUntil([&] { return output_.size() > bytes_max; });
  if (read.ok()) {
    return absl::ResourceExhaustedError(
        absl::StrCat("'", command_.shown, "' prints more than ", bytes_max, " bytes"));
  }
  if (absl::IsInternal(read)) return std::move(output_);  // it ended well
  return read;
}

absl::Status Conversation::Write(const std::string& text) {
  // Each request is one short line, for which the pipe of a child that reads has room.
  if (write(in_.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size())) {
    return absl::OkStatus();
  }
  return ReadUntil([] { return false; });
}

absl::StatusOr<std::string> Conversation::ReadLine(size_t bytes_max) {
  size_t end = 0;
  RETURN_IF_ERROR(ReadUntil([&] {
    end = output_.find('\n');
    return end != std::string::npos || output_.size() > bytes_max;
  }));
  if (end == std::string::npos) {
    return absl::ResourceExhaustedError(absl::StrCat("'", command_.shown, "' prints a long line"));
  }
  std::string line = TakeOutput(end + 1);
  line.pop_back();
  return line;
}

absl::StatusOr<std::string> Conversation::ReadBytes(size_t count) {
  RETURN_IF_ERROR(ReadUntil([&] { return output_.size() >= count; }));
  return TakeOutput(count);
}

}  // namespace tune
