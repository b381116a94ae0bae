// SPDX-License-Identifier: Apache-2.0
// The kernels that come with the program, as text. They are compiled in, so that an install needs
// no folder of sources and cannot disagree with it.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace tune {

struct CatalogueEntry {
  std::string name;       // the folder's: "softmax"
  std::string spec_name;  // "softmax.textproto", for error messages
  std::string spec_text;  // with shared headers by their plain names (kernels/shared_headers.h)
  std::map<std::string, std::string> files;  // source and headers, the shared ones too
  std::string readme;
};

// Every folder of kernels/ that has a spec, by name, with the shared headers that it needs. Nothing
// else of a spec is parsed here. INTERNAL: a folder without its spec, which the build should have
// refused; a shared header that does not exist, or that has the name of a file in the folder.
absl::StatusOr<std::vector<CatalogueEntry>> LoadCatalogue();

// Which of them do in one launch what others do in several: fusions.textproto.
std::string_view CatalogueFusions();

}  // namespace tune
