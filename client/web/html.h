// SPDX-License-Identifier: Apache-2.0
// HTML of the page's own tables and links. Names that end in Html are HTML, all others are text.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tune::client {

std::string LinkHtml(const std::string& path, const std::string& text);
std::string CardHtml(const std::string& title, const std::string& html);
using RowsHtml = std::vector<std::vector<std::string>>;
// Cells are HTML. Without rows: the sentence.
std::string TableHtml(const std::vector<std::string>& titles, const RowsHtml& rows_html,
                      const std::string& empty);
// Names with their values, those without a value left out.
struct FactHtml {
  std::string name;
  std::string value_html;
};
std::string FactsHtml(const std::vector<FactHtml>& facts);
// A time for people, with the exact one on hover.
std::string AgoHtml(int64_t unix_ms);

}  // namespace tune::client
