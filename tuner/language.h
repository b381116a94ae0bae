// SPDX-License-Identifier: Apache-2.0
// The languages of kernel sources. docs/languages.md lists the steps to add one.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace tune {

// Sent between the daemon and its workers: do not renumber.
enum class Language { kCuda = 1, kPtx = 2, kTriton = 3, kTtir = 4, kCubin = 5, kNumpy = 6 };

struct LanguageTraits {
  Language language = Language::kCuda;
  std::string name;  // "CUDA C++": for people, and in keys
  // Params and defines reach the source as macros, and the spec may choose compiler options.
  bool has_macros = true;
  // Params and defines reach the source as parameters of its functions.
  bool has_constants = false;
  bool is_text = true;  // no file of a kernel has a NUL byte
  bool on_host = true;  // some compiler makes code for the CPU device of it
  // Blocks, clusters and shared memory are the compiler's to choose: a spec says the grid alone.
  bool launched_as_compiled = false;
  // References alone: its functions run on the host, and nothing is compiled.
  bool runs_on_host = false;
  // Its compiler's options that params and defines of the same name set, with their defaults.
  // Empty: left out where nothing sets it.
  std::vector<std::pair<std::string, std::string>> options;
  std::string suffix;  // of files that no other language reads; empty: there is none such
};

// All there are.
const std::vector<LanguageTraits>& Languages();

const LanguageTraits& TraitsOf(Language language);
// "CUDA C++".
const std::string& ToText(Language language);

// Is the file one that only other languages read?
bool IsForeignFile(Language language, const std::string& file);

// INVALID_ARGUMENT for a number that is no language.
absl::StatusOr<Language> ToLanguage(int value);

}  // namespace tune
