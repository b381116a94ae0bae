// SPDX-License-Identifier: Apache-2.0
// Runs a program in the place of this one, as far as whoever started this one can tell: the program
// has this one's files, process group and environment, gets the signals that are sent to this one,
// and this one ends as the program does.
#pragma once

#include <csignal>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace tune::client {

// The exit code of a program that cannot be started, as of a shell.
inline constexpr int kNotFoundCode = 127;

// Blocks the signals that end a process, in this thread and those that it starts, so that this
// process outlives its program. Make one before any thread.
class Foreground {
 public:
  Foreground();

  // Runs a program of the PATH to its end and returns its status as waitpid does. Passes signals on
  // to it, unless the terminal sent them, which sends them to the whole process group, or the
  // program itself. The program is killed if this process dies. NOT_FOUND if it cannot be started,
  // CANCELLED if a signal came before. REQUIRES: nobody else waits for children.
  absl::StatusOr<int> Run(const std::vector<std::string>& words) const;

 private:
  sigset_t signals_;
  sigset_t before_;
};

// Ends this process as a program with that status of waitpid ended: by the same signal, without a
// core dump of its own. Returns the exit code if no signal ended it.
int EndAs(int wait_status);

}  // namespace tune::client
