// SPDX-License-Identifier: Apache-2.0
// The second half of SpecChecker: args, launch, work, reference.
#include <algorithm>
#include <array>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "tuner/kernel/spec_checker.h"
#include "tuner/problem.h"
#include "tuner/source/entry_name.h"

namespace tune {
namespace {

constexpr std::array<const char*, 8> kPeaks = {
    "f64", "f32", "f16", "tensor_bf16", "tensor_f16", "tensor_tf32", "tensor_f8", "tensor_i8"};
constexpr std::array<const char*, 13> kScalarTypes = {
    "bool", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f16", "bf16", "f32", "f64"};

template <size_t kCount>
bool IsOneOf(const std::string& text, const std::array<const char*, kCount>& known) {
  return std::find(known.begin(), known.end(), text) != known.end();
}

}  // namespace

bool IsPeakName(const std::string& name) { return IsOneOf(name, kPeaks); }

std::string PeakNames() { return absl::StrJoin(kPeaks, ", "); }

absl::Status SpecChecker::CheckStrides() {
  for (int i = 0; i < std::ssize(spec_.args); ++i) {
    const ArgSpec& arg = spec_.args[i];
    if (!arg.buffer.has_value() || !arg.buffer->strided) continue;
    const SpecPlace place = root_.Nested("args", i).Nested("buffer");
    const BufferSpec& buffer = *arg.buffer;
    if (buffer.role == Role::kScratch) return place.Error("strided", "scratch is contiguous");
    if (buffer.tensor_descriptor.has_value()) {
      return place.Error("strided", "a tensor_descriptor is of a contiguous buffer");
    }
    if (buffer.shape.size() < 2) {
      return place.Error("strided", "a buffer of one axis has no stride but 1");
    }
    for (size_t axis = 0; axis + 1 < buffer.shape.size(); ++axis) {
      const std::string name = StrideName(arg.name, axis);
      if (taken_.count(name) > 0) {
        return place.Error("strided", absl::StrCat("a dim, param or let has the name '", name,
                                                   "', which is that of a stride"));
      }
      stride_names_.insert(name);
    }
  }
  launch_names_ = config_names_;
  launch_names_.insert(stride_names_.begin(), stride_names_.end());
  return absl::OkStatus();
}

absl::StatusOr<bool> SpecChecker::FindStrides(const Expression& expression, const SpecPlace& place,
                                              const char* field, int index) const {
  bool found = false;
  std::string other;
  for (const std::string& name : expression.names()) {
    const bool is_stride = stride_names_.count(name) > 0;
    found |= is_stride;
    if (!is_stride && problem_names_.count(name) == 0) other = name;
  }
  if (!found || other.empty()) return found;
  return place.Error(field, index,
                     absl::StrCat("an expression with strides uses no params, as '", other,
                                  "' is or needs one: it is evaluated again at a call"));
}

absl::Status SpecChecker::CheckArgs() {
  RETURN_IF_ERROR(CheckStrides());
  Names seen;
  bool has_output = false;
  for (int i = 0; i < std::ssize(spec_.args); ++i) {
    const ArgSpec& arg = spec_.args[i];
    const SpecPlace place = root_.Nested("args", i);
    if (!IsIdentifier(arg.name)) {
      return place.Error("name", absl::StrCat("'", arg.name, "' is no name"));
    }
    if (!seen.insert(arg.name).second) {
      return place.Error("name", absl::StrCat("two args are called '", arg.name, "'"));
    }
    RETURN_IF_ERROR(CheckArg(arg, place, &parsed_.args.emplace_back()));
    has_output |= RoleOf(arg) == Role::kOutput || RoleOf(arg) == Role::kInOut;
  }
  if (!has_output) return root_.Error("args", "no buffer has the role ROLE_OUTPUT or ROLE_INOUT");
  return absl::OkStatus();
}

absl::Status SpecChecker::CheckArg(const ArgSpec& arg, const SpecPlace& place, ParsedArg* parsed) {
  if (arg.buffer.has_value()) {
    parsed->buffer = *arg.buffer;
    return CheckBuffer(parsed->buffer, place.Nested("buffer"), parsed);
  }
  if (arg.scalar.has_value()) return CheckScalar(*arg.scalar, place.Nested("scalar"), parsed);
  const bool launched_as_compiled = TraitsOf(parsed_.language).launched_as_compiled;
  if (arg.tensor_map.has_value()) {
    if (launched_as_compiled) {
      return place.Error("tensor_map",
                         absl::StrCat(ToText(parsed_.language), " takes no tensor maps: give the ",
                                      "buffer a tensor_descriptor { ... }"));
    }
    return CheckTensorMap(*arg.tensor_map, place.Nested("tensor_map"), parsed);
  }
  if (arg.symbol.has_value()) {
    if (launched_as_compiled) {
      return place.Error("symbol", absl::StrCat(ToText(parsed_.language),
                                                " has no variables that a spec could fill"));
    }
    return CheckSymbol(arg, place.Nested("symbol"), parsed);
  }
  return place.Error("name", "the arg needs a buffer, a scalar, a tensor_map or a symbol");
}

absl::Status SpecChecker::CheckBuffer(const BufferSpec& buffer, const SpecPlace& place,
                                      ParsedArg* parsed) {
  if (buffer.dtype != "dtype") {
    const absl::StatusOr<DType> dtype = ParseDType(buffer.dtype);
    if (!dtype.ok() && (buffer.dtype.empty() || IsIdentifier(buffer.dtype))) {
      return place.Error("dtype", absl::StrCat(dtype.status().message(), ", or 'dtype'"));
    }
    if (!dtype.ok()) {
      ASSIGN_OR_RETURN(parsed->dtype, Parse(place, "dtype", -1, buffer.dtype, problem_names_));
    }
  }
  if (buffer.shape.empty() || buffer.shape.size() > 8) {
    return place.Error("shape", "a buffer has 1 to 8 dimensions");
  }
  // Buffers are allocated once for all configs, so their sizes cannot depend on params, but for
  // scratch: that is a variant's own.
  const Names& in_scope = buffer.role == Role::kScratch ? config_names_ : problem_names_;
  RETURN_IF_ERROR(ParseAll(place, "shape", buffer.shape, in_scope, &parsed->shape));
  if (buffer.role == Role{}) {
    return place.Error("role", "name one: ROLE_INPUT, ROLE_OUTPUT, ROLE_INOUT or ROLE_SCRATCH");
  }
  if (buffer.tensor_descriptor.has_value()) {
    RETURN_IF_ERROR(CheckDescriptor(buffer, place.Nested("tensor_descriptor"), parsed));
  }
  if (!buffer.used_if.empty()) {
    if (buffer.role != Role::kInput && buffer.role != Role::kInOut) {
      return place.Error("used_if", "of a ROLE_INPUT or ROLE_INOUT, which a call may leave out");
    }
    RETURN_IF_ERROR(Parse(place, "used_if", -1, buffer.used_if, problem_names_).status());
  }
  RETURN_IF_ERROR(CheckDataFiles(buffer, place));
  return buffer.fill.has_value() ? CheckFill(buffer, place.Nested("fill"), parsed)
                                 : absl::OkStatus();
}

absl::Status SpecChecker::CheckDescriptor(const BufferSpec& buffer, const SpecPlace& place,
                                          ParsedArg* parsed) {
  const TensorDescriptorSpec& descriptor = *buffer.tensor_descriptor;
  if (!TraitsOf(parsed_.language).launched_as_compiled) {
    return place.Error("block_shape", absl::StrCat("a kernel in ", ToText(parsed_.language),
                                                   " takes a tensor_map, an arg of its own"));
  }
  if (buffer.shape.size() > 5) return place.Error("block_shape", "of at most 5 dimensions");
  if (descriptor.block_shape.size() != buffer.shape.size()) {
    return place.Error("block_shape",
                       absl::StrCat("one for each dimension of the buffer: ", buffer.shape.size(),
                                    ", not ", descriptor.block_shape.size()));
  }
  return ParseAll(place, "block_shape", descriptor.block_shape, config_names_,
                  &parsed->block_shape);
}

// Inside the kernel's files a symbol is a buffer that is only read.
absl::Status SpecChecker::CheckSymbol(const ArgSpec& arg, const SpecPlace& place,
                                      ParsedArg* parsed) {
  const SymbolSpec& symbol = *arg.symbol;
  parsed->variable = symbol.variable.empty() ? arg.name : symbol.variable;
  if (!IsQualifiedName(parsed->variable)) {
    return place.Error("variable", absl::StrCat("'", parsed->variable, "' is no variable's name"));
  }
  if (!IsMentioned(BaseNameOf(parsed->variable))) {
    return place.Error(
        "variable", absl::StrCat("no file of the kernel has a variable '", parsed->variable, "'"));
  }
  parsed->buffer = {.dtype = symbol.dtype,
                    .shape = symbol.shape,
                    .role = Role::kInput,
                    .fill = symbol.fill,
                    .file = symbol.file};
  return CheckBuffer(parsed->buffer, place, parsed);
}

bool SpecChecker::IsMentioned(const std::string& word) const {
  return std::any_of(parsed_.files.begin(), parsed_.files.end(),
                     [&](const auto& file) { return HasWord(file.second, word); });
}

absl::Status SpecChecker::CheckScalar(const ScalarSpec& scalar, const SpecPlace& place,
                                      ParsedArg* parsed) {
  if (!IsOneOf(scalar.dtype, kScalarTypes)) {
    return place.Error("dtype", absl::StrCat("unknown scalar type '", scalar.dtype,
                                             "'; known: ", absl::StrJoin(kScalarTypes, ", ")));
  }
  ASSIGN_OR_RETURN(parsed->value, Parse(place, "value", -1, scalar.value, launch_names_));
  ASSIGN_OR_RETURN(parsed->uses_strides, FindStrides(*parsed->value, place, "value", -1));
  const absl::StatusOr<DType> dtype = ParseDType(scalar.dtype);
  if (!parsed->uses_strides || (dtype.ok() && !IsFloat(*dtype))) return absl::OkStatus();
  return place.Error("dtype", "strides are integers");
}

absl::Status SpecChecker::CheckTensorMap(const TensorMapSpec& map, const SpecPlace& place,
                                         ParsedArg* parsed) {
  const bool found = std::any_of(spec_.args.begin(), spec_.args.end(), [&](const ArgSpec& arg) {
    return arg.buffer.has_value() && arg.name == map.buffer;
  });
  if (!found) {
    return place.Error("buffer", absl::StrCat("no buffer arg is called '", map.buffer, "'"));
  }
  if (map.dims.size() < 1 || map.dims.size() > 5) {
    return place.Error("dims", "a tensor map has 1 to 5 dims");
  }
  if (map.strides.size() != map.dims.size() - 1) {
    return place.Error("strides", absl::StrCat("one fewer than dims: ", map.dims.size() - 1,
                                               ", not ", map.strides.size()));
  }
  if (map.box.size() != map.dims.size()) {
    return place.Error(
        "box", absl::StrCat("as many as dims: ", map.dims.size(), ", not ", map.box.size()));
  }
  RETURN_IF_ERROR(ParseAll(place, "dims", map.dims, launch_names_, &parsed->dims));
  RETURN_IF_ERROR(ParseAll(place, "strides", map.strides, launch_names_, &parsed->strides));
  for (int i = 0; i < std::ssize(map.dims); ++i) {
    RETURN_IF_ERROR(FindStrides(parsed->dims[i], place, "dims", i).status());
  }
  for (int i = 0; i < std::ssize(map.strides); ++i) {
    RETURN_IF_ERROR(FindStrides(parsed->strides[i], place, "strides", i).status());
  }
  RETURN_IF_ERROR(ParseAll(place, "box", map.box, config_names_, &parsed->box));
  const uint32_t swizzle = map.swizzle_bytes;
  if (swizzle != 0 && swizzle != 32 && swizzle != 64 && swizzle != 128) {
    return place.Error("swizzle_bytes", absl::StrCat(swizzle, " is not 0, 32, 64 or 128"));
  }
  const uint32_t promotion = map.l2_promotion_bytes;
  if (promotion != 0 && promotion != 64 && promotion != 128 && promotion != 256) {
    return place.Error("l2_promotion_bytes", absl::StrCat(promotion, " is not 0, 64, 128 or 256"));
  }
  return absl::OkStatus();
}

absl::Status SpecChecker::CheckIsFirst(const std::optional<LaunchSpec>& launch,
                                       const SpecPlace& place) const {
  if (!launch.has_value() || !launch->programmatic_dependent_launch) return absl::OkStatus();
  return place.Nested("launch").Error("programmatic_dependent_launch",
                                      "there is no step before it to overlap with");
}

absl::Status SpecChecker::CheckIsPlain(const std::optional<LaunchSpec>& launch,
                                       const SpecPlace& place, absl::string_view what) const {
  if (!launch.has_value() || launch->cluster.empty()) return CheckIsFirst(launch, place);
  return place.Nested("launch").Error("cluster", 0, absl::StrCat(what, " runs without clusters"));
}

absl::Status SpecChecker::CheckLaunch(const LaunchSpec& launch, const SpecPlace& place,
                                      Language language, ParsedLaunch* parsed) {
  const LanguageTraits& traits = TraitsOf(language);
  const bool compiled = traits.launched_as_compiled;
  const struct {
    const char* field;
    const std::vector<std::string>& texts;
    size_t least;
  } kAxes[] = {{"grid", launch.grid, 1},
               {"block", launch.block, compiled ? size_t{0} : 1},
               {"cluster", launch.cluster, 0}};
  for (const auto& axes : kAxes) {
    if (compiled && axes.least == 0 && !axes.texts.empty()) {
      return place.Error(axes.field, 0,
                         absl::StrCat(traits.name,
                                      " decides it: a launch has a grid only; give "
                                      "params or defines num_warps and num_ctas"));
    }
    if (axes.texts.size() < axes.least || axes.texts.size() > 3) {
      return place.Error(axes.field,
                         absl::StrCat(axes.least, " to 3 expressions, not ", axes.texts.size()));
    }
  }
  if (compiled && !launch.shared_bytes.empty()) {
    return place.Error("shared_bytes", absl::StrCat(traits.name, " decides it"));
  }
  if (launch.resident && (launch.grid.size() > 1 || launch.cluster.size() > 1)) {
    return place.Error("resident",
                       "blocks that walk over the work have a grid, and a cluster, of "
                       "one axis: give one expression");
  }
  return ParseLaunch(launch, place, parsed);
}

absl::Status SpecChecker::ParseLaunch(const LaunchSpec& launch, const SpecPlace& place,
                                      ParsedLaunch* parsed) {
  parsed->cooperative = launch.cooperative;
  parsed->programmatic_dependent_launch = launch.programmatic_dependent_launch;
  parsed->resident = launch.resident;
  Names in_scope = config_names_;
  in_scope.insert("sm_count");
  RETURN_IF_ERROR(ParseAll(place, "grid", launch.grid, in_scope, &parsed->grid));
  RETURN_IF_ERROR(ParseAll(place, "block", launch.block, in_scope, &parsed->block));
  RETURN_IF_ERROR(ParseAll(place, "cluster", launch.cluster, in_scope, &parsed->cluster));
  if (launch.shared_bytes.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(parsed->shared_bytes,
                   Parse(place, "shared_bytes", -1, launch.shared_bytes, in_scope));
  return absl::OkStatus();
}

absl::Status SpecChecker::ParseWhen(const StepSpec& step, const SpecPlace& place,
                                    ParsedStep* parsed) {
  if (step.when.empty()) return absl::OkStatus();
  Names in_scope = config_names_;
  in_scope.insert("sm_count");
  ASSIGN_OR_RETURN(parsed->when, Parse(place, "when", -1, step.when, in_scope));
  return absl::OkStatus();
}

absl::Status SpecChecker::CheckRules() {
  RETURN_IF_ERROR(CheckDims());
  FindLetsOfProblems();
  RETURN_IF_ERROR(CheckParams());
  RETURN_IF_ERROR(CheckLets());
  RETURN_IF_ERROR(CheckConstraints());
  if (spec_.steps.empty()) return root_.Error("steps", "missing");
  for (int i = 0; i < std::ssize(spec_.steps); ++i) {
    const StepSpec& step = spec_.steps[i];
    const SpecPlace place = root_.Nested("steps", i);
    ParsedStep& parsed = parsed_.steps.emplace_back();
    parsed.field = absl::StrCat("steps[", i, "].launch");
    if (!step.launch.has_value()) return place.Error("launch", "missing");
    RETURN_IF_ERROR(ParseLaunch(*step.launch, place.Nested("launch"), &parsed.launch));
    RETURN_IF_ERROR(ParseWhen(step, place, &parsed));
  }
  return absl::OkStatus();
}

// The algorithm's minimum depends on the problem only, never on what a variant does.
absl::Status SpecChecker::CheckWork() {
  if (!spec_.work.has_value()) return absl::OkStatus();
  const WorkSpec& work = *spec_.work;
  const SpecPlace place = root_.Nested("work");
  if (!work.flops.empty()) {
    ASSIGN_OR_RETURN(parsed_.flops, Parse(place, "flops", -1, work.flops, problem_names_));
  }
  if (!work.bytes.empty()) {
    ASSIGN_OR_RETURN(parsed_.bytes, Parse(place, "bytes", -1, work.bytes, problem_names_));
  }
  if (work.peak.empty() || IsPeakName(work.peak)) return absl::OkStatus();
  const absl::StatusOr<Expression> peak = Parse(place, "peak", -1, work.peak, problem_names_);
  if (!peak.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(peak.status().message(), "; or one of the peaks ", PeakNames()));
  }
  parsed_.peak = *peak;
  return absl::OkStatus();
}

absl::StatusOr<std::vector<size_t>> SpecChecker::ArgsNamed(
    const SpecPlace& place, const std::vector<std::string>& names) const {
  std::vector<size_t> indices;
  for (int i = 0; i < std::ssize(spec_.args) && names.empty(); ++i) {
    if (!spec_.args[i].symbol.has_value()) indices.push_back(static_cast<size_t>(i));
  }
  for (int i = 0; i < std::ssize(names); ++i) {
    const std::optional<size_t> index = FindArg(spec_, names[i]);
    if (!index.has_value()) {
      return place.Error("args", i, absl::StrCat("no arg is called '", names[i], "'"));
    }
    const ArgSpec& arg = spec_.args[*index];
    if (arg.symbol.has_value()) {
      return place.Error("args", i,
                         absl::StrCat("symbol '", names[i], "' is a variable, not a ",
                                      "parameter: leave it out here"));
    }
    indices.push_back(*index);
    if (!arg.tensor_map.has_value()) continue;
    const std::string& buffer = arg.tensor_map->buffer;
    if (std::find(names.begin(), names.end(), buffer) == names.end()) {
      return place.Error("args", i,
                         absl::StrCat("tensor map '", names[i], "' needs its buffer '", buffer,
                                      "' among the args"));
    }
  }
  return indices;
}

absl::StatusOr<std::vector<size_t>> SpecChecker::ScratchNamed(const StepSpec& step,
                                                              const SpecPlace& place) const {
  std::vector<size_t> indices;
  for (int i = 0; i < std::ssize(step.zero); ++i) {
    const std::optional<size_t> index = FindArg(spec_, step.zero[i]);
    if (!index.has_value() || RoleOf(spec_.args[*index]) != Role::kScratch) {
      return place.Error("zero", i,
                         absl::StrCat("no buffer of ROLE_SCRATCH is called '", step.zero[i], "'"));
    }
    indices.push_back(*index);
  }
  return indices;
}

absl::StatusOr<EntryText> SpecChecker::CheckEntry(const std::string& entry, Language language,
                                                  const SpecPlace& place) const {
  const auto parse = [&](const std::string& text) -> absl::StatusOr<Expression> {
    return Parse(place, "entry", -1, text, config_names_);
  };
  absl::StatusOr<EntryText> parsed = EntryText::Read(entry, parse);
  if (!parsed.ok()) {
    const bool placed = absl::StartsWith(parsed.status().message(), root_.spec_name());
    return placed ? parsed.status() : place.Error("entry", parsed.status().message());
  }
  if (parsed->is_instance() && !TraitsOf(language).has_macros) {
    return place.Error("entry",
                       absl::StrCat("'", entry, "': ", ToText(language), " has no templates"));
  }
  return parsed;
}

absl::Status SpecChecker::CheckStep(const StepSpec& step, const SpecPlace& place, Language language,
                                    ParsedStep* parsed) {
  ASSIGN_OR_RETURN(parsed->entry, CheckEntry(step.entry, language, place));
  parsed->source = step.source;
  const auto& headers = spec_.headers;
  if (!step.source.empty() && step.source != spec_.source &&
      std::find(headers.begin(), headers.end(), step.source) == headers.end()) {
    return place.Error("source", absl::StrCat("'", step.source, "' is neither the source nor a ",
                                              "header: add it to headers"));
  }
  if (!step.launch.has_value()) return place.Error("launch", "missing");
  RETURN_IF_ERROR(CheckLaunch(*step.launch, place.Nested("launch"), language, &parsed->launch));
  if (step.args.size() > 64) return place.Error("args", 64, "one too many; the most is 64");
  ASSIGN_OR_RETURN(parsed->args, ArgsNamed(place, step.args));
  if (step.zero.size() > 16) return place.Error("zero", 16, "one too many; the most is 16");
  ASSIGN_OR_RETURN(parsed->zero, ScratchNamed(step, place));
  return ParseWhen(step, place, parsed);
}

// A spec without steps has one: its entry with its launch and all args.
absl::Status SpecChecker::CheckSteps() {
  if (!spec_.source_choice.empty()) {
    ASSIGN_OR_RETURN(parsed_.source_choice,
                     Parse(root_, "source_choice", -1, spec_.source_choice, config_names_));
  }
  if (spec_.steps.empty()) {
    const StepSpec step = {.entry = spec_.entry, .launch = spec_.launch};
    ParsedStep& parsed = parsed_.steps.emplace_back();
    parsed.field = "launch";
    RETURN_IF_ERROR(CheckIsFirst(step.launch, root_));
    return CheckStep(step, root_, parsed_.language, &parsed);
  }
  if (!spec_.entry.empty()) return root_.Error("entry", "each of the steps has its own");
  if (spec_.launch.has_value()) return root_.Error("launch", "each of the steps has its own");
  Names names;
  for (int i = 0; i < std::ssize(spec_.steps); ++i) {
    const StepSpec& step = spec_.steps[i];
    const SpecPlace place = root_.Nested("steps", i);
    if (!step.name.empty() && !names.insert(step.name).second) {
      return place.Error("name", absl::StrCat("two steps are called '", step.name, "'"));
    }
    ParsedStep& parsed = parsed_.steps.emplace_back();
    parsed.field = absl::StrCat("steps[", i, "].launch");
    if (i == 0) RETURN_IF_ERROR(CheckIsFirst(step.launch, place));
    RETURN_IF_ERROR(CheckStep(step, place, parsed_.language, &parsed));
  }
  return absl::OkStatus();
}

}  // namespace tune
