// SPDX-License-Identifier: Apache-2.0
// A Python file for `triton.autotune(configs=...)`, or to choose from by hand.
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/export/export_format.h"

namespace tune::client {
namespace {

// Parameters of triton.Config besides the constants of a kernel.
const std::set<std::string> kLaunchOptions = {"num_warps", "num_stages", "num_ctas", "maxnreg"};

// A value as Python writes it. JSON's text is Python's, but for booleans.
std::string PythonLiteral(const nlohmann::ordered_json& value) {
  if (value.is_boolean()) return value.get<bool>() ? "True" : "False";
  return value.dump(-1, ' ', /*ensure_ascii=*/true);
}

std::string ConfigText(const nlohmann::ordered_json& config) {
  std::vector<std::string> constants;
  std::string options;
  for (const auto& [name, value] : config.items()) {
    if (kLaunchOptions.contains(name)) {
      absl::StrAppend(&options, ", ", name, "=", PythonLiteral(value));
    } else {
      constants.push_back(absl::StrCat(nlohmann::json(name).dump(), ": ", PythonLiteral(value)));
    }
  }
  return absl::StrCat("triton.Config({", absl::StrJoin(constants, ", "), "}", options, ")");
}

}  // namespace

absl::StatusOr<Exported> WriteTritonConfigs(const ExportSource& source) {
  const std::string& compiler = source.records.front().compiler;
  if (!compiler.empty() && !absl::StartsWith(compiler, "Triton")) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", source.kernel, "' is compiled by ", compiler,
                     ": --format triton is for kernels in Triton; --format cpp takes any"));
  }
  std::string text =
      absl::StrCat("\"\"\"Configs of ", nlohmann::json(source.kernel).dump(), " on ",
                   nlohmann::json(source.device).dump(), ", of snapshot ", source.digest,
                   ".\n\nBY_PROBLEM has them by data type and dims; CONFIGS has each once, for "
                   "triton.autotune.\n\"\"\"\nimport triton\n\nBY_PROBLEM = {\n");
  for (const ExportRecord& record : source.records) {
    std::vector<std::string> key = {nlohmann::json(record.dtype).dump()};
    for (const auto& [name, value] : record.dims) {
      key.push_back(absl::StrCat("(", nlohmann::json(name).dump(), ", ", value, ")"));
    }
    absl::StrAppend(&text, "    (", absl::StrJoin(key, ", "), "): ", ConfigText(record.config),
                    ",\n");
  }
  text += "}\nCONFIGS = list({str(config): config for config in BY_PROBLEM.values()}.values())\n";
  return Exported{.files = {{"", std::move(text)}}};
}

}  // namespace tune::client
