// SPDX-License-Identifier: Apache-2.0
// Markdown as pull-request comments show it.
#pragma once

#include <string>
#include <vector>

namespace tune::client {

// Text that cannot end its cell, open a tag or mention anybody.
std::string MarkdownCell(const std::string& text);

// Cells in back-quotes keep them; the rest is made safe.
std::string MarkdownTable(const std::vector<std::string>& titles,
                          const std::vector<std::vector<std::string>>& rows);

}  // namespace tune::client
