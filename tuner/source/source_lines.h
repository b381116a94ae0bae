// SPDX-License-Identifier: Apache-2.0
// A source after translation phases 1 to 3: lines joined at backslashes, comments gone, literals
// told apart from code.
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
  // Of punctuators, only ## and # (also as %:%: and %:) and ... are more than one character.
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
