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
#include "tuner/kernel/spec_place.h"

namespace tune {

class SpecChecker {
 public:
  // Fills `parsed`, whose spec is already there.
  SpecChecker(const SpecPlace& root, const std::map<std::string, std::string>& files,
              ParsedSpec* parsed)
      : root_(root), files_(files), spec_(parsed->spec), parsed_(*parsed) {}

  absl::Status Check();
  // Checks what Kernel::CreateRules takes, without the limits that a compiler has.
  absl::Status CheckRules();

 private:
  using Names = std::set<std::string>;

  // spec_checker.cc: what a config is made of.
  absl::Status CheckCounts() const;
  absl::Status CheckHead() const;
  absl::Status CheckFile(const SpecPlace& place, const char* field, int index,
                         const std::string& name, Language language);
  absl::Status CheckFiles();
  absl::Status CheckDims();
  absl::Status CheckDim(const DimSpec& dim, const SpecPlace& place) const;
  absl::Status CheckDefaultDim(int index, const SpecPlace& place) const;
  absl::Status CheckDTypes() const;
  absl::Status CheckParams();
  absl::Status CheckParam(const ParamSpec& param, const SpecPlace& place);
  absl::Status CheckParamsAreUsed() const;
  void FindLetsOfProblems();
  absl::Status CheckLets();
  absl::Status CheckConstraints();
  absl::Status CheckDefines();
  absl::Status CheckOptions() const;

  // spec_checker_run.cc: what runs.
  absl::Status CheckArgs();
  absl::Status CheckArg(const ArgSpec& arg, const SpecPlace& place, ParsedArg* parsed);
  absl::Status CheckBuffer(const BufferSpec& buffer, const SpecPlace& place, ParsedArg* parsed);
  absl::Status CheckSymbol(const ArgSpec& arg, const SpecPlace& place, ParsedArg* parsed);
  absl::Status CheckScalar(const ScalarSpec& scalar, const SpecPlace& place, ParsedArg* parsed);
  absl::Status CheckDescriptor(const BufferSpec& buffer, const SpecPlace& place, ParsedArg* parsed);
  absl::Status CheckTensorMap(const TensorMapSpec& map, const SpecPlace& place, ParsedArg* parsed);
  // Checks the names of the strides, which the expressions of all args may use.
  absl::Status CheckStrides();
  // Is it one that uses strides? An error if it uses params, too: it is evaluated without a config.
  absl::StatusOr<bool> FindStrides(const Expression& expression, const SpecPlace& place,
                                   const char* field, int index) const;
  // spec_checker_data.cc: what buffers hold, and what results are held to.
  absl::Status CheckFill(const BufferSpec& buffer, const SpecPlace& place, ParsedArg* parsed);
  absl::Status CheckFillBounds(const FillSpec& fill, const SpecPlace& place, ParsedArg* parsed);
  absl::Status CheckMatrixFill(const BufferSpec& buffer, const SpecPlace& place);
  absl::Status CheckOffsetsFill(const BufferSpec& buffer, const SpecPlace& place,
                                ParsedArg* parsed);
  absl::Status CheckDataFiles(const BufferSpec& buffer, const SpecPlace& place);
  absl::Status CheckDataFile(const SpecPlace& place, const char* field, const std::string& name);
  absl::Status CheckExpected() const;
  absl::Status CheckTolerances();
  absl::Status CheckTolerance(const ToleranceSpec& tolerance, const SpecPlace& place) const;

  // spec_checker_judges.cc: what tells right from wrong.
  absl::Status CheckReference();
  absl::Status CheckReferenceSource(const ReferenceSpec& reference, const SpecPlace& place);
  absl::Status CheckHostReference(const ReferenceSpec& reference, const SpecPlace& place);
  absl::Status CheckChecker();
  absl::StatusOr<std::vector<ParsedChecker::Arg>> CheckerArgs(const CheckerSpec& checker,
                                                              const SpecPlace& place) const;

  // Refuses an overlap with a step before it: there is none.
  absl::Status CheckIsFirst(const std::optional<LaunchSpec>& launch, const SpecPlace& place) const;
  // `what` it is of begins the error: "the reference".
  absl::Status CheckIsPlain(const std::optional<LaunchSpec>& launch, const SpecPlace& place,
                            absl::string_view what) const;
  absl::Status CheckLaunch(const LaunchSpec& launch, const SpecPlace& place, Language language,
                           ParsedLaunch* parsed);
  absl::Status ParseLaunch(const LaunchSpec& launch, const SpecPlace& place, ParsedLaunch* parsed);
  absl::Status ParseWhen(const StepSpec& step, const SpecPlace& place, ParsedStep* parsed);
  absl::StatusOr<EntryText> CheckEntry(const std::string& entry, Language language,
                                       const SpecPlace& place) const;
  absl::Status CheckSteps();
  absl::Status CheckStep(const StepSpec& step, const SpecPlace& place, Language language,
                         ParsedStep* parsed);
  // Indices of the args that a list names; of all args if it names none.
  absl::StatusOr<std::vector<size_t>> ArgsNamed(const SpecPlace& place,
                                                const std::vector<std::string>& names) const;
  absl::StatusOr<std::vector<size_t>> ScratchNamed(const StepSpec& step,
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
  absl::Status ParseAll(const SpecPlace& place, const char* field,
                        const std::vector<std::string>& texts, const Names& in_scope,
                        std::vector<Expression>* parsed) const {
    for (int i = 0; i < std::ssize(texts); ++i) {
      absl::StatusOr<Expression> expression = Parse(place, field, i, texts[i], in_scope);
      if (!expression.ok()) return expression.status();
      parsed->push_back(*std::move(expression));
    }
    return absl::OkStatus();
  }

  const SpecPlace& root_;
  const std::map<std::string, std::string>& files_;
  const KernelSpec& spec_;
  ParsedSpec& parsed_;
  Names taken_;  // names of dims, params and lets
  Names macros_;
  Names problem_names_;  // known once there is a problem
  Names config_names_;   // known once there is a config
  Names stride_names_;   // strides of buffers
  Names launch_names_;   // known once there are a config and arrays
};

// A C identifier of at most 64 characters that neither C++ nor we reserve.
bool IsIdentifier(absl::string_view name);

}  // namespace tune
