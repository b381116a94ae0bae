// SPDX-License-Identifier: Apache-2.0
#include "client/libtune/daemon.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <optional>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/address.h"
#include "base/descriptor.h"
#include "base/status_macros.h"
#include "client/libtune/background.h"
#include "client/libtune/node_folder.h"

namespace tune::library {
namespace {

constexpr char kProgram[] = "tune-fetch";
constexpr size_t kWordsMax = 4096;                    // of what the program says when it fails
constexpr std::chrono::microseconds kReapPause(200);  // it has said all that it will

absl::Status NoAnswer(const std::string& address, absl::string_view why) {
  return absl::UnavailableError(absl::StrCat(address, ": ", why));
}

// A socket that nobody listens at is known at once, without a process.
absl::Status Probe(const std::string& address) {
  const std::string path = SocketPath(address);
  sockaddr_un name = {};
  name.sun_family = AF_UNIX;
  if (path.empty()) return absl::OkStatus();
  if (path.size() >= sizeof(name.sun_path)) return NoAnswer(address, "the path is too long");
  std::memcpy(name.sun_path, path.data(), path.size());
  Descriptor fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.ok() || connect(fd.get(), reinterpret_cast<sockaddr*>(&name), sizeof(name)) != 0) {
    return absl::UnavailableError(
        absl::StrCat("no daemon answers at ", address, ": ", std::strerror(errno)));
  }
  return absl::OkStatus();
}

// TUNE_FETCH's, else beside the library, else of the PATH.
std::string ProgramName(const Environment& environment) {
  const std::string named = environment.Variable("TUNE_FETCH");
  if (!named.empty()) return named;
  const std::string folder = LibraryFolder();
  const std::string beside = absl::StrCat(folder, "/../bin/", kProgram);
  return !folder.empty() && access(beside.c_str(), X_OK) == 0 ? beside : kProgram;
}

struct Pipe {
  Descriptor read;
  Descriptor write;

  bool Open() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return false;
    read.Reset(ends[0]);
    write.Reset(ends[1]);
    return true;
  }
};

// The input of a program as a file, which needs no writer: a pipe could be full, or closed.
absl::StatusOr<Descriptor> InputOf(const std::string& text) {
  Descriptor file(text.empty() ? open("/dev/null", O_RDONLY | O_CLOEXEC)
                               : memfd_create("tune-fetch", MFD_CLOEXEC));
  if (file.ok() && WriteAll(file.get(), text) &&
      (text.empty() || lseek(file.get(), 0, SEEK_SET) == 0)) {
    return file;
  }
  return absl::UnavailableError(std::strerror(errno));
}

int MillisecondsUntil(Deadline deadline) {
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
  return static_cast<int>(std::clamp<int64_t>(left.count(), 0, 1 << 30));
}

// A child that is killed, unless it has ended, and always reaped.
class Child {
 public:
  // With its output and its complaints in the pipes, and the signals as a new program expects them.
  int Start(const std::vector<std::string>& words, const Environment& environment,
            const Descriptor& input, const Pipe& out, const Pipe& complaints) {
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    posix_spawn_file_actions_init(&files);
    posix_spawnattr_init(&attributes);
    posix_spawn_file_actions_adddup2(&files, input.get(), STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&files, out.write.get(), STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&files, complaints.write.get(), STDERR_FILENO);
    sigset_t none;
    sigset_t all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    std::vector<char*> arguments;
    for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    // Not posix_spawnp, which reads the job's PATH.
    const int error = posix_spawn(&pid_, environment.PathOf(words.front()).c_str(), &files,
                                  &attributes, arguments.data(), environment.entries());
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&files);
    if (error != 0) pid_ = -1;
    return error;
  }
  ~Child() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    int ignored = 0;
    Reap(ignored, 0);
  }
  // Its exit code; nothing: it has not ended in time. Where the job has its children reaped for it,
  // 0: what came is checked anyway.
  std::optional<int> Wait(Deadline deadline, int end_fd) {
    int status = 0;
    pid_t ended = Reap(status, WNOHANG);
    while (ended == 0) {
      if (MillisecondsUntil(deadline) == 0 || HasEnded(end_fd)) return std::nullopt;
      std::this_thread::sleep_for(kReapPause);
      ended = Reap(status, WNOHANG);
    }
    pid_ = -1;
    return ended < 0 ? 0 : WIFEXITED(status) ? WEXITSTATUS(status) : 1;
  }

 private:
  pid_t Reap(int& status, int options) const {
    pid_t ended = 0;
    do {
      ended = waitpid(pid_, &status, options);
    } while (ended < 0 && errno == EINTR);
    return ended;
  }

  pid_t pid_ = -1;
};

// Appends what is there; false at the end.
bool Take(Descriptor& fd, size_t most, std::string& into) {
  char buffer[64 << 10];
  const ssize_t count = read(fd.get(), buffer, sizeof(buffer));
  if (count < 0 && (errno == EINTR || errno == EAGAIN)) return true;
  if (count <= 0) return false;
  into.append(buffer, std::min(static_cast<size_t>(count), most + 1 - std::min(most, into.size())));
  return true;
}

// All that both pipes give until both end. False: not in time, given up, or too much.
bool ReadBoth(Pipe& out, Pipe& complaints, const Order& order, std::string& data,
              std::string& words) {
  while (out.read.ok() || complaints.read.ok()) {
    const int left = MillisecondsUntil(order.deadline);
    pollfd ends[] = {
        {out.read.get(), POLLIN, 0}, {complaints.read.get(), POLLIN, 0}, {order.end_fd, POLLIN, 0}};
    const int ready = poll(ends, 3, left);
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0 || left == 0 || ends[2].revents != 0) return false;
    if (ends[0].revents != 0 && !Take(out.read, order.bytes_max, data)) out.read.Reset();
    if (ends[1].revents != 0 && !Take(complaints.read, kWordsMax, words)) complaints.read.Reset();
    if (data.size() > order.bytes_max) return false;
  }
  return true;
}

std::string LastLine(const std::string& text) {
  const std::vector<absl::string_view> lines = absl::StrSplit(text, '\n', absl::SkipEmpty());
  return lines.empty() ? "no answer" : std::string(lines.back().substr(0, 300));
}

}  // namespace

std::string LibraryFolder() {
  Dl_info info = {};
  if (dladdr(reinterpret_cast<void*>(&LibraryFolder), &info) == 0) return "";
  std::error_code error;
  return std::filesystem::canonical(info.dli_fname, error).parent_path();
}

absl::StatusOr<std::string> Fetch(const Order& order) {
  RETURN_IF_ERROR(Probe(order.address));
  const std::string program = ProgramName(order.environment);
  const int left_ms = MillisecondsUntil(order.deadline);
  if (left_ms == 0) return NoAnswer(order.address, "no answer in time");
  absl::StatusOr<Descriptor> input = InputOf(order.input);
  if (!input.ok()) return NoAnswer(order.address, input.status().message());
  Pipe out;
  Pipe complaints;
  if (!out.Open() || !complaints.Open()) return NoAnswer(order.address, std::strerror(errno));
  Child child;
  const int error = child.Start({program, order.what, order.digest, order.address,
                                 absl::StrCat(left_ms), absl::StrCat(order.bytes_max)},
                                order.environment, *input, out, complaints);
  if (error != 0) {
    return NoAnswer(order.address, absl::StrCat("cannot start ", program,
                                                ", which asks the daemon: ", std::strerror(error)));
  }
  out.write.Reset();
  complaints.write.Reset();
  std::string data;
  std::string words;
  const bool read = ReadBoth(out, complaints, order, data, words);
  const auto code = read ? child.Wait(order.deadline, order.end_fd) : std::nullopt;
  if (!code.has_value()) return NoAnswer(order.address, "no answer in time");
  if (*code != 0) return NoAnswer(order.address, LastLine(words));
  return data;
}

}  // namespace tune::library
