// SPDX-License-Identifier: Apache-2.0
#include "tuner/device/cpu/kernel_facts.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/elf_view.h"
#include "tuner/device/cpu/prelude/abi.h"

namespace tune::cpu {
namespace {

constexpr unsigned kParametersMax = 1024;

// The data of an exported symbol, to the end of its section; empty if there is none.
absl::string_view ExportedData(const ElfView& object, absl::string_view name) {
  for (const ElfView::Symbol& symbol : object.Symbols(SHT_DYNSYM)) {
    if (symbol.name == name) return object.ContentsAt(symbol);
  }
  return "";
}

}  // namespace

std::optional<std::vector<ParameterFact>> ReadParameterFacts(const std::string& binary,
                                                             const std::string& entry) {
  const std::optional<ElfView> object = ElfView::Open(binary);
  if (!object) return std::nullopt;
  const absl::string_view data = ExportedData(*object, absl::StrCat("tune_cpu_parameters_", entry));
  const auto count = ReadAt<unsigned>(data, 0);
  if (!count || *count > kParametersMax) return std::nullopt;
  std::vector<ParameterFact> facts;
  for (unsigned i = 0; i < *count; ++i) {
    const auto fact = ReadAt<tune_cpu::ParameterFact>(
        data, sizeof(unsigned) + i * sizeof(tune_cpu::ParameterFact));
    if (!fact) return std::nullopt;
    facts.push_back({.bytes = fact->size,
                     .type = std::string(fact->type, strnlen(fact->type, sizeof(fact->type)))});
  }
  return facts;
}

}  // namespace tune::cpu
