// SPDX-License-Identifier: Apache-2.0
#include "tuner/language.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace tune {

const std::vector<LanguageTraits>& Languages() {
  // All of them sent, since their defaults differ between versions of Triton.
  static const auto* const kTritonOptions =
      new std::vector<std::pair<std::string, std::string>>{{"num_warps", "4"},
                                                           {"num_ctas", "1"},
                                                           {"num_stages", "3"},
                                                           {"maxnreg", ""},
                                                           {"enable_fp_fusion", "True"}};
  static const auto* const kLanguages = new std::vector<LanguageTraits>{
      {.language = Language::kCuda, .name = "CUDA C++"},
      {.language = Language::kPtx, .name = "PTX", .has_macros = false, .on_host = false},
      {.language = Language::kTriton,
       .name = "Triton",
       .has_macros = false,
       .has_constants = true,
       .on_host = false,
       .launched_as_compiled = true,
       .options = *kTritonOptions,
       .suffix = ".py"},
      {.language = Language::kTtir,
       .name = "TTIR",
       .has_macros = false,
       .on_host = false,
       .launched_as_compiled = true,
       .options = *kTritonOptions,
       .suffix = ".ttir"},
      {.language = Language::kCubin,
       .name = "cubin",
       .has_macros = false,
       .is_text = false,
       .on_host = false},
      {.language = Language::kNumpy,
       .name = "NumPy",
       .has_macros = false,
       .runs_on_host = true,
       .suffix = ".py"},
  };
  return *kLanguages;
}

const LanguageTraits& TraitsOf(Language language) {
  const std::vector<LanguageTraits>& all = Languages();
  return *std::find_if(all.begin(), all.end(),
                       [&](const LanguageTraits& traits) { return traits.language == language; });
}

const std::string& ToText(Language language) { return TraitsOf(language).name; }

bool IsForeignFile(Language language, const std::string& file) {
  const std::vector<LanguageTraits>& all = Languages();
  return std::any_of(all.begin(), all.end(), [&](const LanguageTraits& other) {
    return other.language != language && !other.suffix.empty() &&
           other.suffix != TraitsOf(language).suffix && absl::EndsWith(file, other.suffix);
  });
}

absl::StatusOr<Language> ToLanguage(int value) {
  for (const LanguageTraits& traits : Languages()) {
    if (static_cast<int>(traits.language) == value) return traits.language;
  }
  return absl::InvalidArgumentError(absl::StrCat("no such language: ", value));
}

}  // namespace tune
