// SPDX-License-Identifier: Apache-2.0
// A gate run for people, for a pull request, and for a CI system.
#pragma once

#include <string>

#include "client/report/exit_code.h"
#include "tune/v1/gate.pb.h"

namespace tune::client {

enum class Strict { kNo, kYes };  // is "cannot tell" a failure?

std::string ToText(v1::GateVerdict verdict);
std::string ProgressText(const v1::GateProgress& progress);
std::string ReportText(const v1::GateRun& run);
// A line for a kernel that was timed for the history.
std::string TimedText(const v1::GateKernel& kernel);
// GitHub's flavour: a line that says it all, a table, and notes.
std::string MarkdownText(const v1::GateRun& run);
// JUnit XML with one test case a kernel: FAIL is a failure, INVALID an error; INCONCLUSIVE and
// UNGUARDED are skipped, or failures where they are not accepted.
std::string JUnitText(const v1::GateRun& run, Strict strict);

// FAIL goes before INVALID, INVALID before what cannot be told.
ExitCode ExitCodeOf(const v1::GateRun& run, Strict strict);

}  // namespace tune::client
