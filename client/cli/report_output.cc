// SPDX-License-Identifier: Apache-2.0
#include "client/cli/report_output.h"

#include <cstdio>
#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/cli/user_file.h"

namespace tune::client {

std::vector<Flag> OutputFlags(ReportOutput& output, std::vector<std::string> formats) {
  return {Flag("--format", &output.format, "Format; by default the ending of --out")
              .OneOf(std::move(formats)),
          Flag("-o,--out", &output.out, "File to write; by default standard output"),
          Flag("--image", &output.image, "Link to the SVG, for Markdown")};
}

std::string FormatOf(const ReportOutput& output) {
  if (!output.format.empty()) return output.format;
  for (const char* format : {"html", "svg", "md", "json", "csv"}) {
    if (absl::EndsWith(output.out, absl::StrCat(".", format))) return format;
  }
  return "terminal";
}

absl::Status Write(const ReportOutput& output, const std::string& text) {
  if (output.out.empty() || output.out == "-") {
    std::fputs(text.c_str(), stdout);
    return absl::OkStatus();
  }
  const std::string ending = std::filesystem::path(output.out).extension();
  if (output.format.empty() && FormatOf(output) == "terminal" && !ending.empty() &&
      ending != ".txt") {
    return absl::InvalidArgumentError(absl::StrCat(
        "--out '", output.out, "' ends in no format: give --format, or end it in .html, ",
        ".svg, .md, .json, .csv or .txt"));
  }
  if (const absl::Status written = WriteFile(output.out, text); !written.ok()) {
    return absl::FailedPreconditionError(written.message());
  }
  std::fprintf(stderr, "wrote %s\n", output.out.c_str());
  return absl::OkStatus();
}

}  // namespace tune::client
