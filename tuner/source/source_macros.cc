// SPDX-License-Identifier: Apache-2.0
#include "tuner/source/source_macros.h"

#include <cstddef>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tuner/device_profile.h"
#include "tuner/source/source_lines.h"

namespace tune {
namespace {

using Kind = SourceToken::Kind;
using Tokens = std::vector<SourceToken>;

enum class Holds { kNo, kMaybe, kYes };

Holds Not(Holds holds) {
  return holds == Holds::kYes ? Holds::kNo : holds == Holds::kNo ? Holds::kYes : Holds::kMaybe;
}
Holds Both(Holds a, Holds b) { return a < b ? a : b; }

// Follows the conditions of one file as far as they depend on what the plan says.
class Reader {
 public:
  Reader(const CompilePlan& plan, const std::set<std::string>& macros, std::string file,
         std::vector<Redefinition>& found)
      : cpu_(ProfileOfTarget(plan.target).is_host),
        macros_(macros),
        file_(std::move(file)),
        found_(found) {}

  void Read(const std::vector<SourceLine>& lines) {
    for (size_t i = 0; i < lines.size(); ++i) {
      const Tokens& tokens = lines[i].tokens;
      if (tokens[0].kind != Kind::kPunctuator || tokens[0].text != "#" || tokens.size() < 2) {
        continue;
      }
      const bool guard = i + 1 < lines.size() && IsGuard(tokens, lines[i + 1].tokens);
      Directive(lines[i], guard);
    }
  }

 private:
  struct Condition {
    Holds now = Holds::kMaybe;   // of the branch that is being read
    Holds earlier = Holds::kNo;  // of any branch before it
    Holds around = Holds::kYes;  // of the conditions that it stands in
  };

  // "#ifndef X" with "#define X" behind it.
  static bool IsGuard(const Tokens& first, const Tokens& second) {
    return first.size() == 3 && first[1].text == "ifndef" && second.size() == 3 &&
           second[1].text == "define" && second[2].text == first[2].text;
  }

  Holds IsDefined(const std::string& name) const {
    if (macros_.count(name) != 0) return Holds::kYes;
    if (name == "TUNE_REFERENCE") return Holds::kNo;
    if (name == "TUNE_CPU") return cpu_ ? Holds::kYes : Holds::kNo;
    if (name == "__CUDACC__" || name == "__CUDA_ARCH__") return cpu_ ? Holds::kNo : Holds::kYes;
    return Holds::kMaybe;
  }

  // "0", "1", "X", "!X", "defined X", "!defined(X)"; anything else may hold.
  Holds Evaluate(const Tokens& tokens, size_t at) const {
    size_t negations = 0;
    while (at + negations < tokens.size() && tokens[at + negations].text == "!") ++negations;
    const Holds holds = EvaluatePlain(tokens, at + negations);
    return negations % 2 == 0 ? holds : Not(holds);
  }

  Holds EvaluatePlain(const Tokens& tokens, size_t at) const {
    const size_t left = tokens.size() - at;
    if (left == 1 && tokens[at].text == "0") return Holds::kNo;
    if (left == 1 && tokens[at].text == "1") return Holds::kYes;
    if (left == 1 && (tokens[at].text == "TUNE_REFERENCE" || tokens[at].text == "TUNE_CPU")) {
      return IsDefined(tokens[at].text);
    }
    if (left < 2 || tokens[at].text != "defined") return Holds::kMaybe;
    if (left == 2) return IsDefined(tokens[at + 1].text);
    const bool parentheses = left == 4 && tokens[at + 1].text == "(" && tokens[at + 3].text == ")";
    return parentheses ? IsDefined(tokens[at + 2].text) : Holds::kMaybe;
  }

  void Branch(Holds holds) {
    if (conditions_.empty()) return;
    Condition& condition = conditions_.back();
    if (condition.now > condition.earlier) condition.earlier = condition.now;
    condition.now = Both(holds, Not(condition.earlier));
  }

  void Directive(const SourceLine& line, bool guard) {
    const Tokens& tokens = line.tokens;
    const std::string& name = tokens[1].text;
    if (name == "ifdef" || name == "ifndef") {
      const Holds defined = tokens.size() > 2 ? IsDefined(tokens[2].text) : Holds::kMaybe;
      const Holds holds = name == "ifdef" ? defined : Not(defined);
      conditions_.push_back({.now = guard && holds == Holds::kMaybe ? Holds::kYes : holds,
                             .around = Around()});
    } else if (name == "if") {
      conditions_.push_back({.now = Evaluate(tokens, 2), .around = Around()});
    } else if (name == "elif") {
      Branch(Evaluate(tokens, 2));
    } else if (name == "elifdef" || name == "elifndef") {
      Branch(Holds::kMaybe);
    } else if (name == "else") {
      Branch(Holds::kYes);
    } else if (name == "endif") {
      if (!conditions_.empty()) conditions_.pop_back();
    } else if ((name == "define" || name == "undef") && tokens.size() > 2) {
      Definition(tokens[2].text, line.line, name == "undef");
    }
  }

  // Of all conditions that stand open.
  Holds Around() const {
    return conditions_.empty() ? Holds::kYes
                               : Both(conditions_.back().around, conditions_.back().now);
  }

  void Definition(const std::string& name, int line, bool only_undefined) {
    if (macros_.count(name) == 0) return;
    const Holds holds = Around();
    if (holds == Holds::kNo) return;
    found_.push_back({.file = file_,
                      .line = line,
                      .macro = name,
                      .certain = holds == Holds::kYes,
                      .only_undefined = only_undefined});
  }

  const bool cpu_;
  const std::set<std::string>& macros_;
  const std::string file_;
  std::vector<Redefinition>& found_;
  std::vector<Condition> conditions_;
};

}  // namespace

std::vector<Redefinition> FindRedefinitions(const CompilePlan& plan) {
  if (!TraitsOf(plan.language).has_macros) return {};
  std::set<std::string> macros;
  for (const auto& [name, value] : plan.defines) {
    if (name != "TUNE_REFERENCE") macros.insert(name);
  }
  std::vector<Redefinition> found;
  const auto read = [&](const std::string& file, absl::string_view text) {
    const auto lines = SplitSource(text);
    if (lines.ok()) Reader(plan, macros, file, found).Read(*lines);
  };
  read(plan.source_name, plan.source_text);
  for (const SourceFile& header : plan.headers) read(header.name, header.text);
  return found;
}

std::string ToText(const Redefinition& redefinition) {
  const bool undefined = redefinition.only_undefined;
  return absl::StrCat(
      "the source ", redefinition.certain ? "" : "may ", undefined ? "undefine" : "redefine",
      redefinition.certain ? "s " : " ", redefinition.macro,
      ", which the spec defines: the kernel never sees the spec's value; remove the line, or put "
      "it under #ifndef ",
      redefinition.macro);
}

}  // namespace tune
