// SPDX-License-Identifier: Apache-2.0
// Splits a source as translation phases 1 to 3 do: joins lines at backslashes, removes comments,
// and separates literals from code.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tune {

struct SourceToken {
  enum class Kind { kWord, kString, kCharacter, kPunctuator };
  Kind kind;
  // A word is an identifier or a number. A string is without its quotes; escapes stay as written.
  // The only punctuators of more than one character are ## and # (also as %:%: and %:) and "...".
  std::string text;
};

struct SourceLine {
  int line = 1;      // where it begins, from 1
  std::string text;  // as the tokens were made from; a comment is one space
  std::vector<SourceToken> tokens;
};

// Lines without tokens are left out. INVALID_ARGUMENT, "12: ...": text that compilers of C++17
// and C++20 read in different ways, such as a backslash with a space between it and the line's end.
absl::StatusOr<std::vector<SourceLine>> SplitSource(absl::string_view text);

}  // namespace tune
