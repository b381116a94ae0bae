// SPDX-License-Identifier: Apache-2.0
#include "client/report/html_text.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "client/report/svg_chart.h"

namespace tune::client {
namespace {

// A line's text without what MarkdownCell puts in, escaped for HTML, with bold and code as tags.
std::string Inline(absl::string_view line) {
  std::string html;
  std::string text;
  bool bold = false;
  const auto flush = [&] {
    const std::string plain =
        absl::StrReplaceAll(text, {{"&lt;", "<"}, {"&gt;", ">"}, {"@\xE2\x80\x8D", "@"}});
    absl::StrAppend(&html, EscapeXml(plain));
    text.clear();
  };
  while (!line.empty()) {
    const size_t code_end = line[0] == '`' ? line.find('`', 1) : absl::string_view::npos;
    if (line[0] == '\\' && line.size() > 1) {
      text += line[1];
      line.remove_prefix(2);
    } else if (absl::ConsumePrefix(&line, "**")) {
      flush();
      absl::StrAppend(&html, bold ? "</b>" : "<b>");
      bold = !bold;
    } else if (code_end != absl::string_view::npos) {
      flush();
      const std::string code(line.substr(1, code_end - 1));
      absl::StrAppend(&html, "<code>", EscapeXml(absl::StrReplaceAll(code, {{"\\|", "|"}})),
                      "</code>");
      line.remove_prefix(code_end + 1);
    } else {
      text += line[0];
      line.remove_prefix(1);
    }
  }
  flush();
  return absl::StrCat(html, bold ? "</b>" : "");
}

// The cells of a table's row; "\|" ends none.
std::vector<std::string> Cells(absl::string_view line) {
  std::vector<std::string> cells(1);
  absl::ConsumePrefix(&line, "|");
  absl::ConsumeSuffix(&line, "|");
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '|') {
      cells.emplace_back();
      continue;
    }
    cells.back() += line[i];
    if (line[i] == '\\' && i + 1 < line.size()) cells.back() += line[++i];
  }
  for (std::string& cell : cells) absl::StripAsciiWhitespace(&cell);
  return cells;
}

std::string TableRow(absl::string_view line, absl::string_view tag) {
  std::string row = "<tr>";
  for (const std::string& cell : Cells(line)) {
    const bool is_long = cell.size() > kLongCell && tag == "td";
    absl::StrAppend(&row, "<", tag, is_long ? " class=\"long\">" : ">", Inline(cell), "</", tag,
                    ">");
  }
  return row + "</tr>\n";
}

std::string Picture(absl::string_view link, const std::vector<std::string>& pictures) {
  link.remove_prefix(std::min(link.rfind('(') + 1, link.size()));
  size_t index = 0;
  const bool is_known = absl::SimpleAtoi(absl::StripSuffix(link, ")"), &index);
  if (!is_known || index >= pictures.size()) return "";
  return absl::StrCat("<figure>\n", pictures[index], "</figure>\n");
}

}  // namespace

std::string HtmlOfMarkdown(const std::string& markdown, const std::vector<std::string>& pictures) {
  std::string html;
  size_t table_rows = 0;
  bool in_list = false;
  const auto end_table = [&] {
    if (table_rows > 0) absl::StrAppend(&html, "</table></div>\n");
    table_rows = 0;
  };
  const auto end_list = [&] {
    if (in_list) absl::StrAppend(&html, "</ul>\n");
    in_list = false;
  };
  for (absl::string_view line : absl::StrSplit(markdown, '\n')) {
    if (!absl::StartsWith(line, "- ")) end_list();
    if (absl::StartsWith(line, "|")) {
      if (table_rows == 0) absl::StrAppend(&html, "<div class=\"scroll\"><table>\n");
      if (table_rows != 1) absl::StrAppend(&html, TableRow(line, table_rows == 0 ? "th" : "td"));
      ++table_rows;  // the second one only says that it is a table
      continue;
    }
    end_table();
    if (absl::StartsWith(line, "![")) {
      absl::StrAppend(&html, Picture(line, pictures));
    } else if (absl::ConsumePrefix(&line, "### ")) {
      absl::StrAppend(&html, "<h2>", Inline(line), "</h2>\n");
    } else if (absl::ConsumePrefix(&line, "## ")) {
      absl::StrAppend(&html, "<h1>", Inline(line), "</h1>\n");
    } else if (absl::ConsumePrefix(&line, "> ")) {
      absl::StrAppend(&html, "<p class=\"note\">", Inline(line), "</p>\n");
    } else if (absl::ConsumePrefix(&line, "- ")) {
      absl::StrAppend(&html, in_list ? "" : "<ul>\n", "<li>", Inline(line), "</li>\n");
      in_list = true;
    } else if (!line.empty()) {
      absl::StrAppend(&html, "<p>", Inline(line), "</p>\n");
    }
  }
  end_list();
  end_table();
  return html;
}

}  // namespace tune::client
