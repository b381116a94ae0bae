// SPDX-License-Identifier: Apache-2.0
#include "client/report/markdown.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "base/printable.h"

namespace tune::client {
namespace {

bool IsCode(const std::string& cell) {
  return cell.size() > 2 && cell.front() == '`' && cell.back() == '`' &&
         cell.find('`', 1) == cell.size() - 1;
}

std::string Cell(const std::string& text) {
  if (!IsCode(text)) return MarkdownCell(text);
  return absl::StrReplaceAll(Printable(text), {{"|", "\\|"}, {"\n", " "}});
}

}  // namespace

std::string MarkdownCell(const std::string& text) {
  // A zero-width joiner after @ keeps a config or a compiler's message from calling people.
  return absl::StrReplaceAll(Printable(text), {{"|", "\\|"},
                                               {"\n", " "},
                                               {"<", "&lt;"},
                                               {">", "&gt;"},
                                               {"`", "\\`"},
                                               {"*", "\\*"},
                                               {"_", "\\_"},
                                               {"[", "\\["},
                                               {"@", "@\xE2\x80\x8D"}});
}

std::string MarkdownTable(const std::vector<std::string>& titles,
                          const std::vector<std::vector<std::string>>& rows) {
  std::string text = absl::StrCat("| ", absl::StrJoin(titles, " | "), " |\n|");
  for (size_t i = 0; i < titles.size(); ++i) absl::StrAppend(&text, " --- |");
  absl::StrAppend(&text, "\n");
  for (const std::vector<std::string>& row : rows) {
    absl::StrAppend(
        &text, "| ",
        absl::StrJoin(row, " | ",
                      [](std::string* out, const auto& cell) { out->append(Cell(cell)); }),
        " |\n");
  }
  return text;
}

}  // namespace tune::client
