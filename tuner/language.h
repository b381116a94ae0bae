// SPDX-License-Identifier: Apache-2.0
// What a kernel's source is written in. docs/languages.md says what adding one touches.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace tune {

// Sent between the daemon and its workers: do not renumber.
enum class Language { kCuda = 1, kPtx = 2, kCubin = 3 };

struct LanguageTraits {
  Language language = Language::kCuda;
  std::string name;  // "CUDA C++": for people, and in keys
  // Params and defines reach the source as macros, and the spec may choose compiler options.
  bool has_macros = true;
  bool is_text = true;  // no file of a kernel has a NUL byte
  bool on_host = true;  // some compiler makes code for the CPU device of it
};

// All there are.
const std::vector<LanguageTraits>& Languages();

const LanguageTraits& TraitsOf(Language language);
// "CUDA C++".
const std::string& ToText(Language language);

// INVALID_ARGUMENT for a number that is no language.
absl::StatusOr<Language> ToLanguage(int value);

}  // namespace tune
