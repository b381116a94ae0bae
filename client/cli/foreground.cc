// SPDX-License-Identifier: Apache-2.0
#include "client/cli/foreground.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "base/child_process.h"
#include "base/descriptor.h"
#include "base/status_macros.h"

namespace tune::client {
namespace {

// Signals that somebody may send to a program, but for those that stop it and SIGWINCH, which a
// terminal sends to the whole group.
constexpr int kPassedOn[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGALRM};

// In the child: becomes the program, or writes why not. Calls only what is safe after a fork.
[[noreturn]] void BecomeProgram(char* const* words, pid_t parent, const sigset_t& mask,
                                int error_fd) {
  std::signal(SIGPIPE, SIG_DFL);  // RunTunectl ignores it
  sigprocmask(SIG_SETMASK, &mask, nullptr);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() == parent) execvp(words[0], words);
  const int error = errno;
  const ssize_t written = write(error_fd, &error, sizeof(error));
  _exit(written == sizeof(error) ? kNotFoundCode : 126);
}

// The error of the child's exec, or 0.
int ErrorOfStart(Pipe& pipe) {
  pipe.write_end.Reset();
  int error = 0;
  ssize_t count = 0;
  do {
    count = read(pipe.read_end.get(), &error, sizeof(error));
  } while (count < 0 && errno == EINTR);
  return count == sizeof(error) ? error : 0;
}

// Reaps children that have ended, also those that this process inherits as the first of a
// container. True once the program is among them.
bool Reap(pid_t program, int& status) {
  int one = 0;
  pid_t pid = 0;
  while ((pid = waitpid(-1, &one, WNOHANG)) > 0) {
    if (pid != program) continue;
    status = one;
    return true;
  }
  return false;
}

int WaitFor(pid_t program, const sigset_t& signals) {
  int status = 0;
  while (!Reap(program, status)) {
    siginfo_t info;
    const int signal = sigwaitinfo(&signals, &info);
    const bool was_sent = signal > 0 && info.si_code <= 0;  // by a process, not by the kernel
    if (was_sent && signal != SIGCHLD && info.si_pid != program) kill(program, signal);
  }
  return status;
}

bool SignalCame() {
  sigset_t pending;
  sigpending(&pending);
  return std::any_of(std::begin(kPassedOn), std::end(kPassedOn),
                     [&](int signal) { return sigismember(&pending, signal) == 1; });
}

}  // namespace

Foreground::Foreground() {
  sigemptyset(&signals_);
  for (const int signal : kPassedOn) sigaddset(&signals_, signal);
  sigaddset(&signals_, SIGCHLD);
  sigprocmask(SIG_BLOCK, &signals_, &before_);
}

absl::StatusOr<int> Foreground::Run(const std::vector<std::string>& words) const {
  std::vector<std::string> copies = words;
  std::vector<char*> pointers;
  for (std::string& word : copies) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  Pipe pipe;
  RETURN_IF_ERROR(pipe.Open());
  if (SignalCame()) return absl::CancelledError("interrupted before the program was started");
  const pid_t parent = getpid();
  const pid_t program = fork();
  if (program == 0) BecomeProgram(pointers.data(), parent, before_, pipe.write_end.get());
  if (program < 0) {
    return absl::UnavailableError(
        absl::StrCat("no process can be started: ", std::strerror(errno)));
  }
  const int error = ErrorOfStart(pipe);
  const int status = WaitFor(program, signals_);
  if (error == 0) return status;
  return absl::NotFoundError(absl::StrCat("cannot run '", words[0], "': ", std::strerror(error)));
}

int EndAs(int wait_status) {
  if (!WIFSIGNALED(wait_status)) return WEXITSTATUS(wait_status);
  std::fflush(nullptr);
  const rlimit none = {0, 0};
  setrlimit(RLIMIT_CORE, &none);
  const int signal = WTERMSIG(wait_status);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, signal);
  std::signal(signal, SIG_DFL);
  raise(signal);
  sigprocmask(SIG_UNBLOCK, &set, nullptr);
  return 128 + signal;
}

}  // namespace tune::client
