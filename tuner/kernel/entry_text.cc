// SPDX-License-Identifier: Apache-2.0
#include "tuner/kernel/entry_text.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "tuner/source/entry_name.h"

namespace tune {
namespace {

bool IsWordCharacter(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_';
}

absl::Status NoEntry(const std::string& text) {
  return absl::InvalidArgumentError(
      absl::StrCat("'", text, "' is neither a kernel's name nor an instance of a template such as ",
                   "'softmax<THREADS, float>'"));
}

// Words of `text` that are macros, by their values.
std::string Replaced(absl::string_view text, const Macros& macros) {
  std::string replaced;
  for (size_t at = 0; at < text.size();) {
    if (!IsWordCharacter(text[at])) {
      replaced += text[at++];
      continue;
    }
    const size_t begin = at;
    while (at < text.size() && IsWordCharacter(text[at])) ++at;
    const absl::string_view word = text.substr(begin, at - begin);
    const auto macro = std::find_if(macros.begin(), macros.end(),
                                    [&](const auto& known) { return known.first == word; });
    absl::StrAppend(&replaced, macro == macros.end() ? word : absl::string_view(macro->second));
  }
  return replaced;
}

}  // namespace

absl::StatusOr<EntryText> EntryText::Read(const std::string& text, const Parse& parse) {
  EntryText entry;
  std::string outline;  // with a letter in the place of each expression
  for (size_t at = 0; at < text.size();) {
    const size_t open = std::min(text.find('{', at), text.size());
    entry.parts_.push_back({.text = text.substr(at, open - at), .expression = std::nullopt});
    absl::StrAppend(&outline, entry.parts_.back().text);
    if (open == text.size()) break;
    const size_t close = text.find('}', open);
    if (close == std::string::npos) {
      return absl::InvalidArgumentError(absl::StrCat("'", text, "' has a '{' without a '}'"));
    }
    ASSIGN_OR_RETURN(Expression expression, parse(text.substr(open + 1, close - open - 1)));
    entry.parts_.push_back({.text = "", .expression = std::move(expression)});
    absl::StrAppend(&outline, "k");
    at = close + 1;
  }
  if (!IsEntryName(outline)) return NoEntry(text);
  entry.is_instance_ = outline.back() == '>';
  return entry;
}

absl::StatusOr<std::string> EntryText::With(const Evaluate& evaluate, const Macros& macros) const {
  std::string text;
  for (const Part& part : parts_) {
    if (!part.expression.has_value()) {
      absl::StrAppend(&text, part.text);
      continue;
    }
    ASSIGN_OR_RETURN(const Value value, evaluate(*part.expression));
    absl::StrAppend(&text, ToMacro(value));
  }
  const size_t open = text.find('<');
  if (open != std::string::npos) {
    const absl::string_view arguments = absl::string_view(text).substr(open);
    text = absl::StrCat(text.substr(0, open), Replaced(arguments, macros));
  }
  if (!IsEntryName(text)) return NoEntry(text);
  return text;
}

}  // namespace tune
