// SPDX-License-Identifier: Apache-2.0
// The JSON tables that the fused MoE kernels of inference engines read: one file for a number of
// experts E, a width N, a device and a type of quantisation, a row for each number of tokens M. An
// engine takes the row whose M is nearest, however far, and its own default only if there is no
// file. So every record's row is written. Records of which a file can hold only one are refused.
#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
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

// vLLM has one name for all H200s. It looks at the whole words of a name, so that a GH200 is none.
std::string VllmDevice(const std::string& device) {
  const std::string name = absl::StrReplaceAll(device, {{" ", "_"}, {"/", "_"}});
  const std::vector<std::string> words = absl::StrSplit(name, '_');
  return std::find(words.begin(), words.end(), "H200") == words.end() ? name : "NVIDIA_H200";
}

std::string SglangDevice(const std::string& device) {
  return absl::StrReplaceAll(device, {{" ", "_"}, {"/", "_"}});
}

// The engines' name of a type of quantisation; bf16, f16 and f32 have none.
std::string QuantisationOf(const std::string& dtype) {
  if (dtype == "i8") return ",dtype=int8_w8a8";
  return dtype == "e4m3" ? ",dtype=fp8_w8a8" : "";
}

std::string FileName(int64_t experts, int64_t width, const std::string& device,
                     const std::string& dtype) {
  return absl::StrCat("E=", experts, ",N=", width, ",device_name=", device, QuantisationOf(dtype),
                      ".json");
}

std::string TextOf(const ExportRecord& record) {
  return absl::StrCat(absl::StrJoin(record.dims, " ", absl::PairFormatter("=")), " ", record.dtype);
}

// The params that an engine's kernel takes. Another would be a keyword that it does not know.
const std::set<std::string> kParams = {"BLOCK_SIZE_M", "BLOCK_SIZE_N", "BLOCK_SIZE_K",
                                       "GROUP_SIZE_M", "num_warps",    "num_stages",
                                       "SPLIT_K"};

std::vector<std::string> UnknownParams(const ExportRecord& record) {
  std::vector<std::string> unknown;
  for (const auto& [name, value] : record.config.items()) {
    if (!kParams.contains(name)) unknown.push_back(name);
  }
  return unknown;
}

}  // namespace

absl::StatusOr<Exported> WriteMoeTables(const ExportSource& source) {
  std::map<std::string, std::map<int64_t, const ExportRecord*>> tables;  // by file, then by M
  Exported exported;
  std::set<std::string> unknown;
  for (const ExportRecord& record : source.records) {
    const auto experts = DimOf(record, "E");
    const auto width = DimOf(record, "N");
    const auto tokens = DimOf(record, "M");
    if (!experts || !width || !tokens || !record.config.contains("BLOCK_SIZE_M")) {
      return absl::InvalidArgumentError(
          absl::StrCat("'", source.kernel,
                       "' is no fused MoE kernel for these tables: they need "
                       "dims E, N and M and params BLOCK_SIZE_M, BLOCK_SIZE_N, ..., num_warps"));
    }
    for (const std::string& device : {VllmDevice(source.device), SglangDevice(source.device)}) {
      const std::string file = FileName(*experts, *width, device, record.dtype);
      const auto [row, added] = tables[file].emplace(*tokens, &record);
      if (added || row->second == &record) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          "'", TextOf(*row->second), "' and '", TextOf(record), "' would both be row ", *tokens,
          " of ", file, ": choose with --dtype or --dim, such as --dim K=4096"));
    }
    for (std::string& param : UnknownParams(record)) unknown.insert(std::move(param));
  }
  for (const auto& [name, rows] : tables) {
    Json table = Json::object();
    for (const auto& [tokens, record] : rows) table[absl::StrCat(tokens)] = record->config;
    exported.files.push_back({name, table.dump(4) + "\n"});
    exported.notes.push_back(
        rows.size() == 1
            ? absl::StrCat(name, ": its only row, M=", rows.begin()->first, ", answers for every M")
            : absl::StrCat(name,
                           ": the row of the nearest M answers for every M; this one has M from ",
                           rows.begin()->first, " to ", rows.rbegin()->first));
  }
  exported.notes.push_back(
      "vLLM reads the folder that VLLM_TUNED_CONFIG_FOLDER names before its own; SGLang reads "
      "configs/triton_<version>/ below SGLANG_MOE_CONFIG_DIR");
  exported.notes.push_back(
      "the names are those of whole-tensor scales: block_shape, per_channel_quant, int8_w8a16 and "
      "int4_w4a16 are not written");
  if (!unknown.empty()) {
    exported.notes.push_back(absl::StrCat("the engines' kernels take no ",
                                          absl::StrJoin(unknown, ", "),
                                          ": as an engine reads it, this table is refused"));
  }
  return exported;
}

}  // namespace tune::client
