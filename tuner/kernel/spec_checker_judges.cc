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

// Its parameters are names of Python, so they are checked only when it runs.
absl::Status SpecChecker::CheckHostReference(const ReferenceSpec& reference,
                                             const SpecPlace& place) {
  const std::string& name = TraitsOf(parsed_.reference_language).name;
  if (reference.source.empty()) {
    return place.Error("source", absl::StrCat("a reference in ", name, " has a file of its own"));
  }
  if (!IsIdentifier(reference.entry)) {
    return place.Error("entry", absl::StrCat("'", reference.entry, "' is no function's name"));
  }
  if (reference.launch.has_value()) {
    return place.Error("launch", absl::StrCat("a reference in ", name, " is called once, without"));
  }
  if (!reference.args.empty()) {
    return place.Error("args", 0,
                       absl::StrCat("the parameters of the function in ", name,
                                    " say by their names what it takes"));
  }
  parsed_.host_reference = reference.entry;
  return absl::OkStatus();
}

absl::StatusOr<std::vector<ParsedChecker::Arg>> SpecChecker::CheckerArgs(
    const CheckerSpec& checker, const SpecPlace& place) const {
  std::vector<ParsedChecker::Arg> args;
  for (int i = 0; i < std::ssize(spec_.args) && checker.args.empty(); ++i) {
    const ArgSpec& arg = spec_.args[i];
    const bool is_buffer = arg.buffer.has_value() && arg.buffer->role != Role::kScratch;
    if (is_buffer || arg.scalar.has_value()) args.push_back({static_cast<size_t>(i)});
  }
  for (int i = 0; i < std::ssize(checker.args); ++i) {
    absl::string_view name = checker.args[i];
    const bool of_reference = absl::ConsumePrefix(&name, "reference.");
    const std::optional<size_t> index = FindArg(spec_, std::string(name));
    if (!index.has_value()) {
      return place.Error("args", i, absl::StrCat("no arg is called '", name, "'"));
    }
    const ArgSpec& arg = spec_.args[*index];
    const Role role = RoleOf(arg);
    if (of_reference && role != Role::kOutput && role != Role::kInOut) {
      return place.Error("args", i, absl::StrCat("the reference writes no '", name, "'"));
    }
    if (of_reference && !spec_.reference.has_value() && arg.buffer->expected.empty()) {
      return place.Error(
          "args", i, absl::StrCat("there is no reference, and no expected file of '", name, "'"));
    }
    if (!arg.scalar.has_value() && (!arg.buffer.has_value() || role == Role::kScratch)) {
      return place.Error(
          "args", i,
          absl::StrCat("a checker takes inputs, outputs and scalars; '", name, "' is none"));
    }
    args.push_back({*index, of_reference});
  }
  return args;
}

absl::Status SpecChecker::CheckChecker() {
  if (!spec_.checker.has_value()) return absl::OkStatus();
  const CheckerSpec& checker = *spec_.checker;
  const SpecPlace place = root_.Nested("checker");
  if (!spec_.tolerances.empty()) {
    return root_.Error("tolerances", 0, "the checker judges the outputs: leave tolerances out");
  }
  if (checker.source.empty() && parsed_.language != Language::kCuda) {
    return place.Error("source", absl::StrCat("a checker is in CUDA C++, the kernel's source in ",
                                              ToText(parsed_.language), ": name a file"));
  }
  RETURN_IF_ERROR(CheckIsPlain(checker.launch, place, "the checker"));
  ParsedChecker& parsed = parsed_.checker.emplace();
  parsed.source = checker.source.empty() ? spec_.source : checker.source;
  if (parsed_.files.count(parsed.source) == 0) {
    RETURN_IF_ERROR(CheckFile(place, "source", -1, parsed.source, Language::kCuda));
  }
  if (checker.args.size() > 64) return place.Error("args", 64, "one too many; the most is 64");
  ASSIGN_OR_RETURN(parsed.args, CheckerArgs(checker, place));
  const StepSpec step = {.entry = checker.entry, .launch = checker.launch};
  parsed.step.field = "checker.launch";
  return CheckStep(step, place, Language::kCuda, &parsed.step);
}

absl::Status SpecChecker::CheckReferenceSource(const ReferenceSpec& reference,
                                               const SpecPlace& place) {
  const bool own = !reference.source.empty() && reference.source != spec_.source;
  parsed_.reference_source = own ? reference.source : spec_.source;
  parsed_.reference_language = own ? Language::kCuda : parsed_.language;
  if (own && absl::EndsWith(reference.source, TraitsOf(Language::kNumpy).suffix)) {
    parsed_.reference_language = Language::kNumpy;
  }
  if (reference.language != Language{}) {
    parsed_.reference_language = reference.language;
  }
  if (!own || parsed_.files.count(reference.source) > 0) return absl::OkStatus();
  return CheckFile(place, "source", -1, reference.source, parsed_.reference_language);
}

absl::Status SpecChecker::CheckReference() {
  if (!spec_.reference.has_value()) return CheckExpected();
  const ReferenceSpec& reference = *spec_.reference;
  const SpecPlace place = root_.Nested("reference");
  RETURN_IF_ERROR(CheckReferenceSource(reference, place));
  const LanguageTraits& language = TraitsOf(parsed_.reference_language);
  if (language.launched_as_compiled && !reference.dtype.empty()) {
    return place.Error("dtype", absl::StrCat("a reference in ", language.name,
                                             " has outputs of the args' own dtypes; leave it out"));
  }
  if (!reference.dtype.empty() && reference.dtype != "f32" && reference.dtype != "f64") {
    return place.Error("dtype", absl::StrCat("'", reference.dtype, "' is not f32 or f64"));
  }
  if (language.runs_on_host) return CheckHostReference(reference, place);
  RETURN_IF_ERROR(CheckIsPlain(reference.launch, place, "the reference"));
  const StepSpec step = {
      .entry = reference.entry, .args = reference.args, .launch = reference.launch};
  ParsedStep& parsed = parsed_.reference.emplace();
  parsed.field = "reference.launch";
  return CheckStep(step, place, parsed_.reference_language, &parsed);
}

}  // namespace tune
