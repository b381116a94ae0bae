// SPDX-License-Identifier: Apache-2.0
// From a spec, a problem and a config to the numbers and text that compilers and devices use.
#include <algorithm>
#include <set>
#include <string_view>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "tuner/compile_options.h"
#include "tuner/device_profile.h"
#include "tuner/kernel/arg_planner.h"
#include "tuner/kernel/evaluation.h"
#include "tuner/kernel/kernel.h"
#include "tuner/kernel/parsed_spec.h"
#include "tuner/kernel/tolerances.h"
#include "tuner/source/entry_name.h"
#include "tuner/tune_check.h"

namespace tune::embedded {
extern const std::string_view tune_check_header;
}

namespace tune {
namespace {

constexpr size_t kMaxMacroText = 256;
constexpr int kDependentLaunchSm = 90;  // before it launches run one after the other

// Keeps the compiler's command line and the source's line structure out of a define's reach.
bool IsMacroText(const std::string& text) {
  return !text.empty() && text.size() <= kMaxMacroText &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return absl::ascii_isalnum(c) || absl::StrContains("_ :<>,.*&()+-", std::string(1, c));
         });
}

// The sources of a program's steps, each once.
struct ProgramUnits {
  std::vector<CompileUnit> all;

  // Gives the unit that has the entry. Where args are compiled for, each kind of them has its own.
  int Add(const std::string& source, const std::string& entry,
          const std::vector<ArgumentHint>& arguments) {
    auto unit = std::find_if(all.begin(), all.end(), [&](const CompileUnit& known) {
      return known.source_name == source && known.arguments == arguments &&
             (arguments.empty() || known.entries.front() == entry);
    });
    if (unit == all.end()) {
      unit = all.insert(all.end(), CompileUnit{.source_name = source, .arguments = arguments});
    }
    std::vector<std::string>& entries = unit->entries;
    if (std::find(entries.begin(), entries.end(), entry) == entries.end()) {
      entries.push_back(entry);
    }
    return static_cast<int>(unit - all.begin());
  }
};

bool IsBinary(const std::string& text) { return text.find('\0') != std::string::npos; }

bool IsUnit(const CompilePlan& plan, const std::string& source) {
  return plan.source_name == source ||
         std::any_of(plan.more.begin(), plan.more.end(),
                     [&](const CompileUnit& unit) { return unit.source_name == source; });
}

std::string TritonName(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return "fp64";
    case DType::kF32:
      return "fp32";
    case DType::kF16:
      return "fp16";
    case DType::kE4M3:
      return "fp8e4nv";
    case DType::kBool:
      return "i1";
    default:
      return ToText(dtype);
  }
}

// The hints that Triton's own launcher would find. Buffers start where devices allocate, at a
// multiple of 256 bytes at least. A scalar of `varying` has another value at each call.
std::vector<ArgumentHint> HintsOf(const std::vector<ArgPlan>& args,
                                  const std::set<std::string>& varying = {}) {
  constexpr int64_t kDivisor = 16;
  std::vector<ArgumentHint> hints;
  for (const ArgPlan& arg : args) {
    if (const auto* buffer = std::get_if<BufferPlan>(&arg)) {
      const std::string name = TritonName(buffer->dtype);
      if (buffer->block_shape.empty()) {
        hints.push_back({buffer->name, absl::StrCat("*", name), kDivisor});
      } else {
        const std::string block = absl::StrJoin(buffer->block_shape, ", ");
        hints.push_back({buffer->name, absl::StrCat("tensordesc<", name, "[", block, "]>")});
      }
    } else if (const auto* scalar = std::get_if<ScalarPlan>(&arg)) {
      ArgumentHint& hint = hints.emplace_back();
      hint.name = scalar->name;
      hint.type = TritonName(scalar->dtype);
      const auto* integer = std::get_if<int64_t>(&scalar->value);
      if (integer != nullptr && !varying.contains(scalar->name)) {
        hint.divisor = *integer % kDivisor == 0 ? kDivisor : 1;
        hint.is_one = *integer == 1;
      }
    }
  }
  return hints;
}

class Planner {
 public:
  Planner(const ParsedSpec& parsed, const Problem& problem, const TargetTraits& traits)
      : parsed_(parsed),
        spec_(parsed.spec),
        problem_(problem),
        traits_(traits),
        evaluation_(parsed, problem, traits),
        args_(parsed, problem, traits, evaluation_) {}

  void SetConfig(const Config& config) {
    config_ = config;
    evaluation_.SetConfig(config);
  }

  const ArgPlanner& args() const { return args_; }

  // Values come from the spec's lists, so that nothing else reaches a compiler's command line.
  absl::Status CheckConfig(const Config& config) const {
    ASSIGN_OR_RETURN(const std::vector<ParamChoice> choices,
                     ParamChoices(parsed_, evaluation_, traits_.target));
    if (config.entries.size() != choices.size()) {
      return evaluation_.Error("params", absl::StrCat("the config has ", config.entries.size(),
                                                      " params, the kernel ", choices.size()));
    }
    for (size_t i = 0; i < choices.size(); ++i) {
      const auto& [name, value] = config.entries[i];
      const std::string& wanted = spec_.params[i].name;
      const auto& values = choices[i].values;
      if (name != wanted || std::find(values.begin(), values.end(), value) == values.end()) {
        return evaluation_.Error(wanted, absl::StrCat("the config has ", name, "=", ToText(value)));
      }
    }
    return absl::OkStatus();
  }

  // The file that `source_choice` names, or the spec's source.
  absl::StatusOr<std::string> ChosenSource() const {
    if (!parsed_.source_choice.has_value()) return spec_.source;
    ASSIGN_OR_RETURN(const std::string name,
                     evaluation_.Text("source_choice", *parsed_.source_choice));
    const auto& headers = spec_.headers;
    const bool is_header = std::find(headers.begin(), headers.end(), name) != headers.end();
    if (name == spec_.source || is_header) return name;
    return evaluation_.Error("source_choice",
                             absl::StrCat("'", name, "' is neither the source nor a header"));
  }

  // The value that a param or a define gives an option of the language's compiler.
  absl::StatusOr<std::string> Option(const std::string& name, const std::string& otherwise) const {
    for (const auto& [param, value] : config_.entries) {
      if (param == name) return ToPython(value);
    }
    for (size_t i = 0; i < parsed_.defines.size(); ++i) {
      if (spec_.defines[i].name != name) continue;
      ASSIGN_OR_RETURN(const Value value, evaluation_.Any(name, parsed_.defines[i]));
      return ToPython(value);
    }
    return otherwise;
  }

  absl::Status AddOptions(const LanguageTraits& language, CompilePlan& plan) const {
    for (const auto& [name, otherwise] : language.options) {
      ASSIGN_OR_RETURN(const std::string value, Option(name, otherwise));
      if (!value.empty()) plan.options.push_back(absl::StrCat(name, "=", value));
    }
    return absl::OkStatus();
  }

  // Params and defines, as the language writes values; without those that are options.
  absl::StatusOr<Macros> Defines(const LanguageTraits& language) const {
    Macros defines;
    const auto add = [&](const std::string& name, const Value& value) {
      const bool is_option =
          std::any_of(language.options.begin(), language.options.end(),
                      [&name](const auto& option) { return option.first == name; });
      if (is_option) return;
      defines.emplace_back(name, language.has_macros ? ToMacro(value) : ToPython(value));
    };
    for (const auto& [name, value] : config_.entries) add(name, value);
    for (size_t i = 0; i < parsed_.defines.size(); ++i) {
      const std::string& name = spec_.defines[i].name;
      ASSIGN_OR_RETURN(const Value value, evaluation_.Any(name, parsed_.defines[i]));
      const std::string text = ToMacro(value);
      const bool is_empty_constant = language.has_constants && text.empty();
      if (!IsMacroText(text) && !is_empty_constant) {
        return evaluation_.Error(name, absl::StrCat("'", text, "' cannot be a macro"));
      }
      add(name, value);
    }
    if (!language.has_macros) return defines;
    defines.emplace_back("DTYPE", CppName(problem_.dtype));
    defines.emplace_back(absl::StrCat("DTYPE_", absl::AsciiStrToUpper(ToText(problem_.dtype))),
                         "1");
    return defines;
  }

  // Plans to compile `source`, with every other file as a header if the language has headers.
  absl::StatusOr<CompilePlan> Compile(Language language, const std::string& source) const {
    CompilePlan plan;
    plan.origin = parsed_.origin;
    plan.language = language;
    plan.target = traits_.target;
    plan.source_name = source;
    plan.source_text = parsed_.files.at(source);
    const LanguageTraits& traits = TraitsOf(language);
    RETURN_IF_ERROR(AddOptions(traits, plan));
    if (!traits.has_macros && !traits.has_constants) return plan;
    for (const std::string& header : spec_.headers) {
      if (header == source || IsForeignFile(language, header)) continue;
      const std::string& text = parsed_.files.at(header);
      if (traits.is_text && IsBinary(text)) continue;  // a cubin beside a reference in C++
      plan.headers.push_back({header, text});
    }
    ASSIGN_OR_RETURN(plan.defines, Defines(traits));
    if (!traits.has_macros) return plan;
    for (const std::string& option : spec_.nvrtc_options) {
      if (WhyNotAllowedOption(option, traits_.target).empty()) plan.options.push_back(option);
    }
    plan.include_roots.assign(spec_.include_roots.begin(), spec_.include_roots.end());
    return plan;
  }

  absl::StatusOr<StepPlan> Step(const ParsedStep& step, const Macros& macros) const {
    StepPlan plan;
    const std::string field = absl::StrCat(absl::StripSuffix(step.field, "launch"), "entry");
    const auto evaluate = [&](const Expression& expression) {
      return evaluation_.Any(field, expression);
    };
    const absl::StatusOr<std::string> entry = step.entry.With(evaluate, macros);
    if (!entry.ok()) {
      const bool placed = absl::StartsWith(entry.status().message(), "kernel '");
      return placed ? entry.status()
                    : evaluation_.Error(field, std::string(entry.status().message()));
    }
    ASSIGN_OR_RETURN(plan.launch, Launch(*entry, step.field, step.launch));
    ASSIGN_OR_RETURN(plan.args, args_.Args(step.args));
    for (const size_t i : step.zero) {
      ASSIGN_OR_RETURN(BufferPlan buffer, args_.Buffer(i));
      plan.zero.push_back(std::move(buffer));
    }
    return plan;
  }

  absl::StatusOr<ProgramPlan> Program() const {
    ASSIGN_OR_RETURN(const std::string chosen, ChosenSource());
    ASSIGN_OR_RETURN(const Macros macros, Defines(TraitsOf(parsed_.language)));
    ProgramPlan program;
    ProgramUnits units;
    for (size_t i = 0; i < parsed_.steps.size(); ++i) {
      const ParsedStep& step = parsed_.steps[i];
      ASSIGN_OR_RETURN(const bool runs, Runs(i));
      if (!runs) continue;
      ASSIGN_OR_RETURN(StepPlan plan, Step(step, macros));
      if (program.steps.empty()) BeFirst(plan.launch);
      const std::string& source = step.source.empty() ? chosen : step.source;
      const bool hinted = TraitsOf(parsed_.language).launched_as_compiled;
      plan.launch.unit = units.Add(
          source, plan.launch.entry,
          hinted ? HintsOf(plan.args, ScalarsWithStrides()) : std::vector<ArgumentHint>());
      program.steps.push_back(std::move(plan));
    }
    if (program.steps.empty()) return NoStep();
    ASSIGN_OR_RETURN(program.compile, Compile(parsed_.language, units.all[0].source_name));
    program.compile.entries = units.all[0].entries;
    program.compile.arguments = units.all[0].arguments;
    for (size_t unit = 1; unit < units.all.size(); ++unit) {
      units.all[unit].source_text = parsed_.files.at(units.all[unit].source_name);
      program.compile.more.push_back(std::move(units.all[unit]));
    }
    RETURN_IF_ERROR(AddSymbols(program));
    return program;
  }

  // Plans the launches of the steps that run, without entries.
  absl::StatusOr<std::vector<LaunchPlan>> Launches() const {
    std::vector<LaunchPlan> launches;
    for (size_t i = 0; i < parsed_.steps.size(); ++i) {
      ASSIGN_OR_RETURN(const bool runs, Runs(i));
      if (!runs) continue;
      const ParsedStep& step = parsed_.steps[i];
      ASSIGN_OR_RETURN(LaunchPlan launch, Launch("", step.field, step.launch));
      if (launches.empty()) BeFirst(launch);
      launches.push_back(std::move(launch));
    }
    if (launches.empty()) return NoStep();
    return launches;
  }

  std::set<std::string> ScalarsWithStrides() const {
    std::set<std::string> names;
    for (size_t i = 0; i < parsed_.args.size(); ++i) {
      if (parsed_.args[i].uses_strides) names.insert(spec_.args[i].name);
    }
    return names;
  }

  // Each unit has its own variable of the name, if its files mention one.
  absl::Status AddSymbols(ProgramPlan& program) const {
    CompilePlan& compile = program.compile;
    for (size_t i = 0; i < parsed_.args.size(); ++i) {
      if (!spec_.args[i].symbol.has_value()) continue;
      ASSIGN_OR_RETURN(const BufferPlan buffer, args_.Buffer(i));
      const CompileSymbol symbol = {.variable = parsed_.args[i].variable,
                                    .bytes = buffer.count * SizeInBytes(buffer.dtype)};
      const std::string word = BaseNameOf(symbol.variable);
      const bool in_header =
          std::any_of(compile.headers.begin(), compile.headers.end(), [&](const SourceFile& file) {
            return !IsUnit(compile, file.name) && HasWord(file.text, word);
          });
      if (in_header || HasWord(compile.source_text, word)) {
        compile.symbols.push_back(symbol);
        program.symbols.push_back({.variable = symbol.variable, .unit = 0, .buffer = buffer});
      }
      for (size_t unit = 0; unit < compile.more.size(); ++unit) {
        if (!in_header && !HasWord(compile.more[unit].source_text, word)) continue;
        compile.more[unit].symbols.push_back(symbol);
        program.symbols.push_back(
            {.variable = symbol.variable, .unit = static_cast<int>(unit) + 1, .buffer = buffer});
      }
    }
    return absl::OkStatus();
  }

  absl::StatusOr<LaunchPlan> Launch(const std::string& entry, const std::string& field,
                                    const ParsedLaunch& launch) const {
    LaunchPlan plan;
    plan.entry = entry;
    plan.cooperative = launch.cooperative;
    plan.programmatic_dependent_launch =
        launch.programmatic_dependent_launch && traits_.sm >= kDependentLaunchSm;
    plan.resident = launch.resident;
    RETURN_IF_ERROR(Axes(field, "grid", launch.grid, &plan.grid));
    RETURN_IF_ERROR(Axes(field, "block", launch.block, &plan.block));
    RETURN_IF_ERROR(Axes(field, "cluster", launch.cluster, &plan.cluster));
    if (launch.shared_bytes.has_value()) {
      const std::string name = field + ".shared_bytes";
      ASSIGN_OR_RETURN(plan.shared_bytes, evaluation_.Integer(name, *launch.shared_bytes));
      if (plan.shared_bytes < 0) {
        return evaluation_.Error(name, absl::StrCat(plan.shared_bytes, " is below zero"));
      }
    }
    return plan;
  }

  absl::StatusOr<WorkPlan> Work() const {
    WorkPlan plan;
    if (parsed_.flops.has_value()) {
      ASSIGN_OR_RETURN(plan.flops, evaluation_.Number("work.flops", *parsed_.flops));
    }
    if (parsed_.bytes.has_value()) {
      ASSIGN_OR_RETURN(plan.bytes, evaluation_.Number("work.bytes", *parsed_.bytes));
    }
    if (plan.flops < 0 || plan.bytes < 0) return evaluation_.Error("work", "below zero");
    plan.peak = spec_.work.has_value() && !spec_.work->peak.empty() ? spec_.work->peak : "f32";
    if (parsed_.peak.has_value()) {
      ASSIGN_OR_RETURN(plan.peak, evaluation_.Text("work.peak", *parsed_.peak));
      if (!IsPeakName(plan.peak)) {
        return evaluation_.Error(
            "work.peak", absl::StrCat("no peak is called '", plan.peak, "'; known: ", PeakNames()));
      }
    }
    if (ProfileOfTarget(traits_.target).is_host) plan.peak = "f32";
    return plan;
  }

 private:
  absl::StatusOr<bool> Runs(size_t step) const {
    const std::optional<Expression>& when = parsed_.steps[step].when;
    if (!when.has_value()) return true;
    return evaluation_.Boolean(Indexed("steps", step) + ".when", *when);
  }
  // The first step has no step before it to overlap with.
  static void BeFirst(LaunchPlan& launch) { launch.programmatic_dependent_launch = false; }
  absl::Status NoStep() const { return evaluation_.Error("steps", "the config leaves out all"); }

  // `name` is of the field, as in "grid". Whole names are made where something is wrong.
  absl::Status Axes(const std::string& field, const char* name,
                    const std::vector<Expression>& expressions,
                    std::array<int64_t, 3>* axes) const {
    for (size_t i = 0; i < expressions.size(); ++i) {
      const auto whole_name = [&] { return Indexed(absl::StrCat(field, ".", name), i); };
      const absl::StatusOr<int64_t> axis = expressions[i].EvaluateInteger(evaluation_.scope());
      if (!axis.ok()) return evaluation_.Explain(whole_name(), axis.status());
      if (*axis < 1) return evaluation_.Error(whole_name(), absl::StrCat(*axis, " is below one"));
      (*axes)[i] = *axis;
    }
    return absl::OkStatus();
  }

  const ParsedSpec& parsed_;
  const KernelSpec& spec_;
  const Problem& problem_;
  const TargetTraits& traits_;
  Evaluation evaluation_;
  const ArgPlanner args_;
  Config config_;
};

bool IsCompared(const BufferPlan& buffer) {
  return buffer.role == Role::kOutput || buffer.role == Role::kInOut;
}

absl::StatusOr<ProgramPlan> PlanReference(const ParsedSpec& parsed, const Planner& planner) {
  ProgramPlan plan;
  ASSIGN_OR_RETURN(plan.compile,
                   planner.Compile(parsed.reference_language, parsed.reference_source));
  const LanguageTraits& language = TraitsOf(parsed.reference_language);
  if (language.has_macros) plan.compile.defines.emplace_back("TUNE_REFERENCE", "1");
  ASSIGN_OR_RETURN(StepPlan step, planner.Step(*parsed.reference, plan.compile.defines));
  plan.compile.entries = {step.launch.entry};
  std::erase_if(step.args,
                [](const ArgPlan& arg) { return std::holds_alternative<TensorMapPlan>(arg); });
  if (language.launched_as_compiled) {  // its types are its own: nothing is widened
    plan.compile.arguments = HintsOf(step.args);
    plan.steps.push_back(std::move(step));
    return plan;
  }
  const DType wide = parsed.spec.reference->dtype == "f32" ? DType::kF32 : DType::kF64;
  for (ArgPlan& arg : step.args) {
    BufferPlan* buffer = std::get_if<BufferPlan>(&arg);
    if (buffer != nullptr && IsCompared(*buffer) && IsFloat(buffer->dtype)) buffer->dtype = wide;
  }
  plan.steps.push_back(std::move(step));
  RETURN_IF_ERROR(planner.AddSymbols(plan));
  return plan;
}

// The dtype of a buffer's right result: that of the file with the expected elements if there is
// one, else the reference's.
DType ReferenceDType(const ProblemPlan& plan, const BufferPlan& buffer) {
  for (const BufferFile& file : plan.files) {
    if (file.buffer == buffer.name && file.expected) return file.dtype;
  }
  if (!plan.host_reference.entries.empty()) {
    return IsFloat(buffer.dtype) ? plan.host_reference.call.wide : buffer.dtype;
  }
  for (const StepPlan& step : plan.reference.steps) {
    for (const ArgPlan& arg : step.args) {
      const auto* known = std::get_if<BufferPlan>(&arg);
      if (known != nullptr && known->name == buffer.name) return known->dtype;
    }
  }
  return buffer.dtype;
}

absl::StatusOr<ProgramPlan> PlanChecker(const ParsedSpec& parsed, const Planner& planner,
                                        const ProblemPlan& problem) {
  const ParsedChecker& checker = *parsed.checker;
  ProgramPlan plan;
  ASSIGN_OR_RETURN(plan.compile, planner.Compile(Language::kCuda, checker.source));
  plan.compile.headers.push_back({"tune_check.h", std::string(embedded::tune_check_header)});
  plan.compile.defines.emplace_back("TUNE_CHECKER", "1");
  ASSIGN_OR_RETURN(StepPlan step, planner.Step(checker.step, plan.compile.defines));
  step.args.clear();
  for (const ParsedChecker::Arg& arg : checker.args) {
    ASSIGN_OR_RETURN(std::vector<ArgPlan> planned, planner.args().Args({arg.index}));
    if (auto* buffer = std::get_if<BufferPlan>(&planned[0])) {
      if (arg.of_reference) {
        buffer->dtype = ReferenceDType(problem, *buffer);
        buffer->name = ReferenceBufferName(buffer->name);
      }
      buffer->role = Role::kInput;  // it writes to none
    }
    step.args.push_back(std::move(planned[0]));
  }
  step.args.emplace_back(BufferPlan{.name = kFaultsBuffer,
                                    .dtype = DType::kU8,
                                    .count = static_cast<int64_t>(sizeof(TuneFaults)),
                                    .role = Role::kInOut});
  plan.compile.entries = {step.launch.entry};
  plan.steps.push_back(std::move(step));
  RETURN_IF_ERROR(planner.AddSymbols(plan));
  return plan;
}

// With every file of its language that it may import.
absl::StatusOr<CompilePlan> PlanHostReference(const ParsedSpec& parsed, const Problem& problem,
                                              const ArgPlanner& args, const ProblemPlan& plan) {
  CompilePlan reference;
  reference.origin = parsed.origin;
  reference.language = parsed.reference_language;
  reference.target = std::string(DeviceProfiles().back()->family);  // the host
  reference.source_name = parsed.reference_source;
  reference.source_text = parsed.files.at(parsed.reference_source);
  for (const std::string& header : parsed.spec.headers) {
    const bool is_own = absl::EndsWith(header, TraitsOf(reference.language).suffix);
    if (header == parsed.reference_source || !is_own) continue;
    reference.headers.push_back({header, parsed.files.at(header)});
  }
  reference.entries = {parsed.host_reference};
  HostCall& call = reference.call;
  call.wide = parsed.spec.reference->dtype == "f32" ? DType::kF32 : DType::kF64;
  for (const BufferPlan& buffer : plan.buffers) {
    if (buffer.role != Role::kScratch) call.buffers.push_back(buffer);
  }
  for (size_t i = 0; i < parsed.args.size(); ++i) {
    if (!parsed.spec.args[i].scalar.has_value()) continue;
    ASSIGN_OR_RETURN(const std::vector<ArgPlan> scalar, args.Args({i}));
    call.scalars.push_back(std::get<ScalarPlan>(scalar[0]));
  }
  for (const auto& [name, value] : problem.dims) {
    if (FindArg(parsed.spec, name).has_value()) continue;
    call.scalars.push_back({name, DType::kI64, value});
  }
  for (const BufferFile& file : plan.files) {
    if (!file.expected) call.files.push_back(file);
  }
  return reference;
}

}  // namespace

absl::StatusOr<ProblemPlan> Kernel::PlanProblem(const Problem& problem,
                                                const TargetTraits& traits) const {
  // A reference that sees params does not care for their values, valid or not. One in Triton is
  // launched at them.
  ASSIGN_OR_RETURN(const Config config, UncheckedDefault(*parsed_, problem, traits));
  Planner planner(*parsed_, problem, traits);
  planner.SetConfig(config);
  ProblemPlan plan;
  plan.origin = parsed_->origin;
  ASSIGN_OR_RETURN(plan.buffers, planner.args().Buffers());
  ASSIGN_OR_RETURN(plan.work, planner.Work());
  ASSIGN_OR_RETURN(plan.files, planner.args().Files());
  if (parsed_->reference.has_value()) {
    ASSIGN_OR_RETURN(plan.reference, PlanReference(*parsed_, planner));
  }
  if (!parsed_->host_reference.empty()) {
    ASSIGN_OR_RETURN(plan.host_reference,
                     PlanHostReference(*parsed_, problem, planner.args(), plan));
  }
  if (parsed_->checker.has_value()) {
    ASSIGN_OR_RETURN(plan.checker, PlanChecker(*parsed_, planner, plan));
  }
  RETURN_IF_ERROR(PlanTolerances(*parsed_, Evaluation(*parsed_, problem, traits), plan));
  return plan;
}

absl::StatusOr<ProgramPlan> Kernel::PlanProgram(const Problem& problem, const TargetTraits& traits,
                                                const Config& config) const {
  Planner planner(*parsed_, problem, traits);
  RETURN_IF_ERROR(planner.CheckConfig(config));
  planner.SetConfig(config);
  return planner.Program();
}

absl::StatusOr<std::vector<LaunchPlan>> Kernel::PlanLaunches(const Problem& problem,
                                                             const TargetTraits& traits,
                                                             const Config& config) const {
  Planner planner(*parsed_, problem, traits);
  planner.SetConfig(config);
  return planner.Launches();
}

}  // namespace tune
