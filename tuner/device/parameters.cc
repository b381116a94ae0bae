// SPDX-License-Identifier: Apache-2.0
#include "tuner/device/parameters.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <variant>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "tuner/source/source_functions.h"

namespace tune {
namespace {

constexpr int64_t kPointerBytes = 8;
constexpr int64_t kTensorMapBytes = 128;
constexpr size_t kMistakesShown = 8;

enum class Shape { kUnknown, kPointer, kFloat, kSigned, kUnsigned, kBytes, kPointerOrInteger };

// A type as far as it matters here.
struct Type {
  Shape shape = Shape::kUnknown;
  std::optional<DType> dtype;  // of a floating one
  int64_t bytes = 0;           // of an integer, by its name
  // Set for a pointer:
  Shape pointee = Shape::kUnknown;
  bool pointee_const = false;
};

Type PtxType(absl::string_view text) {
  Type type;
  if (text == ".ptr") type.shape = Shape::kPointer;
  if (text == ".u64" || text == ".s64") type.shape = Shape::kPointerOrInteger;
  for (absl::string_view name : {".u8", ".u16", ".u32", ".s8", ".s16", ".s32"}) {
    if (text == name) type.shape = Shape::kUnsigned;
  }
  if (text == ".f32" || text == ".f64") {
    type.shape = Shape::kFloat;
    type.dtype = text == ".f32" ? DType::kF32 : DType::kF64;
  }
  return type;
}

// The type of some words, const and volatile among them. Classes and vectors are unknown.
Type PlainType(absl::string_view text) {
  constexpr std::array<std::pair<absl::string_view, DType>, 5> kFloats = {
      {{"float", DType::kF32},
       {"double", DType::kF64},
       {"__half", DType::kF16},
       {"__nv_bfloat16", DType::kBF16},
       {"__nv_fp8_e4m3", DType::kE4M3}}};
  Type type;
  int longs = 0;
  bool integer = false;
  bool is_unsigned = false;
  int64_t bytes = 4;
  for (absl::string_view word : absl::StrSplit(text, ' ', absl::SkipEmpty())) {
    for (const auto& [name, dtype] : kFloats) {
      if (word == name) type = {.shape = Shape::kFloat, .dtype = dtype};
    }
    if (word == "char" || word == "bool") return {.shape = Shape::kBytes, .bytes = 1};
    if (word == "void") return {};
    is_unsigned = is_unsigned || word == "unsigned";
    longs += word == "long" ? 1 : 0;
    if (word == "short") bytes = 2;
    integer = integer || word == "int" || word == "short" || word == "long" || word == "unsigned";
  }
  if (!integer) return type;
  return {.shape = is_unsigned ? Shape::kUnsigned : Shape::kSigned, .bytes = longs > 0 ? 8 : bytes};
}

Type TypeOf(absl::string_view text) {
  if (absl::StartsWith(text, ".")) return PtxType(text);
  const size_t star = text.rfind('*');
  if (star == absl::string_view::npos) return PlainType(text);
  const absl::string_view pointee = text.substr(0, star);
  if (absl::StrContains(pointee, '*') || absl::StrContains(pointee, '(')) {
    return {.shape = Shape::kPointer};  // to a pointer, or to a function
  }
  const Type inner = PlainType(pointee);
  bool is_const = false;
  for (absl::string_view word : absl::StrSplit(pointee, ' '))
    is_const = is_const || word == "const";
  return {.shape = Shape::kPointer,
          .dtype = inner.dtype,
          .bytes = inner.bytes,
          .pointee = inner.shape,
          .pointee_const = is_const};
}

// Kernels read a buffer as vectors, as packed bytes, as bits in unsigned numbers: a pointee is
// wrong only where no kernel would mean it.
bool MayPointTo(const Type& type, const BufferPlan& buffer) {
  const bool floating = IsFloat(buffer.dtype);
  const bool bytes = buffer.dtype == DType::kU8 || buffer.dtype == DType::kI8;
  switch (type.pointee) {
    case Shape::kFloat:
      return floating ? type.dtype == buffer.dtype : bytes;
    case Shape::kSigned:
      return !floating && type.bytes >= SizeInBytes(buffer.dtype);
    case Shape::kUnsigned:
      return floating || type.bytes >= SizeInBytes(buffer.dtype);
    default:
      return true;
  }
}

// `read_only`: of several entries, one may only read what another writes.
bool Fits(const BufferPlan& buffer, const ParameterFact& parameter, bool read_only) {
  const Type type = TypeOf(parameter.type);
  if (parameter.bytes != kPointerBytes) return false;
  switch (type.shape) {
    case Shape::kPointer:
      if (type.pointee_const && buffer.role != Role::kInput && !read_only) return false;
      return MayPointTo(type, buffer);
    case Shape::kUnknown:
    case Shape::kPointerOrInteger:
      return true;
    default:
      return false;
  }
}

bool Fits(const ScalarPlan& scalar, const ParameterFact& parameter, bool) {
  const Type type = TypeOf(parameter.type);
  if (parameter.bytes != SizeInBytes(scalar.dtype)) return false;
  switch (type.shape) {
    case Shape::kUnknown:
      return true;
    case Shape::kFloat:
      return type.dtype == scalar.dtype;
    case Shape::kPointer:
      return false;
    default:
      return !IsFloat(scalar.dtype);
  }
}

bool Fits(const TensorMapPlan&, const ParameterFact& parameter, bool) {
  return parameter.bytes == kTensorMapBytes;
}

absl::string_view Described(Role role) {
  switch (role) {
    case Role::kInput:
      return "an input";
    case Role::kOutput:
      return "an output";
    case Role::kInOut:
      return "an in-out";
    case Role::kScratch:
      break;
  }
  return "scratch";
}

std::string Described(const BufferPlan& buffer, const CompilePlan& plan) {
  const bool checked = buffer.role == Role::kOutput || buffer.role == Role::kInOut;
  const bool reference =
      std::any_of(plan.defines.begin(), plan.defines.end(),
                  [](const auto& define) { return define.first == "TUNE_REFERENCE"; });
  return absl::StrCat("a buffer of ", ToText(buffer.dtype), " (", Described(buffer.role),
                      reference && checked && IsFloat(buffer.dtype) ? ", wide for a reference" : "",
                      ")");
}
std::string Described(const ScalarPlan& scalar, const CompilePlan&) {
  return absl::StrCat("a scalar ", ToText(scalar.dtype));
}
std::string Described(const TensorMapPlan&, const CompilePlan&) { return "a tensor map"; }

std::string NameOf(const ArgPlan& arg) {
  return std::visit([](const auto& held) { return held.name; }, arg);
}

std::string ArgText(size_t i, const ArgPlan& arg, const CompilePlan& plan) {
  return absl::StrCat("arg ", i + 1, " '", NameOf(arg), "' is ",
                      std::visit([&](const auto& held) { return Described(held, plan); }, arg),
                      " in the spec");
}

// The source's own words where there are as many as the artifact has parameters.
std::string ParameterText(const SourceFunction& entry, size_t i,
                          const std::vector<ParameterFact>& parameters) {
  const ParameterFact& fact = parameters[i];
  if (entry.parameters.size() == parameters.size()) {
    return absl::StrCat("'", entry.parameters[i], "'");
  }
  if (!absl::StartsWith(fact.type, ".")) return absl::StrCat("'", fact.type, "'");
  return absl::StrCat(fact.bytes, " bytes of PTX's type ", fact.type);
}

// ": the source has 'n' as parameter 3", if so.
std::string Elsewhere(const SourceFunction& entry, const std::string& name, size_t at) {
  for (size_t i = 0; i < entry.parameters.size(); ++i) {
    if (i == at || NameOfParameter(entry.parameters[i]) != name) continue;
    return absl::StrCat("; parameter ", i + 1, " is called '", name, "'");
  }
  return "";
}

// ": it is const, ...", of a parameter that would fit if it were not.
std::string Objection(const ArgPlan& arg, const ParameterFact& parameter) {
  const BufferPlan* buffer = std::get_if<BufferPlan>(&arg);
  if (buffer == nullptr || !Fits(*buffer, parameter, /*read_only=*/true)) return "";
  return ": it is const, and the spec has the kernel write to it";
}

}  // namespace

std::string WhyArgsDoNotFit(const CompilePlan& plan, const std::string& entry,
                            const std::vector<ArgPlan>& args,
                            const std::vector<ParameterFact>& parameters, bool alone) {
  const size_t both = std::min(args.size(), parameters.size());
  std::vector<size_t> wrong;
  for (size_t i = 0; i < both; ++i) {
    const bool fits =
        std::visit([&](const auto& held) { return Fits(held, parameters[i], !alone); }, args[i]);
    if (!fits) wrong.push_back(i);
  }
  if (wrong.empty() && args.size() == parameters.size()) return "";

  const SourceFunction function = EntryOf(plan, entry);
  const std::string place = PlaceOf(plan, function);
  std::vector<std::string> lines;
  if (args.size() != parameters.size()) {
    std::string line = absl::StrCat(place, ": '", entry, "' takes ", parameters.size(),
                                    " parameters; the spec has ", args.size(), " args: ");
    if (args.size() > both) {
      absl::StrAppend(&line, "no parameter is left for arg ", both + 1, " '", NameOf(args[both]),
                      "'");
    } else {
      absl::StrAppend(&line, "no arg is left for parameter ", both + 1, ", ",
                      ParameterText(function, both, parameters));
    }
    lines.push_back(std::move(line));
  }
  for (size_t i : wrong) {
    if (lines.size() == kMistakesShown) break;
    lines.push_back(absl::StrCat(place, ": ", ArgText(i, args[i], plan), "; parameter ", i + 1,
                                 " of '", entry, "' is ", ParameterText(function, i, parameters),
                                 Elsewhere(function, NameOf(args[i]), i),
                                 Objection(args[i], parameters[i])));
  }
  return absl::StrJoin(lines, "\n");
}

std::string WhyOrderIsDoubtful(const CompilePlan& plan, const std::string& entry,
                               const std::vector<ArgPlan>& args) {
  const SourceFunction function = EntryOf(plan, entry);
  if (function.parameters.size() != args.size()) return "";
  for (size_t i = 0; i < args.size(); ++i) {
    const std::string name = NameOf(args[i]);
    const std::string there = NameOfParameter(function.parameters[i]);
    if (there == name) continue;
    // A name that differs is no evidence; one that another arg has indicates a mix-up.
    const bool is_an_arg = std::any_of(args.begin(), args.end(),
                                       [&](const ArgPlan& arg) { return NameOf(arg) == there; });
    const std::string elsewhere = Elsewhere(function, name, i);
    if (!is_an_arg || elsewhere.empty()) continue;
    return absl::StrCat(PlaceOf(plan, function), ": the order may be wrong: arg ", i + 1, " '",
                        name, "' of the spec goes to parameter ", i + 1, " of '", entry,
                        "', which is '", function.parameters[i], "'", elsewhere);
  }
  return "";
}

}  // namespace tune
