// SPDX-License-Identifier: Apache-2.0
// A header without dependencies: a table of the configs of one kernel on one device, and a look-up
// by equal sizes.
#include <cctype>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "client/export/export_format.h"

namespace tune::client {
namespace {

using Json = nlohmann::ordered_json;

bool IsIdentifier(const std::string& name) {
  if (name.empty() || std::isdigit(static_cast<unsigned char>(name.front())) != 0) return false;
  for (const char c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '_') return false;
  }
  return true;
}

std::string TypeOf(const Json& value) {
  if (value.is_boolean()) return "bool";
  if (value.is_number_integer()) return "std::int64_t";
  return value.is_number() ? "double" : "const char*";
}

// JSON's text is C++'s, for what a param can be.
std::string CppLiteral(const Json& value) { return value.dump(-1, ' ', /*ensure_ascii=*/true); }

// "softmax-2" as softmax_2.
std::string NamespaceOf(const std::string& kernel) {
  std::string name;
  for (const char c : kernel) {
    name += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  }
  return absl::StrCat("tuned_", name);
}

// INVALID_ARGUMENT: the records are not all of one form, or of names that C++ does not have.
absl::Status CheckForm(const ExportSource& source) {
  const ExportRecord& first = source.records.front();
  for (const ExportRecord& record : source.records) {
    bool same =
        record.dims.size() == first.dims.size() && record.config.size() == first.config.size();
    for (size_t i = 0; same && i < record.dims.size(); ++i) {
      same = record.dims[i].first == first.dims[i].first && IsIdentifier(record.dims[i].first);
    }
    for (const auto& [name, value] : record.config.items()) {
      same = same && IsIdentifier(name) && first.config.contains(name) &&
             TypeOf(first.config.at(name)) == TypeOf(value);
    }
    if (!same) {
      return absl::InvalidArgumentError(
          absl::StrCat("the records of ", source.kernel,
                       " have not all the same dims and params, so that no struct holds them"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Exported> WriteCppHeader(const ExportSource& source) {
  RETURN_IF_ERROR(CheckForm(source));
  const ExportRecord& first = source.records.front();
  std::string fields, parameters = "std::string_view dtype", same = "entry.dtype == dtype";
  for (const auto& [name, value] : first.dims) {
    absl::StrAppend(&fields, "  std::int64_t ", name, ";\n");
    absl::StrAppend(&parameters, ", std::int64_t ", name);
    absl::StrAppend(&same, " && entry.", name, " == ", name);
  }
  std::string config_fields;
  for (const auto& [name, value] : first.config.items()) {
    absl::StrAppend(&config_fields, "  ", TypeOf(value), " ", name, ";\n");
  }
  std::string rows;
  for (const ExportRecord& record : source.records) {
    std::vector<std::string> cells = {Json(record.dtype).dump()};
    for (const auto& [name, value] : record.dims) cells.push_back(absl::StrCat(value));
    std::vector<std::string> params;
    for (const auto& [name, value] : first.config.items()) {
      params.push_back(CppLiteral(record.config.at(name)));
    }
    absl::StrAppend(&rows, "    {", absl::StrJoin(cells, ", "), ", {", absl::StrJoin(params, ", "),
                    "}},\n");
  }
  std::string text = absl::StrCat(
      "// Configs of ", Json(source.kernel).dump(), " on ", Json(source.device).dump(),
      ", of snapshot ", source.digest,
      ".\n#pragma once\n\n#include <cstdint>\n#include "
      "<string_view>\n\nnamespace ",
      NamespaceOf(source.kernel), " {\n\nstruct Config {\n", config_fields,
      "};\nstruct Entry {\n  std::string_view dtype;\n", fields,
      "  Config config;\n};\n\ninline constexpr Entry kEntries[] = {\n", rows,
      "};\n\n// Null: this problem was not tuned.\ninline constexpr const Config* Find(",
      parameters, ") {\n  for (const Entry& entry : kEntries) {\n    if (", same,
      ") return &entry.config;\n  }\n  return nullptr;\n}\n\n}  // namespace ",
      NamespaceOf(source.kernel), "\n");
  return Exported{.files = {{"", std::move(text)}}};
}

}  // namespace tune::client
