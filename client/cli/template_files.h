// SPDX-License-Identifier: Apache-2.0
// The table that templates.cmake writes: every file of client/cli/templates/, embedded.
#pragma once

#include <string_view>

namespace tune::client {

struct TemplateFile {
  const char* language;  // its folder; null ends the table
  const char* name;
  const std::string_view* text;
};

const TemplateFile* TemplateFiles();

}  // namespace tune::client
