// SPDX-License-Identifier: Apache-2.0
// The log: lines for people, or JSON for collectors, on stderr.
//
// A daemon's log never blocks the threads that write to it. StartDaemonLog puts a pipe in the place
// of stderr: lines of spdlog and lines that libraries write to stderr (gRPC, absl, the C library)
// are put into one queue, in one format, and a thread writes them to the real stderr. If its reader
// stops, the queue fills up, lines are dropped, and their number is logged once there is room
// again.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace tune::server {

enum class LogFormat { kText, kJson };

// `level`: "debug", "info", "warn", "error" or "off". INVALID_ARGUMENT names them. Lines are
// written by the threads that log them, which wait for the reader: for programs of a user.
absl::Status StartLog(const std::string& level, LogFormat format);

// Starts the log of a daemon, whose threads never wait for the reader. Call once; signals that a
// thread of the program waits for must be blocked by then.
absl::Status StartDaemonLog(const std::string& level, LogFormat format);
// INVALID_ARGUMENT as above.
absl::Status CheckLogLevel(const std::string& level);
// Changes the level of the log that was started.
absl::Status SetLogLevel(const std::string& level);
// Writes why the daemon does not start, whatever the level.
void LogFailure(const absl::Status& status);
// Waits until all lines are written, but no longer than that.
void FlushDaemonLog(absl::Duration patience);

}  // namespace tune::server
