// SPDX-License-Identifier: Apache-2.0
#include "client/cli/templates.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "client/cli/template_files.h"
#include "client/cli/user_file.h"

namespace tune::client {
namespace {

constexpr size_t kNameMax = 64;

bool IsKernelName(const std::string& name) {
  const auto allowed = [](char c) {
    return absl::ascii_islower(c) || absl::ascii_isdigit(c) || c == '_' || c == '-';
  };
  return !name.empty() && name.size() <= kNameMax && absl::ascii_islower(name[0]) &&
         std::all_of(name.begin(), name.end(), allowed);
}

}  // namespace

std::vector<std::string> TemplateLanguages() {
  std::set<std::string> languages;
  for (const TemplateFile* file = TemplateFiles(); file->language != nullptr; ++file) {
    languages.insert(file->language);
  }
  return {languages.begin(), languages.end()};
}

absl::StatusOr<std::map<std::string, std::string>> NewKernelFiles(const std::string& name,
                                                                  const std::string& language) {
  if (!IsKernelName(name)) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", name,
                     "' is no kernel name: a lower case letter, then lower case "
                     "letters, digits, '_' and '-', at most ",
                     kNameMax, " in all"));
  }
  const std::string identifier = absl::StrReplaceAll(name, {{"-", "_"}});
  std::map<std::string, std::string> files;
  for (const TemplateFile* file = TemplateFiles(); file->language != nullptr; ++file) {
    if (file->language != language) continue;
    files[absl::StrReplaceAll(file->name, {{"my-kernel", name}})] =
        absl::StrReplaceAll(absl::string_view(file->text->data(), file->text->size()),
                            {{"my-kernel", name}, {"my_kernel", identifier}});
  }
  if (!files.empty()) return files;
  return absl::InvalidArgumentError(
      absl::StrCat("no template for language '", language,
                   "'; there are: ", absl::StrJoin(TemplateLanguages(), ", ")));
}

absl::Status WriteNewFolder(const std::string& folder,
                            const std::map<std::string, std::string>& files) {
  std::error_code error;
  const bool is_there = std::filesystem::exists(folder, error);
  if (is_there && !std::filesystem::is_empty(folder, error)) {
    return absl::AlreadyExistsError(
        absl::StrCat("'", folder, "' is there already; choose another name, or another --folder"));
  }
  std::filesystem::create_directories(folder, error);
  if (error) {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot make the folder '", folder, "': ", error.message()));
  }
  for (const auto& [name, text] : files) {
    if (const absl::Status written = WriteFile(absl::StrCat(folder, "/", name), text);
        !written.ok()) {
      return absl::FailedPreconditionError(written.message());
    }
  }
  return absl::OkStatus();
}

}  // namespace tune::client
