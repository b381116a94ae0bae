// SPDX-License-Identifier: Apache-2.0
#include "tuner/device/cpu/shared_arrays.h"

#include <algorithm>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace tune::cpu {
namespace {

bool IsIdentifierByte(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_';
}

// Walks a source by its tokens, which distinguishes code from comments and literals.
class Rewriter {
 public:
  explicit Rewriter(absl::string_view text) : text_(text) {}

  std::string Run() {
    while (at_ < text_.size()) Step();
    absl::StrAppend(&out_, text_.substr(copied_));
    return std::move(out_);
  }

 private:
  void Step();
  void Directive();
  bool SkipBlank();
  size_t EndOfLiteral(size_t at) const;
  size_t EndOfRawString(size_t quote) const;
  size_t EndOfLine(size_t at) const;
  void Word();
  void Declaration(size_t begin);
  void Linkage();
  std::string Replacement(const std::string& declaration) const;

  bool InFunction() const {
    return std::find(scopes_.begin(), scopes_.end(), true) != scopes_.end();
  }

  const absl::string_view text_;
  size_t at_ = 0;
  size_t copied_ = 0;  // how much of the text is in out_
  std::string out_;
  bool line_start_ = true;
  bool opens_namespace_ = false;  // what the next brace belongs to
  bool shared_ = false;           // the declaration has had __shared__
  std::vector<bool> scopes_;      // true: a function, or a type
  // Both branches of an #if may open a brace that is closed once.
  std::vector<std::vector<bool>> conditionals_;
};

size_t Rewriter::EndOfLine(size_t at) const {
  while (at < text_.size() && text_[at] != '\n') {
    if (text_[at] == '\\' && at + 1 < text_.size()) ++at;
    ++at;
  }
  return std::min(at, text_.size());
}

size_t Rewriter::EndOfLiteral(size_t at) const {
  const char quote = text_[at++];
  while (at < text_.size() && text_[at] != quote && text_[at] != '\n') {
    if (text_[at] == '\\') ++at;
    ++at;
  }
  return std::min(at + 1, text_.size());
}

size_t Rewriter::EndOfRawString(size_t quote) const {
  const size_t open = text_.find('(', quote);
  if (open == absl::string_view::npos) return text_.size();
  const std::string close = absl::StrCat(")", text_.substr(quote + 1, open - quote - 1), "\"");
  const size_t end = text_.find(close, open);
  return end == absl::string_view::npos ? text_.size() : end + close.size();
}

// Past blanks and comments, if there are any.
bool Rewriter::SkipBlank() {
  if (absl::ascii_isspace(static_cast<unsigned char>(text_[at_]))) {
    line_start_ = line_start_ || text_[at_] == '\n';
    ++at_;
    return true;
  }
  if (text_.substr(at_, 2) == "//") {
    at_ = EndOfLine(at_);
    return true;
  }
  if (text_.substr(at_, 2) == "/*") {
    const size_t end = text_.find("*/", at_ + 2);
    at_ = end == absl::string_view::npos ? text_.size() : end + 2;
    return true;
  }
  return false;
}

void Rewriter::Directive() {
  size_t at = at_ + 1;
  while (at < text_.size() && (text_[at] == ' ' || text_[at] == '\t')) ++at;
  const absl::string_view rest = text_.substr(at);
  if (rest.substr(0, 2) == "if") {
    conditionals_.push_back(scopes_);
  } else if (rest.substr(0, 2) == "el" && !conditionals_.empty()) {
    scopes_ = conditionals_.back();
  } else if (rest.substr(0, 5) == "endif" && !conditionals_.empty()) {
    conditionals_.pop_back();
  }
  at_ = EndOfLine(at_);
}

void Rewriter::Step() {
  if (SkipBlank()) return;
  const char c = text_[at_];
  if (line_start_ && c == '#') return Directive();
  line_start_ = false;
  if (c == '"' || c == '\'') {
    at_ = EndOfLiteral(at_);
  } else if (IsIdentifierByte(c)) {
    Word();
  } else {
    if (c == '{') scopes_.push_back(!opens_namespace_);
    if (c == '}' && !scopes_.empty()) scopes_.pop_back();
    if (c == '{' || c == '}' || c == ';') opens_namespace_ = shared_ = false;
    ++at_;
  }
}

void Rewriter::Word() {
  const size_t begin = at_;
  const bool number = absl::ascii_isdigit(static_cast<unsigned char>(text_[at_]));
  while (at_ < text_.size() &&
         (IsIdentifierByte(text_[at_]) || (number && text_[at_] == '\'' && at_ + 1 < text_.size() &&
                                           IsIdentifierByte(text_[at_ + 1])))) {
    ++at_;
  }
  const absl::string_view word = text_.substr(begin, at_ - begin);
  if (at_ < text_.size() && text_[at_] == '"' &&
      (word == "R" || word == "LR" || word == "uR" || word == "UR" || word == "u8R")) {
    at_ = EndOfRawString(at_);
  } else if (word == "namespace") {
    opens_namespace_ = true;
  } else if (word == "extern") {
    Declaration(begin);
  } else if (word == "__shared__") {
    shared_ = true;
  } else if (word == "alignas" && shared_) {
    absl::StrAppend(&out_, text_.substr(copied_, begin - copied_), "__align__");
    copied_ = at_;
  }
}

// From "extern" on: extern "C", or a declaration up to its semicolon.
void Rewriter::Declaration(size_t begin) {
  const size_t after = at_;
  std::string declaration;  // without comments
  while (at_ < text_.size()) {
    const size_t from = at_;
    if (SkipBlank()) {
      declaration += ' ';
      continue;
    }
    const char c = text_[at_];
    if (c == ';') break;
    if (c == '"') return Linkage();
    if (c == '{' || c == '#') {
      at_ = from;
      return;
    }
    declaration += c;
    ++at_;
  }
  const std::string replacement = Replacement(declaration);
  if (replacement.empty()) {
    at_ = after;
    return;
  }
  const absl::string_view old = text_.substr(begin, at_ - begin);
  absl::StrAppend(&out_, text_.substr(copied_, begin - copied_), replacement,
                  std::string(std::count(old.begin(), old.end(), '\n'), '\n'));
  copied_ = at_;
}

// extern "C": of the one declaration that follows, or of those in braces.
void Rewriter::Linkage() {
  at_ = EndOfLiteral(at_);
  while (at_ < text_.size() && SkipBlank()) continue;
  opens_namespace_ = at_ < text_.size() && text_[at_] == '{';
}

// Empty if the declaration is of something else.
std::string Rewriter::Replacement(const std::string& declaration) const {
  std::string rest;
  bool shared = false;
  for (size_t at = 0; at < declaration.size();) {
    size_t end = at;
    while (end < declaration.size() && IsIdentifierByte(declaration[end])) ++end;
    const std::string word = declaration.substr(at, end - at);
    if (word == "__shared__") {
      shared = true;
      at = end;
    } else if (word == "__align__" || word == "alignas" || word == "__attribute__") {
      // The memory is aligned to more than any of them asks for.
      int depth = 0;
      for (at = end; at < declaration.size(); ++at) {
        if (declaration[at] == '(') ++depth;
        if (declaration[at] == ')' && --depth == 0) break;
      }
      ++at;
    } else {
      end = std::max(end, at + 1);
      absl::StrAppend(&rest, declaration.substr(at, end - at));
      at = end;
    }
  }
  const size_t bracket = rest.find('[');
  if (!shared || bracket == std::string::npos) return "";
  const size_t close = rest.find(']', bracket);
  if (close == std::string::npos) return "";
  size_t name_end = bracket;
  while (name_end > 0 && absl::ascii_isspace(static_cast<unsigned char>(rest[name_end - 1]))) {
    --name_end;
  }
  size_t name_begin = name_end;
  while (name_begin > 0 && IsIdentifierByte(rest[name_begin - 1])) --name_begin;
  const std::string name = rest.substr(name_begin, name_end - name_begin);
  // Extents after the first, which has none: "float tile[][33]" is of rows of 33.
  const std::string type =
      absl::StrCat(absl::StripAsciiWhitespace(rest.substr(0, name_begin)), rest.substr(close + 1));
  if (InFunction()) {
    return absl::StrCat("auto* ", name, " = ::tune_cpu::DynamicShared<", type, ">()");
  }
  return absl::StrCat("static thread_local ::std::add_pointer_t<", type, "> ", name,
                      "; static const ::tune_cpu::SharedSlot tune_cpu_slot_of_", name,
                      "([](unsigned char* base) { ", name,
                      " = reinterpret_cast<::std::add_pointer_t<", type, ">>(base); })");
}

}  // namespace

std::string RewriteSharedArrays(absl::string_view text) { return Rewriter(text).Run(); }

}  // namespace tune::cpu
