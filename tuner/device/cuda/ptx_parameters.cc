// SPDX-License-Identifier: Apache-2.0
#include "tuner/device/cuda/ptx_parameters.h"

#include <cstdint>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace tune::cuda {
namespace {

// ".u64" has 8 bytes, ".b8" one.
int64_t BytesOf(absl::string_view type) {
  int64_t bits = 0;
  return type.size() > 2 && absl::SimpleAtoi(type.substr(2), &bits) ? bits / 8 : 0;
}

// ".param .u64 .ptr .align 1 saxpy_param_0" or ".param .align 64 .b8 saxpy_param_1[128]".
std::optional<ParameterFact> ParseParameter(absl::string_view line) {
  const std::vector<absl::string_view> words =
      absl::StrSplit(line, absl::ByAnyChar(" \t\n"), absl::SkipEmpty());
  if (words.size() < 3 || words[0] != ".param") return std::nullopt;
  ParameterFact fact;
  bool pointer = false;
  for (absl::string_view word : words) {
    if (word == ".ptr") pointer = true;
    if (fact.type.empty() && BytesOf(word) > 0) fact = {BytesOf(word), std::string(word)};
  }
  int64_t count = 1;
  absl::string_view name = words.back();
  if (const size_t open = name.find('['); open != absl::string_view::npos) {
    name = absl::StripSuffix(name.substr(open + 1), "]");
    if (!absl::SimpleAtoi(name, &count)) return std::nullopt;
  }
  if (pointer) fact.type = ".ptr";
  fact.bytes *= count;
  return fact;
}

}  // namespace

std::optional<std::vector<ParameterFact>> ParsePtxParameters(absl::string_view ptx,
                                                             const std::string& entry) {
  const std::string opening = absl::StrCat(".entry ", entry, "(");
  const size_t begin = ptx.find(opening);
  if (begin == absl::string_view::npos) return std::nullopt;
  absl::string_view list = ptx.substr(begin + opening.size());
  const size_t end = list.find(')');
  if (end == absl::string_view::npos) return std::nullopt;
  list = list.substr(0, end);
  std::vector<ParameterFact> facts;
  for (absl::string_view line : absl::StrSplit(list, ',', absl::SkipWhitespace())) {
    const std::optional<ParameterFact> fact = ParseParameter(line);
    if (!fact) return std::nullopt;
    facts.push_back(*fact);
  }
  return facts;
}

}  // namespace tune::cuda
