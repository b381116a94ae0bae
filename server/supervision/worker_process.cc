// SPDX-License-Identifier: Apache-2.0
#include "server/supervision/worker_process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <future>
#include <limits>
#include <thread>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/mutex.h"
#include "base/plural.h"
#include "base/status_macros.h"
#include "server/supervision/process_tree.h"
#include "server/supervision/reply.h"
#include "server/worker/frame.h"
#include "server/worker/serve.h"

extern char** environ;

namespace tune::server {
namespace {

constexpr int kPollMs = 20;
constexpr std::chrono::milliseconds kLookAtUse(50);
constexpr int64_t kNoRoomBytes = 4 << 20;  // with less of a disk no worker starts, nor compiles
constexpr int64_t kNoRoomFiles = 16;
constexpr int kEntriesMax = 10'000;  // of a scratch folder
constexpr size_t kLastWordsBytes = 4096;
constexpr absl::Duration kLimitMax = absl::Hours(24);
constexpr std::chrono::seconds kKillPatience(5);
// Deadlines must not move when the clock is set.
using SteadyClock = std::chrono::steady_clock;

// The variables of the daemon's environment that a worker inherits, to find libraries, compilers
// and devices. All others are left out: they may hold secrets, and a worker runs foreign code.
bool IsInherited(const std::string& variable) {
  for (const char* prefix :
       {"PATH=", "HOME=", "TZ=", "LD_LIBRARY_PATH=", "VIRTUAL_ENV=", "CXX=", "CUDA_", "NVIDIA_",
        "TUNE_CXX=", "TUNE_CUDA_PATH=", "TUNE_TRITON_PYTHON=", "TUNE_CPU_SANITIZE=", "TUNE_TEST_",
        "ASAN_OPTIONS=", "UBSAN_OPTIONS=", "TSAN_OPTIONS=", "LSAN_OPTIONS="}) {
    if (absl::StartsWith(variable, prefix)) return true;
  }
  return false;
}

std::vector<std::string> EnvironmentOf(const WorkerCommand& command) {
  std::vector<std::string> environment = command.environment;  // of two, getenv takes the first
  for (char** variable = environ; *variable != nullptr; ++variable) {
    if (IsInherited(*variable)) environment.emplace_back(*variable);
  }
  environment.emplace_back("LC_ALL=C.UTF-8");  // compilers' messages in one language
  return environment;
}

absl::Status Failed(const std::string& what, int error) {
  return absl::UnavailableError(absl::StrCat(what, ": ", strerror(error)));
}

// Starts every worker, and lives as long as this process: a worker asks the kernel to be ended with
// its parent, by which the kernel means the thread that started it.
class Spawner {
 public:
  static Spawner& Get() {
    static Spawner* spawner = new Spawner;  // never destroyed, as its thread never ends
    if (spawner->process_ != getpid()) spawner = new Spawner;  // a fork has no threads
    return *spawner;
  }

  absl::StatusOr<ChildProcess> Start(const ChildCommand& command) {
    std::packaged_task<absl::StatusOr<ChildProcess>()> task(
        [&] { return ChildProcess::Start(command); });
    std::future<absl::StatusOr<ChildProcess>> child = task.get_future();
    {
      MutexLock lock(mutex_);
      tasks_.push_back(std::move(task));
    }
    changed_.notify_one();
    return child.get();
  }

 private:
  Spawner() {
    std::thread([this] { Serve(); }).detach();
  }

  void Serve() {
    MutexLock lock(mutex_);
    while (true) {
      while (tasks_.empty()) changed_.wait(lock.native());
      std::packaged_task<absl::StatusOr<ChildProcess>()> task = std::move(tasks_.front());
      tasks_.pop_front();
      lock.Unlock();
      task();
      lock.Lock();
    }
  }

  const pid_t process_ = getpid();
  Mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::packaged_task<absl::StatusOr<ChildProcess>()>> tasks_ ABSL_GUARDED_BY(mutex_);
};

std::string Beyond(const char* what, int64_t limit) {
  return absl::StrCat("it used more than ", limit >> 20, " MiB of ", what);
}

// A number that only the worker that is asked can know.
std::string MakeNonce() {
  std::string nonce(16, '\0');
  if (getrandom(nonce.data(), nonce.size(), 0) != static_cast<ssize_t>(nonce.size())) std::abort();
  return nonce;
}

std::string DescribeExit(int status) {
  if (WIFSIGNALED(status)) {
    return absl::StrCat("killed by signal ", WTERMSIG(status), " (", strsignal(WTERMSIG(status)),
                        ")");
  }
  return absl::StrCat("exited with code ", WEXITSTATUS(status));
}

}  // namespace

absl::StatusOr<std::string> FindWorker(const std::string& name, const std::string& dir) {
  std::vector<std::filesystem::path> places;
  std::error_code error;
  if (!dir.empty()) {
    places.emplace_back(dir);
  } else {
    const auto executable = std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
    places = {executable, executable.parent_path() / "libexec"};
  }
  std::string looked;
  for (const std::filesystem::path& place : places) {
    const std::filesystem::path path = place / name;
    if (access(path.c_str(), X_OK) == 0) return path.string();
    absl::StrAppend(&looked, looked.empty() ? "" : " and ", path.string());
  }
  return absl::NotFoundError(
      absl::StrCat("the worker program ", name, " is not installed; looked for ", looked));
}

absl::StatusOr<std::unique_ptr<WorkerProcess>> WorkerProcess::Start(const WorkerCommand& command) {
  const WorkerLimits& limits = command.limits;
  std::unique_ptr<ControlGroup> group;
  Descriptor entry;
  if (command.groups != nullptr) {
    // The watcher reports the one task that is more than allowed.
    ASSIGN_OR_RETURN(group, command.groups->Make(limits.resident_bytes,
                                                 limits.threads > 0 ? limits.threads + 1 : 0));
    ASSIGN_OR_RETURN(const Descriptor opened, group->Entry());
    entry = CopyAboveChildFiles(opened.get());
  }
  int sockets[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0) {
    return Failed("socketpair", errno);
  }
  Descriptor ours(sockets[0]), theirs_low(sockets[1]), theirs(CopyAboveChildFiles(sockets[1]));
  if (!theirs.ok()) return Failed("fcntl", errno);
  Pipe words;
  RETURN_IF_ERROR(words.Open());
  fcntl(ours.get(), F_SETFL, O_NONBLOCK);
  fcntl(words.read_end.get(), F_SETFL, O_NONBLOCK);
  ChildCommand child_command = {.program = command.program,
                                .arguments = command.args,
                                .environment = EnvironmentOf(command),
                                .files = {{words.write_end.get(), STDOUT_FILENO},
                                          {words.write_end.get(), STDERR_FILENO},
                                          {theirs.get(), kWorkerFd}},
                                .leads_group = true};
  if (entry.ok()) child_command.files.emplace_back(entry.get(), kControlGroupFd);
  ASSIGN_OR_RETURN(ChildProcess child, Spawner::Get().Start(child_command));
  if (child.pid_fd() < 0) return absl::UnavailableError("the kernel opens no pidfd");
  return std::unique_ptr<WorkerProcess>(new WorkerProcess(
      std::move(child), std::move(ours), std::move(words.read_end), limits, std::move(group)));
}

WorkerProcess::WorkerProcess(ChildProcess child, Descriptor socket, Descriptor words,
                             WorkerLimits limits, std::unique_ptr<ControlGroup> group)
    : group_(std::move(group)),
      child_(std::move(child)),
      socket_(std::move(socket)),
      limits_(std::move(limits)),
      stderr_(std::move(words)) {}

WorkerProcess::~WorkerProcess() { Kill(); }

void WorkerProcess::Signal() {
  if (state_ != State::kAlive) return;
  child_.Signal();
  if (group_ != nullptr) group_->Kill();
  state_ = State::kKilled;
}

bool WorkerProcess::Kill() {
  Signal();
  if (Gone()) return true;
  if (!waited_ && child_.Wait(SteadyClock::now() + kKillPatience).has_value()) return Gone();
  waited_ = true;
  return false;
}

bool WorkerProcess::Gone() {
  if (state_ == State::kGone) return true;
  const std::optional<int> status = child_.Wait(SteadyClock::now());
  if (!status.has_value()) return false;
  DrainStderr();
  wait_status_ = *status;
  state_ = State::kGone;
  return true;
}

void WorkerProcess::DrainStderr() {
  char buffer[4096];
  // Bounded, so that a worker that never stops talking cannot hold us here.
  for (int i = 0; i < 64; ++i) {
    const ssize_t got = read(stderr_.get(), buffer, sizeof(buffer));
    if (got <= 0) return;
    last_words_.append(buffer, static_cast<size_t>(got));
    if (last_words_.size() > kLastWordsBytes) {
      last_words_.erase(0, last_words_.size() - kLastWordsBytes);
    }
  }
}

std::string WorkerProcess::Words() const {
  return std::string(absl::StripAsciiWhitespace(last_words_));
}

std::string WorkerProcess::KillAndHear() {
  Kill();
  return Words();
}

WorkerAnswer WorkerProcess::End(WorkerAnswer::Kind kind, const std::string& why) {
  WorkerAnswer answer;
  answer.kind = kind;
  answer.message = why;
  if (kind == WorkerAnswer::Kind::kCancelled) {
    Signal();
    return answer;
  }
  if (!Kill()) {
    absl::StrAppend(&answer.message, "; process ", pid(), " does not end, even when killed");
  } else if (kind == WorkerAnswer::Kind::kDied && group_ != nullptr &&
             group_->HasRunOutOfMemory()) {
    answer.kind = WorkerAnswer::Kind::kExceeded;
    answer.message = Beyond("memory", limits_.resident_bytes);
  } else if (kind == WorkerAnswer::Kind::kDied) {
    absl::StrAppend(&answer.message, DescribeExit(wait_status_));
  }
  const std::string words = Words();
  if (!words.empty()) {
    absl::StrAppend(&answer.message, "; its last words: ", words);
  }
  return answer;
}

WorkerProcess::Ready WorkerProcess::Exchange(std::string_view& unsent, FrameReader& reader,
                                             int wait_ms) {
  pollfd watched[3] = {
      {socket_.get(), static_cast<short>(POLLIN | (unsent.empty() ? 0 : POLLOUT)), 0},
      {stderr_.get(), POLLIN, 0},
      {child_.pid_fd(), POLLIN, 0}};
  if (poll(watched, 3, wait_ms) <= 0) return Ready::kNothing;
  if (watched[1].revents & POLLIN) {
    DrainStderr();
  } else if (watched[1].revents != 0) {
    stderr_.Reset();  // closed by the worker, it would be ready for ever
  }
  if (watched[0].revents & POLLOUT) {
    const ssize_t sent = send(socket_.get(), unsent.data(), unsent.size(), MSG_NOSIGNAL);
    if (sent > 0) unsent.remove_prefix(static_cast<size_t>(sent));
    if (sent < 0 && errno != EAGAIN && errno != EINTR) return Ready::kClosed;
  }
  if (watched[0].revents & (POLLIN | POLLHUP)) {
    absl::StatusOr<bool> whole = reader.ReadFrom(socket_.get());
    if (absl::IsInvalidArgument(whole.status())) return Ready::kBroken;
    if (!whole.ok()) return Ready::kClosed;
    return *whole ? Ready::kReply : Ready::kNothing;
  }
  // Dead, and nothing is left to be read of what it said before.
  return watched[2].revents != 0 ? Ready::kClosed : Ready::kNothing;
}

bool WorkerProcess::HasSpokenUnasked() const {
  char byte;
  return recv(socket_.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
}

bool WorkerProcess::Rest(const WorkerRests& rests, SteadyClock::time_point& deadline) {
  const bool wanted = rests.wanted && rests.wanted();
  if (wanted == rests_since_.has_value()) return wanted;
  kill(-pid(), wanted ? SIGSTOP : SIGCONT);
  if (wanted) {
    rests_since_ = SteadyClock::now();
  } else {
    deadline += SteadyClock::now() - *rests_since_;
    rests_since_.reset();
  }
  if (rests.notify) rests.notify(wanted);
  return wanted;
}

WorkerAnswer WorkerProcess::Call(worker::v1::WorkerRequest request, absl::Duration limit,
                                 const Cancelled& cancelled, const WorkerRests& rests) {
  using Kind = WorkerAnswer::Kind;
  if (!alive()) return {Kind::kDied, {}, "the worker is gone"};
  // Data that is there before the request answers nothing we asked.
  if (HasSpokenUnasked()) return End(Kind::kProtocol, "it spoke without being asked");
  request.set_nonce(MakeNonce());
  absl::StatusOr<std::string> frame = EncodeFrame(request, kRequestFrameBytesMax);
  if (!frame.ok()) return End(Kind::kProtocol, std::string(frame.status().message()));
  std::string_view unsent = *frame;
  SteadyClock::time_point deadline =
      SteadyClock::now() + absl::ToChronoMilliseconds(std::min(limit, kLimitMax));
  FrameReader reader(ReplyFrameBytesMax(request));
  SteadyClock::time_point look_at = SteadyClock::now() + kLookAtUse;
  const int64_t disk_floor = std::min(limits_.free_disk_bytes, FreeDiskBytes() / 2);
  const int64_t files_floor = std::min(kNoRoomFiles, FreeFiles() / 2);
  while (true) {
    if (SteadyClock::now() >= look_at) {
      const std::string excess = Excess();
      if (!excess.empty()) return End(Kind::kExceeded, excess);
      const std::string disk = DiskShortOf(disk_floor, files_floor);
      if (!disk.empty()) return End(Kind::kHostShort, disk);
      look_at = SteadyClock::now() + kLookAtUse;
    }
    const bool resting = Rest(rests, deadline);
    const int64_t left_ms =
        resting
            ? kPollMs
            : std::chrono::ceil<std::chrono::milliseconds>(deadline - SteadyClock::now()).count();
    if (left_ms <= 0) {
      return End(Kind::kDeadline, absl::StrCat("no answer within ", absl::FormatDuration(limit)));
    }
    if (cancelled && cancelled()) return End(Kind::kCancelled, "cancelled");
    const Ready ready =
        Exchange(unsent, reader, static_cast<int>(std::min<int64_t>(kPollMs, left_ms)));
    if (ready == Ready::kClosed) return End(Kind::kDied, "");
    if (ready == Ready::kBroken) {
      return End(Kind::kProtocol, "it announced a message longer than allowed");
    }
    if (ready == Ready::kReply) {
      WorkerAnswer answer;
      answer.kind = Kind::kReplied;
      if (!unsent.empty() || !ParseReply(reader.payload(), answer.reply)) {
        return End(Kind::kProtocol, "it sent what is not a reply");
      }
      if (answer.reply.nonce() != request.nonce()) {
        return End(Kind::kProtocol, "it answered another request than it was asked");
      }
      return answer;
    }
  }
}

std::string WorkerProcess::Excess() const {
  const int64_t resident_most = group_ == nullptr ? limits_.resident_bytes : 0;
  if (limits_.processes > 0) {
    const TreeUse use = UseOfTree(pid(), limits_.processes + 1);
    if (use.processes > limits_.processes) {
      return absl::StrCat("it started more than ", limits_.processes, " processes");
    }
    if (limits_.threads > 0 && use.threads > limits_.threads) {
      return absl::StrCat("it started more than ", limits_.threads, " threads");
    }
    if (resident_most > 0 && use.resident_bytes > resident_most) {
      return Beyond("memory", resident_most);
    }
  } else if (resident_most > 0 && ResidentBytes() > resident_most) {
    return Beyond("memory", resident_most);
  }
  if (limits_.scratch_bytes > 0) {
    const int64_t bytes = BytesUnder(limits_.scratch_dir, kEntriesMax);
    if (bytes == std::numeric_limits<int64_t>::max()) {
      return absl::StrCat("its scratch folder has more than ", kEntriesMax,
                          " entries, or one that cannot be read");
    }
    if (bytes > limits_.scratch_bytes) return Beyond("its scratch folder", limits_.scratch_bytes);
  }
  return "";
}

int64_t WorkerProcess::FreeDiskBytes() const {
  struct statvfs disk = {};
  if (limits_.free_disk_bytes == 0 || statvfs(limits_.scratch_dir.c_str(), &disk) != 0) {
    return std::numeric_limits<int64_t>::max();
  }
  return static_cast<int64_t>(disk.f_bavail) * static_cast<int64_t>(disk.f_frsize);
}

int64_t WorkerProcess::FreeFiles() const {
  struct statvfs disk = {};
  if (limits_.free_disk_bytes == 0 || statvfs(limits_.scratch_dir.c_str(), &disk) != 0 ||
      disk.f_files == 0) {  // some file systems do not count them
    return std::numeric_limits<int64_t>::max();
  }
  return static_cast<int64_t>(disk.f_favail);
}

std::string WorkerProcess::DiskShortOf(int64_t bytes, int64_t files) const {
  constexpr double kMiB = 1 << 20;
  if (const int64_t free = FreeDiskBytes(); free < bytes) {
    return absl::StrFormat("%.1f MiB are free on the disk of %s, and %.1f MiB are to stay free",
                           static_cast<double>(free) / kMiB, limits_.scratch_dir,
                           static_cast<double>(bytes) / kMiB);
  }
  if (const int64_t room = FreeFiles(); room < files) {
    return absl::StrCat("the disk of ", limits_.scratch_dir, " has room for ",
                        Counted(room, "more file"), ", and ", files, " are to stay free");
  }
  return "";
}

std::string WorkerProcess::WhyDiskShort() const {
  return DiskShortOf(limits_.free_disk_bytes, kNoRoomFiles);
}

std::string WorkerProcess::WhyDiskFull() const {
  return DiskShortOf(std::min(limits_.free_disk_bytes, kNoRoomBytes), kNoRoomFiles);
}

int64_t WorkerProcess::LimitGrowth(int64_t bytes) {
  const int64_t now = group_ != nullptr       ? group_->MemoryBytes()
                      : limits_.processes > 0 ? ResidentBytesOfAll()
                                              : ResidentBytes();
  limits_.resident_bytes = now + bytes;
  // On failure the group keeps its first limit.
  if (group_ != nullptr) group_->LimitMemory(limits_.resident_bytes).IgnoreError();
  return limits_.resident_bytes;
}

int64_t WorkerProcess::ResidentBytes() const { return ResidentBytesOf(pid()); }

int64_t WorkerProcess::ResidentBytesOfAll() const {
  return UseOfTree(pid(), std::max(limits_.processes, 0) + 1).resident_bytes;
}

}  // namespace tune::server
