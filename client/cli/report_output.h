// SPDX-License-Identifier: Apache-2.0
// Where a report goes, and in which form: what the report commands share.
#pragma once

#include <CLI/CLI.hpp>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "client/cli/session.h"

namespace tune::client {

struct ReportOutput {
  std::string format;  // empty: what the name of `out` says
  std::string out;     // empty or "-": standard output
  std::string image;
};

// --format, --out and --image. `output` must outlive the command.
void AddOutputFlags(CLI::App& command, ReportOutput& output,
                    std::set<std::string> formats = {"html", "svg", "md", "json", "terminal"});
// "terminal" unless the flags say otherwise.
std::string FormatOf(const ReportOutput& output);
// FAILED_PRECONDITION: the file cannot be written. INVALID_ARGUMENT: its name ends in something
// that is no format, and there is no --format.
absl::Status Write(const ReportOutput& output, const std::string& text);

// tunectl report fusion
void AddFusionReport(CLI::App& report, Session& session);

}  // namespace tune::client
