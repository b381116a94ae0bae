// SPDX-License-Identifier: Apache-2.0
#include "base/near_name.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/str_cat.h"

namespace tune {
namespace {

constexpr size_t kSlipsMax = 2;
constexpr size_t kLettersMax = 64;  // of what somebody typed

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

}  // namespace

std::string NearName(absl::string_view word, const std::vector<std::string>& candidates) {
  if (word.size() > kLettersMax) return "";
  const size_t most = std::min(kSlipsMax, word.size() / 3);
  std::string nearest;
  size_t least = most + 1;
  for (const std::string& candidate : candidates) {
    if (candidate.size() > kLettersMax) continue;
    const size_t slips = Slips(word, candidate);
    if (slips < least) {
      least = slips;
      nearest = candidate;
    }
  }
  return nearest;
}

std::string DidYouMean(absl::string_view word, const std::vector<std::string>& candidates) {
  const std::string near = NearName(word, candidates);
  return near.empty() ? "" : absl::StrCat("; did you mean '", near, "'?");
}

}  // namespace tune
