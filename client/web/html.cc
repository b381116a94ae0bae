// SPDX-License-Identifier: Apache-2.0
#include "client/web/html.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/report/format.h"
#include "client/report/html_text.h"
#include "client/report/svg_chart.h"

namespace tune::client {

std::string LinkHtml(const std::string& path, const std::string& text) {
  return absl::StrCat("<a href=\"", EscapeXml(path), "\">", EscapeXml(text), "</a>");
}

std::string CardHtml(const std::string& title, const std::string& html) {
  return absl::StrCat("<section class=\"card\">\n<h2>", EscapeXml(title), "</h2>\n", html,
                      "</section>\n");
}

std::string TableHtml(const std::vector<std::string>& titles, const RowsHtml& rows_html,
                      const std::string& empty) {
  if (rows_html.empty()) return absl::StrCat("<p class=\"note\">", EscapeXml(empty), "</p>\n");
  std::string html = "<div class=\"scroll\"><table>\n<tr>";
  for (const std::string& title : titles) {
    absl::StrAppend(&html, "<th scope=\"col\">", EscapeXml(title), "</th>");
  }
  absl::StrAppend(&html, "</tr>\n");
  for (const std::vector<std::string>& row : rows_html) {
    absl::StrAppend(&html, "<tr>");
    for (const std::string& cell : row) {
      const bool is_long = cell.size() > kLongCell && !absl::StartsWith(cell, "<");
      absl::StrAppend(&html, is_long ? "<td class=\"long\">" : "<td>", cell, "</td>");
    }
    absl::StrAppend(&html, "</tr>\n");
  }
  return absl::StrCat(html, "</table></div>\n");
}

std::string FactsHtml(const std::vector<FactHtml>& facts) {
  std::string html = "<dl>\n";
  for (const FactHtml& fact : facts) {
    if (fact.value_html.empty()) continue;
    absl::StrAppend(&html, "<dt>", EscapeXml(fact.name), "</dt><dd>", fact.value_html, "</dd>\n");
  }
  return absl::StrCat(html, "</dl>\n");
}

std::string AgoHtml(int64_t unix_ms) {
  if (unix_ms == 0) return "-";
  const double seconds =
      std::max(0.0, static_cast<double>(absl::ToUnixMillis(absl::Now()) - unix_ms) / 1e3);
  constexpr double kDay = 86400;
  const std::string ago = seconds < 2 * kDay
                              ? DurationText(seconds)
                              : absl::StrCat(static_cast<int64_t>(seconds / kDay), " days");
  return absl::StrCat("<time title=\"", TimeText(unix_ms), "\">", ago, " ago</time>");
}

}  // namespace tune::client
