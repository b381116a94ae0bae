// SPDX-License-Identifier: Apache-2.0
#include "tuner/source/source_macros.h"

#include <algorithm>
#include <cstddef>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tuner/source/conditions.h"
#include "tuner/source/entry_name.h"
#include "tuner/source/source_lines.h"

namespace tune {
namespace {

using Kind = SourceToken::Kind;
using Tokens = std::vector<SourceToken>;

// Looks at the definitions of one file that a compiler may read.
class Reader {
 public:
  Reader(const CompilePlan& plan, const std::set<std::string>& macros, std::string file,
         std::vector<Redefinition>& found)
      : macros_(macros), file_(std::move(file)), found_(found), conditions_(plan, macros) {}

  void Read(const std::vector<SourceLine>& lines) {
    for (size_t i = 0; i < lines.size(); ++i) {
      const Tokens& tokens = lines[i].tokens;
      if (tokens[0].kind != Kind::kPunctuator || tokens[0].text != "#" || tokens.size() < 2) {
        continue;
      }
      conditions_.Read(lines[i], i + 1 < lines.size() && IsGuard(tokens, lines[i + 1].tokens));
      const std::string& name = tokens[1].text;
      if ((name == "define" || name == "undef") && tokens.size() > 2) {
        Definition(tokens[2].text, lines[i].line, name == "undef");
      }
    }
  }

 private:
  // "#ifndef X" with "#define X" behind it.
  static bool IsGuard(const Tokens& first, const Tokens& second) {
    return first.size() == 3 && first[1].text == "ifndef" && second.size() == 3 &&
           second[1].text == "define" && second[2].text == first[2].text;
  }

  void Definition(const std::string& name, int line, bool only_undefined) {
    if (macros_.count(name) == 0) return;
    const Holds holds = conditions_.Around();
    if (holds == Holds::kNo) return;
    found_.push_back({.file = file_,
                      .line = line,
                      .macro = name,
                      .certain = holds == Holds::kYes,
                      .only_undefined = only_undefined});
  }

  const std::set<std::string>& macros_;
  const std::string file_;
  std::vector<Redefinition>& found_;
  Conditions conditions_;
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

std::string MacroInTheWay(const CompilePlan& plan, absl::string_view log) {
  const size_t error = log.find("error:");
  if (error == std::string::npos) return "";
  const size_t before = log.rfind('\n', error);
  const absl::string_view place = log.substr(before == std::string::npos ? 0 : before + 1);
  const absl::string_view file = place.substr(0, place.find_first_of("(:"));
  const size_t end = log.find('\n', error);
  const absl::string_view message = log.substr(error, end - error);
  const absl::string_view quoted = end == std::string::npos ? "" : log.substr(end + 1);
  const absl::string_view line = quoted.substr(0, quoted.find('\n'));
  const bool is_ours =
      absl::EndsWith(file, plan.source_name) ||
      std::any_of(plan.headers.begin(), plan.headers.end(),
                  [&](const SourceFile& header) { return absl::EndsWith(file, header.name); });
  const bool wants_name = absl::StrContains(message, "expected an identifier") ||
                          absl::StrContains(message, "expected identifier") ||
                          absl::StrContains(message, "expected unqualified-id");
  if (is_ours && !wants_name) return "";
  for (const auto& [name, value] : plan.defines) {
    if (!HasWord(line, name)) continue;
    return absl::StrCat(name, " is a macro of the spec (here ", value, "), and ", file,
                        " has a name of its own that is called so: rename the param or define, "
                        "such as to ",
                        name, "_SIZE\n");
  }
  return "";
}

}  // namespace tune
