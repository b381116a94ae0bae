// SPDX-License-Identifier: Apache-2.0
// A gate run as a call: what gate and history add share.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "client/cli/connection.h"
#include "client/cli/job_follow.h"
#include "tune/v1/gate.pb.h"

namespace tune::client {

// RESOURCE_EXHAUSTED: the request is larger than a server takes.
absl::StatusOr<v1::Job> SubmitGate(Connection& connection, const v1::SubmitGateRequest& request);

// Runs it to its end, with progress on stderr unless `quiet`; Ctrl-C ends it (CANCELLED).
absl::StatusOr<v1::GateRun> RunGate(Connection& connection, const v1::SubmitGateRequest& request,
                                    bool quiet);

// Prints a run as a report.
void PrintGate(const v1::GateRun& run);

// "1%" and "0.01" are the same share. INVALID_ARGUMENT names the flag.
absl::StatusOr<double> ParseShare(const std::string& flag, const std::string& text);

}  // namespace tune::client
