// SPDX-License-Identifier: Apache-2.0
#include "tuner/source/entry_name.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace tune {
namespace {

constexpr size_t kMaxEntryLength = 256;

bool IsWordCharacter(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_';
}

// Every bracket is closed by one of its kind.
bool IsBalanced(absl::string_view text) {
  std::string open;
  for (const char c : text) {
    if (c == '<' || c == '(') open += c;
    if (c != '>' && c != ')') continue;
    if (open.empty() || open.back() != (c == '>' ? '<' : '(')) return false;
    open.pop_back();
  }
  return open.empty();
}

}  // namespace

bool IsPlainIdentifier(absl::string_view name) {
  return !name.empty() && !absl::ascii_isdigit(static_cast<unsigned char>(name[0])) &&
         std::all_of(name.begin(), name.end(), IsWordCharacter);
}

bool IsQualifiedName(absl::string_view name) {
  for (absl::string_view part : absl::StrSplit(name, "::")) {
    if (!IsPlainIdentifier(part)) return false;
  }
  return true;
}

bool IsEntryName(absl::string_view name) {
  const size_t open = name.find('<');
  if (name.size() > kMaxEntryLength || !IsQualifiedName(name.substr(0, open))) return false;
  if (open == absl::string_view::npos) return true;
  const absl::string_view arguments = name.substr(open);
  return arguments.back() == '>' && IsBalanced(arguments) &&
         std::all_of(arguments.begin(), arguments.end(), [](char c) {
           return IsWordCharacter(c) || absl::StrContains("<>(), :*&+-.", std::string(1, c));
         });
}

std::string BaseNameOf(absl::string_view entry) {
  entry = entry.substr(0, entry.find('<'));
  const size_t colon = entry.rfind(':');
  return std::string(colon == absl::string_view::npos ? entry : entry.substr(colon + 1));
}

bool HasWord(absl::string_view text, absl::string_view word) {
  for (size_t at = text.find(word); at != absl::string_view::npos; at = text.find(word, at + 1)) {
    const size_t end = at + word.size();
    const bool begins = at == 0 || !IsWordCharacter(text[at - 1]);
    if (begins && (end == text.size() || !IsWordCharacter(text[end]))) return true;
  }
  return false;
}

}  // namespace tune
