// SPDX-License-Identifier: Apache-2.0
// Markdown of reports as HTML, so that a page and a CI comment have the same tables and sentences.
#pragma once

#include <string>
#include <vector>

namespace tune::client {

// Characters of a table's text, such as an error, that is to wrap.
inline constexpr size_t kLongCell = 60;

// Reads the Markdown that reports write: headings, paragraphs, tables, quotes, **bold** and `code`.
// An image's link is the index of its picture, such as "![Roofline](0)"; pictures are inserted as
// they are. All other text is escaped.
std::string HtmlOfMarkdown(const std::string& markdown, const std::vector<std::string>& pictures);

}  // namespace tune::client
