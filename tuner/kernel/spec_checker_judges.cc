// SPDX-License-Identifier: Apache-2.0
// The fourth part of SpecChecker: what tells right from wrong, a reference or a checker.
#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "tuner/kernel/spec_checker.h"

namespace tune {

// What it takes is looked at when it runs: its parameters are names of Python.
absl::Status SpecChecker::CheckHostReference(const v1::Reference& reference,
                                             const SpecPlace& place) {
  const std::string& name = TraitsOf(parsed_.reference_language).name;
  if (reference.source().empty()) {
    return place.Error("source", absl::StrCat("a reference in ", name, " has a file of its own"));
  }
  if (!IsIdentifier(reference.entry())) {
    return place.Error("entry", absl::StrCat("'", reference.entry(), "' is no function's name"));
  }
  if (reference.has_launch()) {
    return place.Error("launch", absl::StrCat("a reference in ", name, " is called once, without"));
  }
  if (reference.args_size() > 0) {
    return place.Error("args", 0,
                       absl::StrCat("the parameters of the function in ", name,
                                    " say by their names what it takes"));
  }
  parsed_.host_reference = reference.entry();
  return absl::OkStatus();
}

absl::StatusOr<std::vector<ParsedChecker::Arg>> SpecChecker::CheckerArgs(
    const v1::Checker& checker, const SpecPlace& place) const {
  std::vector<ParsedChecker::Arg> args;
  for (int i = 0; i < spec_.args_size() && checker.args().empty(); ++i) {
    const v1::Arg& arg = spec_.args(i);
    const bool is_buffer = arg.has_buffer() && arg.buffer().role() != v1::ROLE_SCRATCH;
    if (is_buffer || arg.has_scalar()) args.push_back({static_cast<size_t>(i)});
  }
  for (int i = 0; i < checker.args_size(); ++i) {
    absl::string_view name = checker.args(i);
    const bool of_reference = absl::ConsumePrefix(&name, "reference.");
    const auto arg = std::find_if(spec_.args().begin(), spec_.args().end(),
                                  [&](const v1::Arg& known) { return known.name() == name; });
    if (arg == spec_.args().end()) {
      return place.Error("args", i, absl::StrCat("no arg is called '", name, "'"));
    }
    const v1::Role role = arg->buffer().role();
    const bool is_output = role == v1::ROLE_OUTPUT || role == v1::ROLE_INOUT;
    if (of_reference && !is_output) {
      return place.Error("args", i, absl::StrCat("the reference writes no '", name, "'"));
    }
    if (of_reference && !spec_.has_reference() && arg->buffer().expected().empty()) {
      return place.Error(
          "args", i, absl::StrCat("there is no reference, and no expected file of '", name, "'"));
    }
    if (!arg->has_scalar() && (!arg->has_buffer() || role == v1::ROLE_SCRATCH)) {
      return place.Error(
          "args", i,
          absl::StrCat("a checker takes inputs, outputs and scalars; '", name, "' is none"));
    }
    args.push_back({static_cast<size_t>(arg - spec_.args().begin()), of_reference});
  }
  return args;
}

absl::Status SpecChecker::CheckChecker() {
  if (!spec_.has_checker()) return absl::OkStatus();
  const v1::Checker& checker = spec_.checker();
  const SpecPlace place = root_.Nested("checker");
  if (spec_.tolerances_size() > 0) {
    return root_.Error("tolerances", 0, "the checker judges the outputs: leave tolerances out");
  }
  if (checker.source().empty() && parsed_.language != Language::kCuda) {
    return place.Error("source", absl::StrCat("a checker is in CUDA C++, the kernel's source in ",
                                              ToText(parsed_.language), ": name a file"));
  }
  if (checker.launch().cluster_size() > 0) {
    return place.Nested("launch").Error("cluster", 0, "the checker runs without clusters");
  }
  if (checker.launch().programmatic_dependent_launch()) {
    return place.Nested("launch").Error("programmatic_dependent_launch", kNoStepBefore);
  }
  ParsedChecker& parsed = parsed_.checker.emplace();
  parsed.source = checker.source().empty() ? spec_.source() : checker.source();
  if (parsed_.files.count(parsed.source) == 0) {
    RETURN_IF_ERROR(CheckFile(place, "source", -1, parsed.source, Language::kCuda));
  }
  if (checker.args_size() > 64) return place.Error("args", 64, "one too many; the most is 64");
  ASSIGN_OR_RETURN(parsed.args, CheckerArgs(checker, place));
  v1::Step step;
  step.set_entry(checker.entry());
  if (checker.has_launch()) *step.mutable_launch() = checker.launch();
  parsed.step.field = "checker.launch";
  return CheckStep(step, place, Language::kCuda, &parsed.step);
}

absl::Status SpecChecker::CheckReferenceSource(const v1::Reference& reference,
                                               const SpecPlace& place) {
  const bool own = !reference.source().empty() && reference.source() != spec_.source();
  parsed_.reference_source = own ? reference.source() : spec_.source();
  parsed_.reference_language = own ? Language::kCuda : parsed_.language;
  if (own && absl::EndsWith(reference.source(), TraitsOf(Language::kNumpy).suffix)) {
    parsed_.reference_language = Language::kNumpy;
  }
  if (reference.language() != v1::LANGUAGE_UNSPECIFIED) {
    ASSIGN_OR_RETURN(parsed_.reference_language, CheckLanguage(place, reference.language()));
  }
  if (!own || parsed_.files.count(reference.source()) > 0) return absl::OkStatus();
  return CheckFile(place, "source", -1, reference.source(), parsed_.reference_language);
}

absl::Status SpecChecker::CheckReference() {
  if (!spec_.has_reference()) return CheckExpected();
  const v1::Reference& reference = spec_.reference();
  const SpecPlace place = root_.Nested("reference");
  RETURN_IF_ERROR(CheckReferenceSource(reference, place));
  const LanguageTraits& language = TraitsOf(parsed_.reference_language);
  if (language.launched_as_compiled && !reference.dtype().empty()) {
    return place.Error("dtype", absl::StrCat("a reference in ", language.name,
                                             " has outputs of the args' own dtypes; leave it out"));
  }
  if (!reference.dtype().empty() && reference.dtype() != "f32" && reference.dtype() != "f64") {
    return place.Error("dtype", absl::StrCat("'", reference.dtype(), "' is not f32 or f64"));
  }
  if (language.runs_on_host) return CheckHostReference(reference, place);
  if (reference.launch().cluster_size() > 0) {
    return place.Nested("launch").Error("cluster", 0, "the reference runs without clusters");
  }
  if (reference.launch().programmatic_dependent_launch()) {
    return place.Nested("launch").Error("programmatic_dependent_launch", kNoStepBefore);
  }
  v1::Step step;
  step.set_entry(reference.entry());
  *step.mutable_args() = reference.args();
  if (reference.has_launch()) *step.mutable_launch() = reference.launch();
  ParsedStep& parsed = parsed_.reference.emplace();
  parsed.field = "reference.launch";
  return CheckStep(step, place, parsed_.reference_language, &parsed);
}

}  // namespace tune
