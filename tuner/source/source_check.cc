// SPDX-License-Identifier: Apache-2.0
#include "tuner/source/source_check.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "tuner/device_profile.h"
#include "tuner/source/conditions.h"
#include "tuner/source/source_lines.h"

namespace tune {
namespace {

using Kind = SourceToken::Kind;
using Tokens = std::vector<SourceToken>;

constexpr std::array<absl::string_view, 4> kIncludes = {"include", "include_next", "import",
                                                        "embed"};
constexpr std::array<absl::string_view, 3> kQuestions = {"__has_include", "__has_include_next",
                                                         "__has_embed"};
constexpr std::array<absl::string_view, 13> kDirectives = {
    "define",   "undef", "if",    "ifdef", "ifndef",  "elif", "elifdef",
    "elifndef", "else",  "endif", "error", "warning", "ident"};
// Words that may precede a parenthesis in a condition without being a macro.
constexpr std::array<absl::string_view, 10> kConditionCalls = {"defined",
                                                               "__has_cpp_attribute",
                                                               "__has_attribute",
                                                               "__has_builtin",
                                                               "__has_feature",
                                                               "__has_extension",
                                                               "and",
                                                               "or",
                                                               "not",
                                                               "__is_identifier"};
// After "GCC" or "clang" in a pragma: neither reads a file.
constexpr std::array<absl::string_view, 9> kCompilerPragmas = {
    "unroll",       "ivdep",       "diagnostic",    "optimize", "target",
    "push_options", "pop_options", "reset_options", "loop"};
constexpr std::array<absl::string_view, 11> kPragmas = {
    "once", "unroll",           "nounroll",        "pack", "push_macro", "pop_macro", "STDC",
    "omp",  "nv_diag_suppress", "nv_diag_default", "weak"};

template <size_t kCount>
bool IsIn(const std::array<absl::string_view, kCount>& list, absl::string_view text) {
  return std::find(list.begin(), list.end(), text) != list.end();
}

bool IsPunctuator(const Tokens& tokens, size_t at, absl::string_view text) {
  return at < tokens.size() && tokens[at].kind == Kind::kPunctuator && tokens[at].text == text;
}
bool IsWord(const Tokens& tokens, size_t at) {
  return at < tokens.size() && tokens[at].kind == Kind::kWord;
}

struct Macro {
  bool has_parameters = false;
  std::set<std::string> parameters;
  Tokens body;
};

class Checker {
 public:
  explicit Checker(const CompilePlan& plan)
      : plan_(plan), cpu_(ProfileOfTarget(plan.target).is_host) {
    for (const SourceFile& header : plan.headers) headers_.insert(header.name);
  }

  absl::Status Run();

 private:
  absl::Status File(const std::string& name, absl::string_view text);
  absl::Status Line(const SourceLine& line);
  absl::Status Directive(const SourceLine& line);
  absl::Status Include(const SourceLine& line);
  absl::Status Questions(const Tokens& tokens);
  absl::Status Name(const std::string& quoted);
  absl::Status LineNumber(const Tokens& tokens);
  absl::Status Pragma(const Tokens& tokens, size_t at);
  absl::Status PragmaOperators(const Tokens& tokens);
  absl::Status AssemblerDirectives(const Tokens& tokens);
  void Define(const Tokens& tokens);
  absl::Status Condition(const Tokens& tokens, size_t from, const Macro* inside,
                         std::set<std::string>& seen);

  absl::Status Refuse(absl::string_view what) const {
    return absl::InvalidArgumentError(absl::StrCat(file_, ":", line_, ": ", what));
  }
  std::string Allowed() const;

  const CompilePlan& plan_;
  const bool cpu_;
  std::set<std::string> headers_;
  std::string file_;
  int line_ = 0;
  std::multimap<std::string, Macro> macros_;
  struct Held {
    std::string file;
    int line;
    Tokens tokens;
  };
  std::vector<Held> conditions_;
  const std::set<std::string> no_macros_;
  std::optional<Conditions> conditions_of_file_;
};

std::string Checker::Allowed() const {
  std::vector<std::string> names(headers_.begin(), headers_.end());
  return absl::StrCat("; allowed: ",
                      names.empty() ? ""
                                    : absl::StrCat("the kernel's own headers (",
                                                   absl::StrJoin(names, ", "), ") and "),
                      cpu_ ? "system headers without a folder, such as <cstdint>"
                           : "the compiler's headers, such as <cuda_fp16.h>");
}

// `quoted` is with its quotes or angle brackets.
absl::Status Checker::Name(const std::string& quoted) {
  const std::string name = quoted.substr(1, quoted.size() - 2);
  if (headers_.count(name) != 0) return absl::OkStatus();
  const size_t slash = file_.rfind('/');
  if (quoted[0] == '"' && slash != std::string::npos &&
      headers_.count(absl::StrCat(file_.substr(0, slash + 1), name)) != 0) {
    return absl::OkStatus();
  }
  const bool plain = !name.empty() && std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return absl::ascii_isalnum(c) ||
           absl::StrContains("_.+-/", absl::string_view(reinterpret_cast<const char*>(&c), 1));
  });
  bool inside = plain && name[0] != '/';
  for (absl::string_view part : absl::StrSplit(name, '/')) inside = inside && part != "..";
  // The system's folders are not for kernels on the CPU; those of an include root may be.
  const bool folder = absl::StrContains(name, '/') && plan_.include_roots.empty() &&
                      !absl::StartsWith(name, "cooperative_groups/");
  // An #include that no compiler reads may name a missing header.
  const bool read = !conditions_of_file_ || conditions_of_file_->Around() != Holds::kNo;
  if (inside && !(folder && cpu_ && read)) return absl::OkStatus();
  if (inside && quoted[0] == '<') {
    return Refuse(absl::StrCat(quoted,
                               " is not there on the CPU device: put it under #ifndef "
                               "TUNE_CPU, or let the spec's targets be GPUs (targets: \"sm_*\")"));
  }
  return Refuse(absl::StrCat(quoted, " may not be included", Allowed()));
}

// From where a header's name should begin, to its end; empty if it is not spelt out.
std::string HeaderName(absl::string_view text) {
  text = absl::StripLeadingAsciiWhitespace(text);
  if (text.empty() || (text[0] != '"' && text[0] != '<')) return "";
  const size_t end = text.find(text[0] == '<' ? '>' : '"', 1);
  return end == absl::string_view::npos ? "" : std::string(text.substr(0, end + 1));
}

absl::Status Checker::Include(const SourceLine& line) {
  const std::string& directive = line.tokens[1].text;
  const size_t at = line.text.find(directive);
  const std::string name = HeaderName(line.text.substr(at + directive.size()));
  if (!name.empty()) return Name(name);
  return Refuse(absl::StrCat("#", directive,
                             " must spell out its header's name in quotes or angle brackets"));
}

absl::Status Checker::Questions(const Tokens& tokens) {
  for (size_t at = 0; at < tokens.size(); ++at) {
    if (tokens[at].kind != Kind::kWord || !IsIn(kQuestions, tokens[at].text)) continue;
    // "#ifdef __has_include" and "defined(__has_include)" ask about the compiler only.
    const bool asks_for_support =
        at > 0 && (absl::StartsWith(tokens[at - 1].text, "ifdef") ||
                   tokens[at - 1].text == "ifndef" || tokens[at - 1].text == "defined" ||
                   (at > 1 && tokens[at - 2].text == "defined" &&
                    IsPunctuator(tokens, at - 1, "(") && IsPunctuator(tokens, at + 1, ")")));
    if (asks_for_support) continue;
    std::string name;
    size_t end = at + 2;
    if (IsPunctuator(tokens, at + 1, "(") && end < tokens.size()) {
      if (tokens[end].kind == Kind::kString) {
        name = absl::StrCat("\"", tokens[end++].text, "\"");
      } else if (IsPunctuator(tokens, end, "<")) {
        for (; end < tokens.size() && !IsPunctuator(tokens, end, ">"); ++end) {
          absl::StrAppend(&name, tokens[end].text);
        }
        absl::StrAppend(&name, ">");
        ++end;
      }
    }
    if (name.empty() || !IsPunctuator(tokens, end, ")")) {
      return Refuse(absl::StrCat(tokens[at].text, " must spell out a header's name"));
    }
    RETURN_IF_ERROR(Name(name));
  }
  return absl::OkStatus();
}

// The compiler prints lines of the file that it believes a message to be about.
absl::Status Checker::LineNumber(const Tokens& tokens) {
  if (!cpu_) return absl::OkStatus();
  const bool number = IsWord(tokens, 2) && absl::ascii_isdigit(tokens[2].text[0]);
  const bool names_own_file =
      tokens.size() == 4 && tokens[3].kind == Kind::kString &&
      (tokens[3].text == plan_.source_name || headers_.count(tokens[3].text) != 0);
  if (number && (tokens.size() == 3 || names_own_file)) return absl::OkStatus();
  return Refuse("#line takes a number and may name only a file of this kernel");
}

absl::Status Checker::Pragma(const Tokens& tokens, size_t at) {
  if (!cpu_ || at >= tokens.size()) return absl::OkStatus();
  const std::string& first = tokens[at].text;
  const bool compiler = first == "GCC" || first == "clang";
  if (compiler && IsWord(tokens, at + 1) && IsIn(kCompilerPragmas, tokens[at + 1].text)) {
    return absl::OkStatus();
  }
  if (!compiler && tokens[at].kind == Kind::kWord &&
      (IsIn(kPragmas, first) || absl::StartsWith(first, "nv_") ||
       absl::StartsWith(first, "diag"))) {
    return absl::OkStatus();
  }
  return Refuse(absl::StrCat(
      "pragma '",
      compiler && IsWord(tokens, at + 1) ? absl::StrCat(first, " ", tokens[at + 1].text) : first,
      "' is not allowed for target cpu; allowed: ", absl::StrJoin(kPragmas, ", "),
      ", and GCC or clang with ", absl::StrJoin(kCompilerPragmas, ", ")));
}

absl::Status Checker::PragmaOperators(const Tokens& tokens) {
  if (!cpu_) return absl::OkStatus();
  for (size_t at = 0; at < tokens.size(); ++at) {
    if (tokens[at].kind != Kind::kWord || tokens[at].text != "_Pragma") continue;
    if (!IsPunctuator(tokens, at + 1, "(") || at + 2 >= tokens.size() ||
        tokens[at + 2].kind != Kind::kString || absl::StrContains(tokens[at + 2].text, "\n")) {
      return Refuse("_Pragma must be given its text as one string for target cpu");
    }
    const std::string text =
        absl::StrReplaceAll(tokens[at + 2].text, {{"\\\"", "\""}, {"\\\\", "\\"}});
    ASSIGN_OR_RETURN(std::vector<SourceLine> lines, SplitSource(text));
    if (!lines.empty()) RETURN_IF_ERROR(Pragma(lines[0].tokens, 0));
  }
  return absl::OkStatus();
}

// Also where two strings stand side by side, as a compiler joins them.
absl::Status Checker::AssemblerDirectives(const Tokens& tokens) {
  if (!cpu_) return absl::OkStatus();
  std::string joined;
  for (const SourceToken& token : tokens) {
    if (token.kind != Kind::kString) continue;
    std::string plain;
    absl::StrAppend(&joined, absl::CUnescape(token.text, &plain) ? plain : token.text);
  }
  absl::AsciiStrToLower(&joined);
  for (absl::string_view directive : {".incbin", ".include"}) {
    if (!absl::StrContains(joined, directive)) continue;
    return Refuse(absl::StrCat("the assembler's ", directive, " is not allowed"));
  }
  return absl::OkStatus();
}

void Checker::Define(const Tokens& tokens) {
  if (!IsWord(tokens, 2)) return;
  Macro macro;
  size_t at = 3;
  // "#define A (x)" is taken for one with parameters too: both readings are checked alike but for
  // what the parameters hide.
  if (IsPunctuator(tokens, at, "(")) {
    macro.has_parameters = true;
    for (size_t i = at + 1; i < tokens.size() && !IsPunctuator(tokens, i, ")"); ++i) {
      if (tokens[i].kind == Kind::kWord) macro.parameters.insert(tokens[i].text);
    }
  }
  macro.body.assign(tokens.begin() + static_cast<ptrdiff_t>(at), tokens.end());
  macros_.emplace(tokens[2].text, std::move(macro));
}

// A condition must not make up a __has_include out of pieces.
absl::Status Checker::Condition(const Tokens& tokens, size_t from, const Macro* inside,
                                std::set<std::string>& seen) {
  for (size_t at = from; at < tokens.size(); ++at) {
    if (inside != nullptr && IsPunctuator(tokens, at, "##")) {
      return Refuse("a condition must not use a macro that joins words with ##");
    }
    if (tokens[at].kind != Kind::kWord || absl::ascii_isdigit(tokens[at].text[0])) continue;
    const std::string& word = tokens[at].text;
    const bool called = IsPunctuator(tokens, at + 1, "(");
    if (IsIn(kQuestions, word) || IsIn(kConditionCalls, word)) continue;
    const auto [begin, end] = macros_.equal_range(word);
    const bool parameter = inside != nullptr && inside->parameters.count(word) != 0;
    const bool known =
        std::any_of(begin, end, [](const auto& m) { return m.second.has_parameters; });
    if (called && (parameter || !known)) {
      return Refuse(absl::StrCat("a condition must not use the macro ", word,
                                 "(...), which is not the kernel's own"));
    }
    if (parameter || !seen.insert(word).second) continue;
    for (auto macro = begin; macro != end; ++macro) {
      RETURN_IF_ERROR(Condition(macro->second.body, 0, &macro->second, seen));
    }
  }
  return absl::OkStatus();
}

absl::Status Checker::Directive(const SourceLine& line) {
  const Tokens& tokens = line.tokens;
  if (tokens.size() == 1) return absl::OkStatus();
  const std::string& name = tokens[1].text;
  if (IsIn(kIncludes, name)) return Include(line);
  if (name == "line") return LineNumber(tokens);
  if (name == "pragma") return Pragma(tokens, 2);
  if (!IsIn(kDirectives, name)) {
    return Refuse(absl::StrCat("#", name, " is no directive that a kernel may use"));
  }
  if (name == "define") Define(tokens);
  if (name == "if" || name == "elif") conditions_.push_back({file_, line_, tokens});
  return absl::OkStatus();
}

absl::Status Checker::Line(const SourceLine& line) {
  line_ = line.line;
  if (IsPunctuator(line.tokens, 0, "#")) {
    conditions_of_file_->Read(line);
    RETURN_IF_ERROR(Directive(line));
    if (line.tokens.size() > 1 &&
        (line.tokens[1].text == "error" || line.tokens[1].text == "warning")) {
      return absl::OkStatus();
    }
  }
  RETURN_IF_ERROR(Questions(line.tokens));
  RETURN_IF_ERROR(PragmaOperators(line.tokens));
  return AssemblerDirectives(line.tokens);
}

absl::Status Checker::File(const std::string& name, absl::string_view text) {
  file_ = name;
  absl::StatusOr<std::vector<SourceLine>> lines = SplitSource(text);
  if (!lines.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(name, ":", lines.status().message()));
  }
  conditions_of_file_.emplace(plan_, no_macros_);
  for (const SourceLine& line : *lines) RETURN_IF_ERROR(Line(line));
  return absl::OkStatus();
}

absl::Status Checker::Run() {
  RETURN_IF_ERROR(File(plan_.source_name, plan_.source_text));
  for (const SourceFile& header : plan_.headers) RETURN_IF_ERROR(File(header.name, header.text));
  for (const auto& [name, value] : plan_.defines) {
    RETURN_IF_ERROR(
        File(absl::StrCat("macro ", name), absl::StrCat("#define ", name, " ", value, "\n\n")));
  }
  for (const Held& condition : conditions_) {
    file_ = condition.file;
    line_ = condition.line;
    std::set<std::string> seen;
    RETURN_IF_ERROR(Condition(condition.tokens, 2, nullptr, seen));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckIncludes(const CompilePlan& plan) { return Checker(plan).Run(); }

}  // namespace tune
