// SPDX-License-Identifier: Apache-2.0
// The tables that CMakeLists.txt writes: every file of the catalogue, embedded.
#pragma once

#include <string_view>

namespace tune {

struct CatalogueFile {
  const char* folder;  // null ends the table
  const char* name;
  const std::string_view* text;
};

const CatalogueFile* CatalogueFiles();
const CatalogueFile* SharedHeaderFiles();  // those of include/

}  // namespace tune
