// SPDX-License-Identifier: Apache-2.0
#include "tuner/device/compile_request.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "tuner/bundle.h"
#include "tuner/compile_options.h"
#include "tuner/source/constructs.h"
#include "tuner/source/entry_name.h"
#include "tuner/source/source_check.h"

namespace tune {

std::string WhyNotAllowed(const CompilePlan& plan) {
  constexpr absl::string_view kEnds("\r\n\0", 3);
  for (const auto& [name, value] : plan.defines) {
    if (!IsPlainIdentifier(name)) return absl::StrCat("'", name, "' is not a macro name");
    if (absl::string_view(value).find_first_of(kEnds) != absl::string_view::npos) {
      return absl::StrCat("the value of macro ", name, " has a line break");
    }
  }
  for (const std::string& entry : plan.entries) {
    if (!IsEntryName(entry)) return absl::StrCat("'", entry, "' is not a kernel's name");
  }
  for (const CompileSymbol& symbol : plan.symbols) {
    if (!IsQualifiedName(symbol.variable)) {
      return absl::StrCat("'", symbol.variable, "' is not a variable's name");
    }
  }
  if (std::string why = WhyNoSuchParameter(plan); !why.empty()) return why;
  for (const std::string& option : plan.options) {
    if (std::string why = WhyNotAllowedOption(option, plan.target); !why.empty()) return why;
  }
  return std::string(CheckIncludes(plan).message());
}

std::string SymbolChecks(const CompilePlan& plan) {
  std::string text;
  for (const CompileSymbol& symbol : plan.symbols) {
    absl::StrAppend(&text, "\n#line 1 \"symbol ", symbol.variable, " of ", plan.source_name,
                    "\"\nstatic_assert(sizeof(", symbol.variable, ") == ", symbol.bytes,
                    ", \"the spec's symbol '", symbol.variable, "' has ", symbol.bytes,
                    " bytes, the source's variable has not\");\n");
  }
  return text;
}

Artifact Refused(Outcome outcome, std::string log) {
  Artifact artifact;
  artifact.outcome = outcome;
  artifact.log = std::move(log);
  return artifact;
}

CompilePlan ForFrontEnd(CompilePlan plan) {
  std::vector<absl::string_view> texts = {plan.source_text};
  for (const SourceFile& header : plan.headers) texts.push_back(header.text);
  for (const CompileUnit& unit : plan.more) texts.push_back(unit.source_text);
  const auto speak_of = [&](absl::string_view word) {
    return std::any_of(texts.begin(), texts.end(),
                       [&](absl::string_view text) { return absl::StrContains(text, word); });
  };
  // In other words: a count of threads, and all that a builtin function is given.
  if (speak_of("num_threads") || speak_of("options")) return plan;
  std::erase_if(plan.options, [&](const std::string& option) {
    return !speak_of(absl::string_view(option).substr(0, option.find('=')));
  });
  return plan;
}

absl::StatusOr<CompilePlan> Lowered(CompilePlan plan, Language language, const Artifact& front) {
  ASSIGN_OR_RETURN(const std::vector<absl::string_view> texts, Unbundle(front.binary));
  if (texts.size() != plan.more.size() + 1 || front.entries.size() != texts.size()) {
    return absl::InternalError("the front end has made another number of sources");
  }
  plan.language = language;
  plan.headers.clear();
  plan.defines.clear();
  for (size_t unit = 0; unit < texts.size(); ++unit) {
    std::vector<ArgumentHint> arguments;
    for (const ParameterFact& parameter :
         front.entries[unit].parameters.value_or(std::vector<ParameterFact>())) {
      arguments.push_back(
          {.name = parameter.name, .type = parameter.type, .divisor = parameter.divisor});
    }
    (unit == 0 ? plan.source_text : plan.more[unit - 1].source_text) = std::string(texts[unit]);
    (unit == 0 ? plan.arguments : plan.more[unit - 1].arguments) = std::move(arguments);
  }
  return plan;
}

void DescribeBinary(Artifact& artifact) {
  artifact.resources.binary_bytes = static_cast<int64_t>(artifact.binary.size());
  artifact.resources.binary_sha256 = Sha256Hex(artifact.binary);
}

}  // namespace tune
