// SPDX-License-Identifier: Apache-2.0
#include "tuner/gpu_part.h"

#include <algorithm>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace tune {
namespace {

constexpr int64_t kGiB = int64_t{1} << 30;

// A card by words of its name; the first that fits counts.
struct Card {
  std::vector<absl::string_view> words;
  int64_t sm_count;
};

// NVIDIA's data sheets and architecture white papers.
const std::vector<Card>& Cards() {
  static const auto* const kCards = new std::vector<Card>{
      {{"H100", "PCIE"}, 114},
      {{"H800", "PCIE"}, 114},
      {{"H100"}, 132},
      {{"H800"}, 132},
      {{"H200"}, 132},
      {{"GH200"}, 132},
      {{"H20"}, 78},
      {{"B200"}, 148},
      {{"A100"}, 108},
      {{"A800"}, 108},
      {{"A30"}, 56},
      {{"V100"}, 80},
      {{"T4"}, 40},
      {{"A10"}, 72},
      {{"A40"}, 84},
      {{"L4"}, 58},
      {{"L40"}, 142},
      {{"L40S"}, 142},
      {{"5090"}, 170},
  };
  return *kCards;
}

// 0: not known.
int64_t SmCountOfCard(absl::string_view name) {
  const std::string upper = absl::AsciiStrToUpper(name);
  const std::vector<absl::string_view> words = absl::StrSplit(upper, absl::ByAnyChar(" -_"));
  for (const Card& card : Cards()) {
    const auto has = [&](absl::string_view word) {
      return std::find(words.begin(), words.end(), word) != words.end();
    };
    if (std::all_of(card.words.begin(), card.words.end(), has)) return card.sm_count;
  }
  return 0;
}

}  // namespace

std::string NameOfGpu(absl::string_view name, int64_t sm_count, int64_t memory_bytes) {
  if (sm_count <= 0 || sm_count >= SmCountOfCard(name)) return std::string(name);
  // Drivers differ in whether they add the slice, and a name may be one of this function.
  const absl::string_view card = name.substr(0, std::min(name.find(" MIG "), name.find(" (")));
  return absl::StrCat(card, " (", sm_count, " SMs, ", (memory_bytes + kGiB / 2) / kGiB, " GiB)");
}

bool IsPartOfGpu(absl::string_view name) { return absl::StrContains(name, " SMs, "); }

}  // namespace tune
