// SPDX-License-Identifier: Apache-2.0
#include "kernels/catalogue.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/catalogue_files.h"
#include "kernels/shared_headers.h"

namespace tune {
namespace embedded {
extern const std::string_view kernels_fusions;
}  // namespace embedded

namespace {

// Makes an entry what tunectl would send of its folder.
absl::Status AddSharedHeaders(CatalogueEntry& entry) {
  const auto read = [&](const std::string& name) -> absl::StatusOr<std::string> {
    if (entry.files.count(name) == 0) return std::string(SharedHeaders().at(name));
    return SharedHeaderClash(absl::StrCat("kernels/", entry.name, "/", name), name);
  };
  absl::StatusOr<ResolvedSpec> resolved =
      ResolveSharedHeaders(entry.spec_name, entry.spec_text, read);
  if (!resolved.ok()) return absl::InternalError(resolved.status().message());
  entry.spec_text = std::move(resolved->text);
  entry.files.merge(resolved->headers);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<CatalogueEntry>> LoadCatalogue() {
  std::map<std::string, CatalogueEntry> by_name;
  for (const CatalogueFile* file = CatalogueFiles(); file->folder != nullptr; ++file) {
    CatalogueEntry& entry = by_name[file->folder];
    entry.name = file->folder;
    entry.spec_name = absl::StrCat(entry.name, ".textproto");
    std::string text(*file->text);
    if (file->name == entry.spec_name) {
      entry.spec_text = std::move(text);
    } else if (file->name == std::string("README.md")) {
      entry.readme = std::move(text);
    } else {
      entry.files[file->name] = std::move(text);
    }
  }
  std::vector<CatalogueEntry> entries;
  for (auto& [name, entry] : by_name) {
    if (entry.spec_text.empty()) {
      return absl::InternalError(
          absl::StrCat("kernels/", name, " has no text in ", entry.spec_name));
    }
    const absl::Status added = AddSharedHeaders(entry);
    if (!added.ok()) return added;
    entries.push_back(std::move(entry));
  }
  return entries;
}

std::string_view CatalogueFusions() { return embedded::kernels_fusions; }

}  // namespace tune
