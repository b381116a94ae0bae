// SPDX-License-Identifier: Apache-2.0
#include "tuner/source/source_functions.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "tuner/source/entry_name.h"
#include "tuner/source/source_lines.h"

namespace tune {
namespace {

using Kind = SourceToken::Kind;

constexpr size_t kNamesShown = 8;
constexpr std::array<absl::string_view, 3> kRestrict = {"__restrict__", "__restrict", "restrict"};
// Words that may stand last in a parameter without being its name.
constexpr std::array<absl::string_view, 16> kTypeWords = {
    "void",  "bool", "char",   "short",    "int",    "long",    "float",   "double",
    "const", "auto", "signed", "unsigned", "size_t", "int32_t", "int64_t", "volatile"};

struct Token {
  Kind kind;
  std::string text;
  int line;
};

bool Is(const Token& token, absl::string_view punctuator) {
  return token.kind == Kind::kPunctuator && token.text == punctuator;
}
bool IsWord(const Token& token) {
  return token.kind == Kind::kWord && !absl::ascii_isdigit(token.text[0]);
}

// The macros of all files, each with the words of all its bodies.
class Macros {
 public:
  void Add(const std::string& name, const std::vector<SourceToken>& tokens, size_t from) {
    for (size_t i = from; i < tokens.size(); ++i) {
      if (tokens[i].kind == Kind::kWord) {
        words_[name].insert(tokens[i].text);
        users_[tokens[i].text].insert(name);
      }
      pastes_ = pastes_ || (tokens[i].kind == Kind::kPunctuator && tokens[i].text == "##");
    }
  }
  bool pastes() const { return pastes_; }

  // Is `word` the one looked for, or a macro with it?
  bool Has(const std::string& word, const std::string& wanted) const {
    const auto known = leading_to_.find(wanted);
    return (known != leading_to_.end() ? known->second : FindLeadingTo(wanted)).count(word) != 0;
  }
  bool MentionsAnywhere(const std::string& word) const {
    return std::any_of(words_.begin(), words_.end(),
                       [&](const auto& macro) { return macro.second.count(word) != 0; });
  }

 private:
  // A word and every macro that leads to it, through others too. However long a chain of macros is,
  // it takes no stack.
  const std::set<std::string>& FindLeadingTo(const std::string& wanted) const {
    std::set<std::string>& found = leading_to_[wanted];
    std::vector<std::string> left = {wanted};
    while (!left.empty()) {
      const std::string word = std::move(left.back());
      left.pop_back();
      if (!found.insert(word).second) continue;
      const auto users = users_.find(word);
      if (users == users_.end()) continue;
      left.insert(left.end(), users->second.begin(), users->second.end());
    }
    return found;
  }

  std::map<std::string, std::set<std::string>> words_;  // of a macro
  std::map<std::string, std::set<std::string>> users_;  // macros that have a word
  // Cached by the word looked for; Add is not called after the first look-up.
  mutable std::map<std::string, std::set<std::string>> leading_to_;
  bool pastes_ = false;
};

struct Text {
  std::string file;
  std::vector<Token> tokens;  // without directives
};

struct Source {
  std::vector<Text> texts;
  Macros macros;
  bool readable = true;
};

void Read(const std::string& file, absl::string_view text, Source& source) {
  const auto lines = SplitSource(text);
  if (!lines.ok()) {
    source.readable = false;
    return;
  }
  Text read{.file = file, .tokens = {}};
  for (const SourceLine& line : *lines) {
    const std::vector<SourceToken>& tokens = line.tokens;
    if (tokens[0].kind == Kind::kPunctuator && tokens[0].text == "#") {
      if (tokens.size() > 2 && tokens[1].text == "define") {
        source.macros.Add(tokens[2].text, tokens, 3);
      }
      continue;
    }
    for (const SourceToken& token : tokens) {
      read.tokens.push_back({token.kind, token.text, line.line});
    }
  }
  source.texts.push_back(std::move(read));
}

Source SourceOf(const CompilePlan& plan) {
  Source source;
  if (!TraitsOf(plan.language).has_macros) {
    source.readable = false;
    return source;
  }
  Read(plan.source_name, plan.source_text, source);
  for (const SourceFile& header : plan.headers) Read(header.name, header.text, source);
  for (const auto& [name, value] : plan.defines) {
    if (const auto lines = SplitSource(value); lines.ok() && !lines->empty()) {
      source.macros.Add(name, (*lines)[0].tokens, 0);
    }
  }
  return source;
}

// The index after the parenthesis that closes the one at `open`; the end if there is none.
size_t AfterParentheses(const std::vector<Token>& tokens, size_t open) {
  int depth = 0;
  for (size_t at = open; at < tokens.size(); ++at) {
    if (Is(tokens[at], "(")) ++depth;
    if (Is(tokens[at], ")") && --depth == 0) return at + 1;
  }
  return tokens.size();
}

// "const float* x": as people write it.
std::string Joined(const std::vector<Token>& tokens, size_t begin, size_t end) {
  std::string text;
  bool after_word = false;
  for (size_t at = begin; at < end; ++at) {
    const Token& token = tokens[at];
    if (std::find(kRestrict.begin(), kRestrict.end(), token.text) != kRestrict.end()) continue;
    const bool word = token.kind == Kind::kWord;
    const char last = text.empty() ? ' ' : text.back();
    if (word && (after_word || last == '*' || last == '&' || last == '>' || last == ']')) {
      text += ' ';
    }
    text += token.text;
    after_word = word;
  }
  return text;
}

// Between the parentheses at `open` and `end`, split at commas outside of any brackets.
std::vector<std::string> Parameters(const std::vector<Token>& tokens, size_t open, size_t end) {
  std::vector<std::string> parameters;
  size_t begin = open + 1;
  int depth = 0;
  for (size_t at = open + 1; at < end; ++at) {
    const bool last = at + 1 == end;
    for (const char* opening : {"(", "<", "[", "{"}) depth += Is(tokens[at], opening) ? 1 : 0;
    for (const char* closing : {")", ">", "]", "}"}) depth -= Is(tokens[at], closing) ? 1 : 0;
    if (!last && !(depth == 0 && Is(tokens[at], ","))) continue;
    std::string text = Joined(tokens, begin, at);
    begin = at + 1;
    if (!(last && parameters.empty() && (text.empty() || text == "void"))) {
      parameters.push_back(std::move(text));
    }
  }
  return parameters;
}

// Finds functions where a declaration can stand: outside of any braces but those of a namespace or
// of extern "C".
class Scanner {
 public:
  Scanner(const Text& text, const Macros& macros, std::vector<SourceFunction>& functions)
      : text_(text), tokens_(text.tokens), macros_(macros), functions_(functions) {}

  void Run() {
    for (size_t at = 0; at < tokens_.size();) at = Step(at);
  }

 private:
  size_t Step(size_t at) {
    const Token& token = tokens_[at];
    if (Is(token, ";") || Is(token, "}")) {
      head_ = at + 1;
      return at + 1;
    }
    if (Is(token, "{")) {
      const bool transparent = HeadHas("namespace") || HeadIsLinkage(at);
      head_ = transparent ? at + 1 : head_;
      return transparent ? at + 1 : AfterBody(at);
    }
    if (Is(token, "(")) {
      if (at > head_ + 1 && IsWord(tokens_[at - 1])) return Function(at);
      return AfterParentheses(tokens_, at);
    }
    return at + 1;
  }

  bool HeadHas(absl::string_view word) const {
    for (size_t i = head_; i < tokens_.size() && !Is(tokens_[i], "{"); ++i) {
      if (tokens_[i].kind == Kind::kWord && tokens_[i].text == word) return true;
    }
    return false;
  }
  bool HeadIsLinkage(size_t brace) const {
    return brace == head_ + 2 && tokens_[head_].text == "extern" &&
           tokens_[head_ + 1].kind == Kind::kString;
  }
  size_t AfterBody(size_t open) {
    int depth = 0;
    for (size_t at = open; at < tokens_.size(); ++at) {
      if (Is(tokens_[at], "{")) ++depth;
      if (Is(tokens_[at], "}") && --depth == 0) {
        head_ = at + 1;
        return at + 1;
      }
    }
    return tokens_.size();
  }

  // `open` is behind a word with something before it: a function, an attribute or an initialiser.
  size_t Function(size_t open) {
    const size_t end = AfterParentheses(tokens_, open);
    size_t next = end;
    while (next < tokens_.size() &&
           (tokens_[next].text == "noexcept" || tokens_[next].text == "const")) {
      ++next;
    }
    const bool body = next < tokens_.size() && Is(tokens_[next], "{");
    const bool declared = next < tokens_.size() && Is(tokens_[next], ";");
    if (!body && !declared) return end;
    SourceFunction function{.name = tokens_[open - 1].text,
                            .file = text_.file,
                            .line = tokens_[open - 1].line,
                            .defined = body,
                            .parameters = Parameters(tokens_, open, end)};
    int angles = 0;  // "template <int N = 4>" is no initialiser
    for (size_t i = head_; i + 1 < open; ++i) {
      angles += Is(tokens_[i], "<") ? 1 : Is(tokens_[i], ">") ? -1 : 0;
      if (angles == 0 && Is(tokens_[i], "=")) return end;
      function.global = function.global || (tokens_[i].kind == Kind::kWord &&
                                            macros_.Has(tokens_[i].text, "__global__"));
    }
    functions_.push_back(std::move(function));
    return body ? AfterBody(next) : next;
  }

  const Text& text_;
  const std::vector<Token>& tokens_;
  const Macros& macros_;
  std::vector<SourceFunction>& functions_;
  size_t head_ = 0;  // where the declaration begins that is being read
};

std::vector<SourceFunction> FunctionsIn(const Source& source) {
  std::vector<SourceFunction> functions;
  for (const Text& text : source.texts) Scanner(text, source.macros, functions).Run();
  return functions;
}

std::string KernelsShown(const std::vector<SourceFunction>& functions) {
  std::vector<std::string> names;
  for (const SourceFunction& function : functions) {
    if (!function.global || !function.defined) continue;
    if (std::find(names.begin(), names.end(), function.name) == names.end()) {
      names.push_back(function.name);
    }
  }
  if (names.empty()) return "; it has no kernel";
  const size_t left = names.size() > kNamesShown ? names.size() - kNamesShown : 0;
  names.resize(names.size() - left);
  return absl::StrCat("; it has: ", absl::StrJoin(names, ", "),
                      left > 0 ? absl::StrCat(" and ", left, " more") : "");
}

// How often the word stands in code, not in macros.
size_t Mentions(const Source& source, const std::string& word) {
  size_t count = 0;
  for (const Text& text : source.texts) {
    for (const Token& token : text.tokens) {
      count += token.kind == Kind::kWord && token.text == word ? 1 : 0;
    }
  }
  return count;
}

std::string WhyNoKernel(const CompilePlan& plan, const Source& source,
                        const std::vector<SourceFunction>& all, const std::string& name) {
  const std::string entry = BaseNameOf(name);
  std::vector<SourceFunction> found;
  std::copy_if(all.begin(), all.end(), std::back_inserter(found),
               [&](const SourceFunction& function) { return function.name == entry; });
  const size_t mentions = Mentions(source, entry);
  const bool by_macro = source.macros.MentionsAnywhere(entry);
  if (mentions == 0 && !by_macro && !source.macros.pastes()) {
    return absl::StrCat(plan.source_name, ": the source has no kernel '", entry, "'",
                        KernelsShown(all));
  }
  const auto is_global = [](const SourceFunction& f) { return f.global; };
  const auto is_defined = [](const SourceFunction& f) { return f.defined; };
  const auto defined = std::find_if(found.begin(), found.end(), is_defined);
  if (found.empty() || by_macro) return "";
  if (defined == found.end()) {
    if (mentions > found.size() || source.macros.pastes()) return "";
    return absl::StrCat(PlaceOf(plan, found[0]), ": kernel '", entry,
                        "' is only declared: none of the kernel's files has its body");
  }
  if (std::any_of(found.begin(), found.end(), is_global)) return "";
  return absl::StrCat(PlaceOf(plan, *defined), ": '", entry, "' is no kernel: it is not __global__",
                      KernelsShown(all));
}

}  // namespace

std::vector<SourceFunction> FunctionsOf(const CompilePlan& plan) {
  return FunctionsIn(SourceOf(plan));
}

std::string WhyNoKernel(const CompilePlan& plan) {
  const Source source = SourceOf(plan);
  if (!source.readable) return "";  // whoever compiles it says why
  const std::vector<SourceFunction> all = FunctionsIn(source);
  for (const std::string& entry : plan.entries) {
    if (std::string why = WhyNoKernel(plan, source, all, entry); !why.empty()) return why;
  }
  return "";
}

SourceFunction EntryOf(const CompilePlan& plan, const std::string& entry) {
  SourceFunction best;
  const std::string name = BaseNameOf(entry);
  for (SourceFunction& function : FunctionsOf(plan)) {
    if (function.name != name) continue;
    if (best.line == 0 || (function.defined && !best.defined)) best = std::move(function);
  }
  return best;
}

std::string NameOfParameter(const std::string& parameter) {
  size_t end = parameter.find_first_of("[=");
  if (end == std::string::npos) end = parameter.size();
  size_t begin = end;
  while (begin > 0 && (absl::ascii_isalnum(static_cast<unsigned char>(parameter[begin - 1])) ||
                       parameter[begin - 1] == '_')) {
    --begin;
  }
  std::string name = parameter.substr(begin, end - begin);
  const bool type = std::find(kTypeWords.begin(), kTypeWords.end(), name) != kTypeWords.end();
  return begin == 0 || type ? "" : name;
}

std::string PlaceOf(const CompilePlan& plan, const SourceFunction& function) {
  if (function.line == 0) return plan.source_name;
  return absl::StrCat(function.file, ":", function.line);
}

}  // namespace tune
