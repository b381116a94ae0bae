// SPDX-License-Identifier: Apache-2.0
#include "tuner/language.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace tune {

const std::vector<LanguageTraits>& Languages() {
  static const auto* const kLanguages = new std::vector<LanguageTraits>{
      {.language = Language::kCuda, .name = "CUDA C++"},
      {.language = Language::kPtx, .name = "PTX", .has_macros = false, .on_host = false},
      {.language = Language::kCubin,
       .name = "cubin",
       .has_macros = false,
       .is_text = false,
       .on_host = false},
  };
  return *kLanguages;
}

const LanguageTraits& TraitsOf(Language language) {
  const std::vector<LanguageTraits>& all = Languages();
  return *std::find_if(all.begin(), all.end(),
                       [&](const LanguageTraits& traits) { return traits.language == language; });
}

const std::string& ToText(Language language) { return TraitsOf(language).name; }

absl::StatusOr<Language> ToLanguage(int value) {
  for (const LanguageTraits& traits : Languages()) {
    if (static_cast<int>(traits.language) == value) return traits.language;
  }
  return absl::InvalidArgumentError(absl::StrCat("no such language: ", value));
}

}  // namespace tune
