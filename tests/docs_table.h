// SPDX-License-Identifier: Apache-2.0
// Tables of the documents that tests hold true.
#pragma once

#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace tune {

// The rows of every table of a page whose first cell is code, cells without blanks and backquotes
// at their ends. `path` is below the project's folder.
inline std::vector<std::vector<std::string>> TableRows(const std::string& path) {
  std::vector<std::vector<std::string>> rows;
  std::ifstream page(std::string(TUNE_PROJECT_DIR) + "/" + path);
  for (std::string line; std::getline(page, line);) {
    if (!absl::StartsWith(line, "| `")) continue;
    std::vector<std::string> row;
    for (absl::string_view cell : absl::StrSplit(line.substr(1, line.size() - 2), '|')) {
      cell = absl::StripAsciiWhitespace(cell);
      if (absl::StartsWith(cell, "`") && absl::EndsWith(cell, "`") && cell.size() > 1) {
        cell = cell.substr(1, cell.size() - 2);
      }
      row.emplace_back(cell);
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

// A source with the header or the statement of a row of docs/sources.md.
inline std::string SampleOf(const std::string& row) {
  const bool header = absl::StartsWith(row, "<");
  return absl::StrCat(header ? "#include " + row : "#include <cooperative_groups.h>",
                      "\nnamespace cooperative_groups {}\nnamespace cg = cooperative_groups;\n",
                      "extern \"C\" __global__ void sample(int* i, float* f, double* d) {\n",
                      header ? "i[0] = 1;" : row, "\n}\n");
}

}  // namespace tune
