// SPDX-License-Identifier: Apache-2.0
// A kernel's spec as plain data. proto/tune/v1/kernel.proto explains each field; the fields here
// have the same names and kinds, and server/wire/spec.h reads them from a spec's text. A message
// that may be missing is an optional. An enum that the spec does not name is 0, as in `Role{}`.
//
// A KernelSpec is as its author wrote it, unchecked. Kernel::Create (kernel.h) checks it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/fields.h"
#include "tuner/language.h"
#include "tuner/plan.h"
#include "tuner/problem.h"

namespace tune {

struct DimOnTarget {
  std::string target;  // a pattern
  int64_t default_value = 0;
};
TUNE_FIELDS(DimOnTarget, target, default_value);

struct DimSpec {
  std::string name;
  int64_t default_value = 0;
  std::string doc;
  int64_t min = 0;
  int64_t max = 0;              // 0: kDimMax
  std::vector<int64_t> values;  // empty: all from min to max
  DimMatch match = DimMatch::kNearest;
  std::vector<DimOnTarget> on;
  std::string default_dim;
  bool optional = false;
};
TUNE_FIELDS(DimSpec, name, default_value, doc, min, max, values, match, on, default_dim, optional);

inline constexpr int64_t kDimMax = int64_t{1} << 40;
inline int64_t MaxOf(const DimSpec& dim) { return dim.max == 0 ? kDimMax : dim.max; }

struct ParamOnTarget {
  std::string target;  // a pattern
  std::string values;
  std::string default_value;
};
TUNE_FIELDS(ParamOnTarget, target, values, default_value);

struct ParamSpec {
  std::string name;
  std::string values;
  std::string default_value;
  std::string doc;
  std::vector<ParamOnTarget> on;
};
TUNE_FIELDS(ParamSpec, name, values, default_value, doc, on);

struct LetSpec {
  std::string name;
  std::string value;
};
TUNE_FIELDS(LetSpec, name, value);

struct ConstraintSpec {
  std::string expression;
  std::string doc;
};
TUNE_FIELDS(ConstraintSpec, expression, doc);

struct DefineSpec {
  std::string name;
  std::string value;
};
TUNE_FIELDS(DefineSpec, name, value);

struct FillSpec {
  Fill::Kind kind{};  // 0: normal for floats, uniform for integers
  double low = 0;
  double high = 0;
  std::string low_expression;
  std::string high_expression;
  std::string columns;
  std::string offsets;
  std::string lengths;
};
TUNE_FIELDS(FillSpec, kind, low, high, low_expression, high_expression, columns, offsets, lengths);

struct TensorDescriptorSpec {
  std::vector<std::string> block_shape;
  bool nan_padding = false;
};
TUNE_FIELDS(TensorDescriptorSpec, block_shape, nan_padding);

struct BufferSpec {
  std::string dtype;
  std::vector<std::string> shape;
  Role role{};
  std::optional<FillSpec> fill;
  std::string file;
  std::string expected;
  std::optional<TensorDescriptorSpec> tensor_descriptor;
  bool strided = false;
  std::string used_if;
};
TUNE_FIELDS(BufferSpec, dtype, shape, role, fill, file, expected, tensor_descriptor, strided,
            used_if);

struct ScalarSpec {
  std::string dtype;
  std::string value;
};
TUNE_FIELDS(ScalarSpec, dtype, value);

struct TensorMapSpec {
  std::string buffer;
  std::vector<std::string> dims;
  std::vector<std::string> strides;
  std::vector<std::string> box;
  uint32_t swizzle_bytes = 0;
  uint32_t l2_promotion_bytes = 0;
};
TUNE_FIELDS(TensorMapSpec, buffer, dims, strides, box, swizzle_bytes, l2_promotion_bytes);

struct SymbolSpec {
  std::string dtype;
  std::vector<std::string> shape;
  std::optional<FillSpec> fill;
  std::string file;
  std::string variable;
};
TUNE_FIELDS(SymbolSpec, dtype, shape, fill, file, variable);

// An arg is one of the four.
struct ArgSpec {
  std::string name;
  std::optional<BufferSpec> buffer;
  std::optional<ScalarSpec> scalar;
  std::optional<TensorMapSpec> tensor_map;
  std::optional<SymbolSpec> symbol;
};
TUNE_FIELDS(ArgSpec, name, buffer, scalar, tensor_map, symbol);

struct LaunchSpec {
  std::vector<std::string> grid;
  std::vector<std::string> block;
  std::vector<std::string> cluster;
  std::string shared_bytes;
  bool cooperative = false;
  bool programmatic_dependent_launch = false;
  bool resident = false;
};
TUNE_FIELDS(LaunchSpec, grid, block, cluster, shared_bytes, cooperative,
            programmatic_dependent_launch, resident);

struct WorkSpec {
  std::string flops;
  std::string bytes;
  std::string peak;
};
TUNE_FIELDS(WorkSpec, flops, bytes, peak);

struct ReferenceSpec {
  std::string entry;
  std::string dtype;
  std::optional<LaunchSpec> launch;
  std::string source;
  Language language{};  // 0: by the source
  std::vector<std::string> args;
};
TUNE_FIELDS(ReferenceSpec, entry, dtype, launch, source, language, args);

struct CheckerSpec {
  std::string entry;
  std::optional<LaunchSpec> launch;
  std::string source;
  std::vector<std::string> args;
};
TUNE_FIELDS(CheckerSpec, entry, launch, source, args);

struct ToleranceSpec {
  std::string dtype;
  std::string arg;
  double rtol = 0;
  double atol = 0;
  double relative_norm = 0;
  double mismatches = 0;
  std::string when;
};
TUNE_FIELDS(ToleranceSpec, dtype, arg, rtol, atol, relative_norm, mismatches, when);

struct StepSpec {
  std::string name;
  std::string entry;
  std::vector<std::string> args;
  std::optional<LaunchSpec> launch;
  std::vector<std::string> zero;
  std::string when;
  std::string source;
};
TUNE_FIELDS(StepSpec, name, entry, args, launch, zero, when, source);

struct CheckProblem {
  std::map<std::string, int64_t> dims;
  std::string dtype;
};
TUNE_FIELDS(CheckProblem, dims, dtype);

struct KernelSpec {
  std::string name;
  std::string summary;
  std::string source;
  std::vector<std::string> headers;
  std::string entry;
  std::vector<DimSpec> dims;
  std::vector<std::string> dtypes;
  std::vector<ParamSpec> params;
  std::vector<LetSpec> lets;
  std::vector<ConstraintSpec> constraints;
  std::vector<DefineSpec> defines;
  std::vector<ArgSpec> args;
  std::optional<LaunchSpec> launch;
  std::optional<WorkSpec> work;
  std::optional<ReferenceSpec> reference;
  std::vector<ToleranceSpec> tolerances;
  std::vector<std::string> targets;
  std::vector<std::string> nvrtc_options;
  std::vector<CheckProblem> checks;
  Language language{};  // 0: CUDA C++
  std::string source_choice;
  std::vector<StepSpec> steps;
  std::vector<std::string> include_roots;
  std::optional<CheckerSpec> checker;
};
TUNE_FIELDS(KernelSpec, name, summary, source, headers, entry, dims, dtypes, params, lets,
            constraints, defines, args, launch, work, reference, tolerances, targets, nvrtc_options,
            checks, language, source_choice, steps, include_roots, checker);

// The role of the buffer that an arg is; 0 if it is none.
inline Role RoleOf(const ArgSpec& arg) {
  return arg.buffer.has_value() ? arg.buffer->role : Role{};
}

// How expressions call the stride of a buffer's axis: "x_stride_0".
std::string StrideName(const std::string& buffer, size_t axis);
// Whether an expression uses the stride of a buffer that is strided.
bool UsesStrides(const KernelSpec& spec, const std::string& expression);

// The index of an arg in the spec; nullopt if no arg has the name.
std::optional<size_t> FindArg(const KernelSpec& spec, const std::string& name);

// The text that a spec was read from: what errors point into, and what the kernel's hash is of.
struct SpecText {
  struct Position {
    int line = 0;  // from 0
    int column = 0;
  };
  using Positions = std::map<std::string, Position>;

  std::string name;       // "softmax.textproto"
  std::string text;       // as it was written
  std::string canonical;  // the same for equal specs, however they were written
  // By the path of each field that is there: "launch.grid[0]". Only element 0 of a list that was
  // written in brackets has one.
  Positions positions;
};

}  // namespace tune
