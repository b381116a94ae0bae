// SPDX-License-Identifier: Apache-2.0
// A sweep as a person follows it: the live line while it runs, the report when it is over.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "client/cli/connection.h"
#include "client/cli/job_follow.h"
#include "client/cli/session.h"
#include "client/report/exit_code.h"
#include "client/report/terminal.h"
#include "tune/v1/report.pb.h"
#include "tune/v1/sweep.pb.h"

namespace tune::client {

inline constexpr char kVerboseSweepHelp[] =
    "List every source of its warm start, every tie and every kind of failure";

struct WatchedSweep {
  v1::Sweep sweep;           // as last seen
  bool interrupted = false;  // the person stopped watching
};

// Follows a sweep by its job to its end, with progress on stderr: a live line on a terminal, else a
// plain line every few seconds; nothing if `quiet`.
absl::StatusOr<WatchedSweep> FollowSweep(Connection& connection, int64_t job_id,
                                         OnInterrupt on_interrupt, bool quiet);

// The exit code of a command that followed the sweep to its end.
ExitCode ExitCodeOf(const v1::Sweep& sweep);

// Parses "100" trials, or "30s", "5min", "1h".
absl::StatusOr<v1::Budget> ParseBudget(const std::string& text);

// Prints the sweep, and sets the session's exit code.
absl::Status PrintWatched(Session& session, Connection& connection, const WatchedSweep& watched,
                          bool verbose);

// Submits a sweep and follows it to its end. CANCELLED: the person stopped it.
absl::Status RunSweep(Connection& connection, const v1::SubmitSweepRequest& request, bool quiet);

// "137/231  42.1/s  2 s left  best 35.2 us  failed: 2 compile_failed".
std::string ProgressText(const v1::Sweep& sweep);

// How long a sweep with a budget in seconds may take, said before it does; empty without one.
std::string PlanText(const v1::Sweep& sweep);

// The outcome of a finished or stopped sweep, with the next command to type. `failures` tells why
// configs were not ok. With `verbose` it lists where the sweep started from, every tie and all
// examples of failures.
std::string ReportText(const v1::Sweep& sweep, const v1::SweepReport& failures = {},
                       bool verbose = false);

// The report of a sweep some of whose configs were not ok; empty if all were, or if the server does
// not tell.
v1::SweepReport WhyNotOk(Connection& connection, const v1::Sweep& sweep);

}  // namespace tune::client
