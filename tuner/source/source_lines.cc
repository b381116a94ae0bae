// SPDX-License-Identifier: Apache-2.0
#include "tuner/source/source_lines.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace tune {
namespace {

bool IsWordByte(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return absl::ascii_isalnum(byte) || c == '_' || c == '$' || byte >= 0x80;
}

bool IsRawPrefix(absl::string_view word) {
  return word == "R" || word == "LR" || word == "uR" || word == "UR" || word == "u8R";
}

class Splitter {
 public:
  explicit Splitter(absl::string_view text) : text_(text) { Join(); }

  absl::StatusOr<std::vector<SourceLine>> Run() {
    if (text_.find('\0') != absl::string_view::npos) return Error("a NUL byte");
    while (at_ < joined_.size() && error_.ok()) Step();
    if (!error_.ok()) return error_;
    EndLine();
    return std::move(lines_);
  }

 private:
  void Join();
  void Step();
  void EndLine();
  void Comment();
  void Literal(char quote);
  void RawString();
  void Word();
  void Punctuator();
  int LineOf(size_t joined_at);
  absl::Status Error(absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat(LineOf(at_), ": ", what));
  }
  char Peek(size_t ahead = 0) const {
    return at_ + ahead < joined_.size() ? joined_[at_ + ahead] : '\0';
  }
  // Moves `count` bytes to the current line's text.
  void Take(size_t count) {
    count = std::min(count, joined_.size() - at_);
    current_.text.append(joined_, at_, count);
    at_ += count;
  }
  void Add(SourceToken::Kind kind, std::string text) {
    if (current_.tokens.empty()) current_.line = LineOf(at_);
    current_.tokens.push_back({kind, std::move(text)});
  }

  const absl::string_view text_;
  std::string joined_;
  std::vector<size_t> origins_;  // where each byte of joined_ is in text_
  size_t at_ = 0;
  size_t counted_to_ = 0;  // in text_
  int counted_line_ = 1;
  SourceLine current_;
  std::vector<SourceLine> lines_;
  absl::Status error_;
};

void Splitter::Join() {
  size_t at = absl::StartsWith(text_, "\xEF\xBB\xBF") ? 3 : 0;
  for (; at < text_.size(); ++at) {
    const absl::string_view rest = text_.substr(at, 3);
    if (absl::StartsWith(rest, "\\\n")) {
      ++at;
    } else if (rest == "\\\r\n") {
      at += 2;
    } else if (!absl::StartsWith(rest, "\r\n")) {
      joined_ += text_[at];
      origins_.push_back(at);
    }
  }
}

int Splitter::LineOf(size_t joined_at) {
  const size_t origin = joined_at < origins_.size() ? origins_[joined_at] : text_.size();
  if (origin < counted_to_) {
    counted_to_ = 0;
    counted_line_ = 1;
  }
  for (; counted_to_ < origin; ++counted_to_) counted_line_ += text_[counted_to_] == '\n';
  return counted_line_;
}

void Splitter::EndLine() {
  if (!current_.tokens.empty()) lines_.push_back(std::move(current_));
  current_ = SourceLine();
}

void Splitter::Step() {
  const char c = Peek();
  if (c == '\n') {
    EndLine();
    ++at_;
  } else if (c == '\r') {
    error_ = Error("a carriage return that ends no line");
  } else if (absl::ascii_isspace(static_cast<unsigned char>(c))) {
    Take(1);
  } else if (c == '/' && (Peek(1) == '/' || Peek(1) == '*')) {
    Comment();
  } else if (c == '"' || c == '\'') {
    Literal(c);
  } else if (IsWordByte(c) || (c == '.' && absl::ascii_isdigit(Peek(1)))) {
    Word();
  } else {
    Punctuator();
  }
}

void Splitter::Comment() {
  current_.text += ' ';
  if (Peek(1) == '/') {
    const size_t end = std::min(joined_.find('\n', at_), joined_.size());
    // Compilers do not agree on whether this comment goes on in the next line.
    const size_t last = joined_.find_last_not_of(" \t\v\f", end - 1);
    if (joined_[last] == '\\') {
      at_ = last;
      error_ = Error("remove the spaces after the backslash at the line's end");
      return;
    }
    at_ = end;
    return;
  }
  const size_t end = joined_.find("*/", at_ + 2);
  if (end == std::string::npos) {
    error_ = Error("a comment that does not end");
    return;
  }
  at_ = end + 2;
}

void Splitter::Literal(char quote) {
  size_t end = at_ + 1;
  while (end < joined_.size() && joined_[end] != quote && joined_[end] != '\n') {
    end += joined_[end] == '\\' && end + 1 < joined_.size() && joined_[end + 1] != '\n' ? 2 : 1;
  }
  const std::string body = joined_.substr(at_ + 1, end - at_ - 1);
  if (end >= joined_.size() || joined_[end] == '\n') {
    // An apostrophe in the text of an #error or in what #if 0 leaves out.
    if (absl::StrContains(body, "/*") || absl::StrContains(body, "\"") ||
        absl::EndsWith(absl::StripTrailingAsciiWhitespace(body), "\\")) {
      error_ = Error("a quote that is not closed in its line");
      return;
    }
    Add(SourceToken::Kind::kPunctuator, std::string(1, quote));
    Take(1 + body.size());
    return;
  }
  Add(quote == '"' ? SourceToken::Kind::kString : SourceToken::Kind::kCharacter, body);
  Take(body.size() + 2);
}

// In a raw string nothing is joined or left out: it is looked up in the text itself.
void Splitter::RawString() {
  const size_t quote = origins_[at_];
  const size_t open = text_.find('(', quote);
  const size_t delimiter_size = open - quote - 1;
  if (open == absl::string_view::npos || delimiter_size > 16) {
    error_ = Error("a raw string without its opening parenthesis");
    return;
  }
  const std::string close = absl::StrCat(")", text_.substr(quote + 1, delimiter_size), "\"");
  const size_t end = text_.find(close, open + 1);
  if (end == absl::string_view::npos) {
    error_ = Error("a raw string that does not end");
    return;
  }
  Add(SourceToken::Kind::kString, std::string(text_.substr(open + 1, end - open - 1)));
  current_.text += "\"\"";
  const size_t after = end + close.size();
  at_ = std::lower_bound(origins_.begin(), origins_.end(), after) - origins_.begin();
}

void Splitter::Word() {
  size_t end = at_;
  const bool number = !IsWordByte(Peek()) || absl::ascii_isdigit(Peek());
  auto goes_on = [&](size_t i) {
    if (i >= joined_.size()) return false;
    if (IsWordByte(joined_[i])) return true;
    if (!number) return false;
    if (joined_[i] == '\'') return i + 1 < joined_.size() && IsWordByte(joined_[i + 1]);
    const char before = i > at_ ? absl::ascii_tolower(joined_[i - 1]) : ' ';
    const bool sign = joined_[i] == '+' || joined_[i] == '-';
    return joined_[i] == '.' || (sign && (before == 'e' || before == 'p'));
  };
  while (goes_on(end)) ++end;
  std::string word = joined_.substr(at_, end - at_);
  const bool raw = end < joined_.size() && joined_[end] == '"' && IsRawPrefix(word);
  Add(SourceToken::Kind::kWord, std::move(word));
  Take(end - at_);
  if (raw) RawString();
}

void Splitter::Punctuator() {
  const absl::string_view rest = absl::string_view(joined_).substr(at_);
  if (absl::StartsWith(rest, "?\?=") || absl::StartsWith(rest, "?\?/")) {
    error_ = Error("trigraphs are not allowed; C++17 has none");
    return;
  }
  const size_t next = rest.find_first_not_of(" \t\v\f", 1);
  if (rest[0] == '\\' && next != absl::string_view::npos && rest[next] == '\n') {
    error_ = Error("remove the spaces after the backslash at the line's end");
    return;
  }
  size_t size = 1;
  absl::string_view text = rest.substr(0, 1);
  if (absl::StartsWith(rest, "%:%:")) {
    size = 4;
    text = "##";
  } else if (absl::StartsWith(rest, "##") || absl::StartsWith(rest, "%:")) {
    size = 2;
    text = rest[0] == '#' ? "##" : "#";
  } else if (absl::StartsWith(rest, "...")) {
    size = 3;
    text = "...";
  }
  Add(SourceToken::Kind::kPunctuator, std::string(text));
  Take(size);
}

}  // namespace

absl::StatusOr<std::vector<SourceLine>> SplitSource(absl::string_view text) {
  return Splitter(text).Run();
}

}  // namespace tune
