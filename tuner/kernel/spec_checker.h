// SPDX-License-Identifier: Apache-2.0
// Checks a spec field by field and parses its expressions. Internal to tuner/kernel.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tuner/kernel/parsed_spec.h"
#include "tuner/kernel/spec_text.h"

namespace tune {

inline constexpr char kNoStepBefore[] = "there is no step before it to overlap with";

class SpecChecker {
 public:
  // Fills `parsed`, whose spec is already there.
  SpecChecker(const SpecPlace& root, const std::map<std::string, std::string>& files,
              ParsedSpec* parsed)
      : root_(root), files_(files), spec_(parsed->spec), parsed_(*parsed) {}

  absl::Status Check();

 private:
  using Names = std::set<std::string>;

  // spec_checker.cc: what a config is made of.
  absl::Status CheckCounts() const;
  absl::Status CheckHead() const;
  absl::Status CheckFile(const SpecPlace& place, const char* field, int index,
                         const std::string& name, Language language);
  absl::Status CheckFiles();
  absl::StatusOr<Language> CheckLanguage(const SpecPlace& place, v1::Language language) const;
  absl::Status CheckDims();
  absl::Status CheckDim(const v1::Dim& dim, const SpecPlace& place) const;
  absl::Status CheckDTypes() const;
  absl::Status CheckParams();
  absl::Status CheckParam(const v1::Param& param, const SpecPlace& place);
  absl::Status CheckParamsAreUsed() const;
  void FindLetsOfProblems();
  absl::Status CheckLets();
  absl::Status CheckConstraints();
  absl::Status CheckDefines();
  absl::Status CheckOptions() const;

  // spec_checker_run.cc: what runs.
  absl::Status CheckArgs();
  absl::Status CheckArg(const v1::Arg& arg, const SpecPlace& place, ParsedArg* parsed);
  absl::Status CheckBuffer(const v1::Buffer& buffer, const SpecPlace& place, ParsedArg* parsed);
  absl::Status CheckSymbol(const v1::Arg& arg, const SpecPlace& place, ParsedArg* parsed);
  absl::Status CheckScalar(const v1::Scalar& scalar, const SpecPlace& place, ParsedArg* parsed);
  absl::Status CheckDescriptor(const v1::Buffer& buffer, const SpecPlace& place, ParsedArg* parsed);
  absl::Status CheckTensorMap(const v1::TensorMap& map, const SpecPlace& place, ParsedArg* parsed);
  // spec_checker_data.cc: what buffers hold, and what results are held to.
  absl::Status CheckFill(const v1::Buffer& buffer, const SpecPlace& place, ParsedArg* parsed);
  absl::Status CheckFillBounds(const v1::Fill& fill, const SpecPlace& place, ParsedArg* parsed);
  absl::Status CheckMatrixFill(const v1::Buffer& buffer, const SpecPlace& place);
  absl::Status CheckOffsetsFill(const v1::Buffer& buffer, const SpecPlace& place,
                                ParsedArg* parsed);
  absl::Status CheckDataFiles(const v1::Buffer& buffer, const SpecPlace& place);
  absl::Status CheckDataFile(const SpecPlace& place, const char* field, const std::string& name);
  absl::Status CheckExpected() const;
  absl::Status CheckTolerances();
  absl::Status CheckTolerance(const v1::Tolerance& tolerance, const SpecPlace& place) const;

  // spec_checker_judges.cc: what tells right from wrong.
  absl::Status CheckReference();
  absl::Status CheckReferenceSource(const v1::Reference& reference, const SpecPlace& place);
  absl::Status CheckHostReference(const v1::Reference& reference, const SpecPlace& place);
  absl::Status CheckChecker();
  absl::StatusOr<std::vector<ParsedChecker::Arg>> CheckerArgs(const v1::Checker& checker,
                                                              const SpecPlace& place) const;

  absl::Status CheckLaunch(const v1::Launch& launch, const SpecPlace& place, Language language,
                           ParsedLaunch* parsed);
  absl::StatusOr<EntryText> CheckEntry(const std::string& entry, Language language,
                                       const SpecPlace& place) const;
  absl::Status CheckSteps();
  absl::Status CheckStep(const v1::Step& step, const SpecPlace& place, Language language,
                         ParsedStep* parsed);
  // Indices of the args that a list names; of all args if it names none.
  template <typename List>
  absl::StatusOr<std::vector<size_t>> ArgsNamed(const SpecPlace& place, const List& names) const;
  absl::StatusOr<std::vector<size_t>> ScratchNamed(const v1::Step& step,
                                                   const SpecPlace& place) const;
  absl::Status CheckWork();
  absl::Status CheckIncludeRoots() const;
  // Is there a file that the word stands in?
  bool IsMentioned(const std::string& word) const;

  // Takes a name that expressions can use.
  absl::Status TakeName(const SpecPlace& place, const std::string& name);
  // Takes a name that becomes a macro.
  absl::Status TakeMacro(const SpecPlace& place, const std::string& name);
  absl::Status CheckPattern(const SpecPlace& place, const char* field, int index,
                            const std::string& pattern) const;
  absl::StatusOr<Expression> Parse(const SpecPlace& place, const char* field, int index,
                                   const std::string& text, const Names& in_scope) const;
  template <typename Texts>
  absl::Status ParseAll(const SpecPlace& place, const char* field, const Texts& texts,
                        const Names& in_scope, std::vector<Expression>* parsed) const {
    for (int i = 0; i < texts.size(); ++i) {
      absl::StatusOr<Expression> expression = Parse(place, field, i, texts[i], in_scope);
      if (!expression.ok()) return expression.status();
      parsed->push_back(*std::move(expression));
    }
    return absl::OkStatus();
  }

  const SpecPlace& root_;
  const std::map<std::string, std::string>& files_;
  const v1::KernelSpec& spec_;
  ParsedSpec& parsed_;
  Names taken_;  // names of dims, params and lets
  Names macros_;
  Names problem_names_;  // known once there is a problem
  Names config_names_;   // known once there is a config
};

// A C identifier of at most 64 characters that neither C++ nor we reserve.
bool IsIdentifier(absl::string_view name);

}  // namespace tune
