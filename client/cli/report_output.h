// SPDX-License-Identifier: Apache-2.0
// The destination and the form of a report, shared by the report commands.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/printable.h"
#include "client/cli/command.h"
#include "client/cli/json.h"
#include "client/report/comparison_view.h"
#include "client/report/fusion_view.h"
#include "client/report/html_page.h"
#include "client/report/roofline_view.h"
#include "client/report/sweep_report_view.h"

namespace tune::client {

struct ReportOutput {
  std::string format;  // empty: what the name of `out` says
  std::string out;     // empty or "-": standard output
  std::string image;
};

// --format, --out and --image. `output` must outlive the command.
std::vector<Flag> OutputFlags(ReportOutput& output, std::vector<std::string> formats = {
                                                        "html", "json", "md", "svg", "terminal"});
// "terminal" unless the flags say otherwise.
std::string FormatOf(const ReportOutput& output);
// FAILED_PRECONDITION: the file cannot be written. INVALID_ARGUMENT: its name ends in something
// that is no format, and there is no --format.
absl::Status Write(const ReportOutput& output, const std::string& text);

// Writes `report` in the format that the flags ask for. `to_svg` makes its picture.
template <typename Report, typename ToSvgText>
absl::Status WriteReport(const ReportOutput& output, const Report& report, ToSvgText to_svg) {
  const std::string format = FormatOf(output);
  if (format == "html") return Write(output, HtmlPage(report));
  if (format == "svg") return Write(output, to_svg(report));
  if (format == "md") return Write(output, Printable(MarkdownText(report, output.image)));
  if (format == "json") return Write(output, JsonText(report, Layout::kIndented) + "\n");
  return Write(output, TerminalText(report));
}

}  // namespace tune::client
