// SPDX-License-Identifier: Apache-2.0
// The JSON tables that the fused MoE kernels of inference engines read: one file for a number of
// experts E, a width N and a device, a row for each number of tokens M. The engines take the row
// whose M is nearest, however far, so a row that does not beat the default is left out and said.
#include <algorithm>
#include <map>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "client/export/export_format.h"

namespace tune::client {
namespace {

using Json = nlohmann::ordered_json;

std::optional<int64_t> DimOf(const ExportRecord& record, const std::string& name) {
  for (const auto& [dim, value] : record.dims) {
    if (dim == name) return value;
  }
  return std::nullopt;
}

// What the engines call a device and the data types that are part of a file's name.
std::string FileName(int64_t experts, int64_t width, const std::string& device,
                     const std::string& dtype) {
  std::string name = absl::StrReplaceAll(device, {{" ", "_"}, {"/", "_"}});
  if (absl::StrContains(name, "H200")) name = "NVIDIA_H200";
  const std::string type = dtype == "i8" ? ",dtype=int8_w8a8" : "";
  return absl::StrCat("E=", experts, ",N=", width, ",device_name=", name, type, ".json");
}

}  // namespace

absl::StatusOr<Exported> WriteMoeTables(const ExportSource& source) {
  std::map<std::string, std::map<int64_t, Json>> tables;  // by file, then by M
  Exported exported;
  for (const ExportRecord& record : source.records) {
    const auto experts = DimOf(record, "E");
    const auto width = DimOf(record, "N");
    const auto tokens = DimOf(record, "M");
    if (!experts || !width || !tokens || !record.config.contains("BLOCK_SIZE_M")) {
      return absl::InvalidArgumentError(
          absl::StrCat("'", source.kernel, "' is no fused MoE kernel for these tables: they need "
                       "dims E, N and M and params BLOCK_SIZE_M, BLOCK_SIZE_N, ..., num_warps"));
    }
    if (record.default_latency_ns > 0 && record.latency_ns >= record.default_latency_ns) {
      exported.notes.push_back(
          absl::StrCat("left out E=", *experts, " N=", *width, " M=", *tokens,
                       ": the default is as fast, and the engine has its own"));
      continue;
    }
    tables[FileName(*experts, *width, source.device, record.dtype)][*tokens] = record.config;
  }
  for (const auto& [name, rows] : tables) {
    Json table = Json::object();
    for (const auto& [tokens, config] : rows) table[absl::StrCat(tokens)] = config;
    exported.files.push_back({name, table.dump(4) + "\n"});
    exported.notes.push_back(absl::StrCat(name, ": the row of the nearest M answers for every M; "
                                                "this one has M from ",
                                          rows.begin()->first, " to ", rows.rbegin()->first));
  }
  if (exported.files.empty()) {
    return absl::NotFoundError("no record is faster than its default, so no table is written");
  }
  exported.notes.push_back(
      "vLLM reads the folder that VLLM_TUNED_CONFIG_FOLDER names before its own");
  return exported;
}

}  // namespace tune::client
