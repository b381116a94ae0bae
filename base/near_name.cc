// SPDX-License-Identifier: Apache-2.0
#include "base/near_name.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace tune {
namespace {

constexpr size_t kSlipsMax = 2;
constexpr size_t kLettersMax = 64;  // of what somebody typed
constexpr size_t kAbbreviationMin = 3;

size_t Slips(absl::string_view a, absl::string_view b) {
  std::vector<std::vector<size_t>> slips(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) {
    for (size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        slips[i][j] = i + j;
        continue;
      }
      slips[i][j] = std::min({slips[i - 1][j] + 1, slips[i][j - 1] + 1,
                              slips[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        slips[i][j] = std::min(slips[i][j], slips[i - 2][j - 2] + 1);
      }
    }
  }
  return slips[a.size()][b.size()];
}

// "attn" of "attention": a third of its letters or more, in their order, from the first on.
bool Abbreviates(absl::string_view word, absl::string_view candidate) {
  if (word.size() < kAbbreviationMin || word.size() * 3 < candidate.size()) return false;
  if (word.front() != candidate.front()) return false;
  for (const char letter : candidate) {
    if (!word.empty() && word.front() == letter) word.remove_prefix(1);
  }
  return word.empty();
}

}  // namespace

std::string NearName(absl::string_view word, const std::vector<std::string>& candidates) {
  if (word.size() > kLettersMax) return "";
  const std::string typed = absl::AsciiStrToLower(word);
  std::string nearest;
  std::string in_full;
  size_t least = std::min(kSlipsMax, word.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    if (candidate.size() > kLettersMax) continue;
    const std::string lower = absl::AsciiStrToLower(candidate);
    const size_t slips = Slips(typed, lower);
    if (slips < least) {
      least = slips;
      nearest = candidate;
    }
    const bool is_shorter = in_full.empty() || candidate.size() < in_full.size();
    if (is_shorter && Abbreviates(typed, lower)) in_full = candidate;
  }
  return nearest.empty() ? in_full : nearest;
}

std::string DidYouMean(absl::string_view word, const std::vector<std::string>& candidates) {
  const std::string near = NearName(word, candidates);
  return near.empty() ? "" : absl::StrCat("; did you mean '", near, "'?");
}

}  // namespace tune
