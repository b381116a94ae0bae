// SPDX-License-Identifier: Apache-2.0
// A kernel spec once a problem and a config are chosen: numbers and text that a compiler and a
// device can use without knowing about specs or expressions.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/fields.h"
#include "tuner/language.h"
#include "tuner/problem.h"
#include "tuner/value.h"

namespace tune {

struct SourceFile {
  std::string name;  // as #include "name" finds it
  std::string text;  // bytes, where the language is no text
};
TUNE_FIELDS(SourceFile, name, text);

// A variable of a source that programs fill.
struct CompileSymbol {
  std::string variable;  // as C++ names it
  int64_t bytes = 0;     // exactly so many
};
TUNE_FIELDS(CompileSymbol, variable, bytes);

// Properties of a launch argument that a compiler may assume, in languages that compile for each
// kind of arguments.
struct ArgumentHint {
  std::string name;
  std::string type;     // "*bf16", "i32", "tensordesc<bf16[64, 64]>", as Triton calls them
  int64_t divisor = 1;  // the number, or the address, is a multiple of it
  bool is_one = false;  // an integer that is 1

  friend bool operator==(const ArgumentHint&, const ArgumentHint&) = default;
};
TUNE_FIELDS(ArgumentHint, name, type, divisor, is_one);

// A further source of a compilation, which is compiled by itself.
struct CompileUnit {
  std::string source_name;
  std::string source_text;
  std::vector<std::string> entries;
  std::vector<CompileSymbol> symbols;
  std::vector<ArgumentHint> arguments;
};
TUNE_FIELDS(CompileUnit, source_name, source_text, entries, symbols, arguments);

// Sent between the daemon and its workers, as Fill::Kind is: do not renumber.
enum class Role { kInput = 1, kOutput = 2, kInOut = 3, kScratch = 4 };

struct Fill {
  enum class Kind {
    kNormal = 1,
    kUniform = 2,
    kConstant = 3,
    kIota = 4,
    kPermutation = 5,
    kSorted = 6,
    kOneHot = 7,
    kLowerTriangular = 8,
    kUpperTriangular = 9,
    kCsrOffsets = 10,
    kCsrColumns = 11,
    kOffsets = 12
  };
  Kind kind = Kind::kNormal;
  double low = 0;
  double high = 1;      // of the two of CSR, the number of nonzeros
  int64_t rows = 1;     // of a matrix
  int64_t columns = 1;  // of a row
  std::string key;      // the buffer that random numbers are drawn for; empty: the one itself
  std::vector<int64_t> lengths;  // of pieces, over and over
};
TUNE_FIELDS(Fill, kind, low, high, rows, columns, key, lengths);

struct BufferPlan {
  std::string name;
  DType dtype = DType::kF32;
  int64_t count = 0;  // elements
  Role role = Role::kInput;
  Fill fill;
  std::vector<int64_t> shape;  // slowest dimension first; empty: of one dimension
  // The tile that one load moves, for an arg passed as a tensor descriptor. Empty: a pointer.
  std::vector<int64_t> block_shape;
  bool nan_padding = false;  // what lies beyond its end is NaN
};
TUNE_FIELDS(BufferPlan, name, dtype, count, role, fill, shape, block_shape, nan_padding);

struct ScalarPlan {
  std::string name;
  DType dtype = DType::kI32;
  Value value;
};
TUNE_FIELDS(ScalarPlan, name, dtype, value);

// Elements of a buffer, sent by the user: its input, or its expected result.
struct BufferFile {
  std::string buffer;
  DType dtype = DType::kF32;
  std::string elements;   // little endian
  bool expected = false;  // what is right; else what the buffer is filled with
};
TUNE_FIELDS(BufferFile, buffer, dtype, elements, expected);

// The call of a function on the host that computes the expected results of a problem.
struct HostCall {
  std::vector<BufferPlan> buffers;  // inputs, in-outs and outputs, in the order of the args
  std::vector<ScalarPlan> scalars;  // dims among them
  std::vector<BufferFile> files;    // what inputs are filled with
  uint64_t seed = 0;
  DType wide = DType::kF64;  // of its floating results
};
TUNE_FIELDS(HostCall, buffers, scalars, files, seed, wide);

// A compilation, which makes one artifact.
struct CompilePlan {
  Language language = Language::kCuda;
  std::string target;       // "cpu", "sm_90a"
  std::string source_name;  // "softmax.cu"
  std::string source_text;
  std::vector<SourceFile> headers;
  // -Dname=value, in order; in a language with constants, their values as Python writes them.
  std::vector<std::pair<std::string, std::string>> defines;
  std::vector<std::string> options;  // on the allow-list only
  // Kernels of the artifact that are launched, each once: "softmax", "ops::sum<128, float>".
  std::vector<std::string> entries;
  std::vector<ArgumentHint> arguments;  // of the entry, where the language compiles for them
  std::vector<CompileSymbol> symbols;
  std::vector<std::string> include_roots;  // names that the operator gave to folders
  std::vector<CompileUnit> more;           // units 1, 2, ...; the source above is unit 0
  HostCall call;  // of the entry, in a language that runs on the host instead of being compiled
  // Kernel::origin of the text. A process that has read text of one origin reads none of another.
  std::string origin;
};
TUNE_FIELDS(CompilePlan, language, target, source_name, source_text, headers, defines, options,
            entries, arguments, symbols, include_roots, more, call, origin);

// A CUtensorMap over a buffer; sizes fastest dimension first.
struct TensorMapPlan {
  std::string name;
  BufferPlan buffer;
  std::vector<int64_t> dims;           // elements
  std::vector<int64_t> strides_bytes;  // one fewer than dims
  std::vector<int64_t> box;            // elements
  int swizzle_bytes = 0;
  int l2_promotion_bytes = 0;
  bool nan_padding = false;
};
TUNE_FIELDS(TensorMapPlan, name, buffer, dims, strides_bytes, box, swizzle_bytes,
            l2_promotion_bytes, nan_padding);

using ArgPlan = std::variant<BufferPlan, ScalarPlan, TensorMapPlan>;

// The buffer that an arg is, or is a map of; null: it is a scalar.
BufferPlan* BufferOf(ArgPlan& arg);

struct LaunchPlan {
  std::string entry;  // of the artifact: as the plan names it, until the program is bound
  std::array<int64_t, 3> grid = {1, 1, 1};     // blocks
  std::array<int64_t, 3> block = {1, 1, 1};    // threads
  std::array<int64_t, 3> cluster = {1, 1, 1};  // blocks
  int64_t shared_bytes = 0;                    // dynamic
  bool cooperative = false;                    // all blocks run at the same time
  bool programmatic_dependent_launch = false;  // may begin before the step ahead of it has ended
  bool resident = false;                       // a device cuts x to the blocks it runs at once
  int unit = 0;                                // of the artifact
};
TUNE_FIELDS(LaunchPlan, entry, grid, block, cluster, shared_bytes, cooperative,
            programmatic_dependent_launch, resident, unit);

struct WorkPlan {
  double flops = 0;
  double bytes = 0;
  std::string peak;  // the FLOP/s ceiling: "f32", "tensor_bf16", ...
};
TUNE_FIELDS(WorkPlan, flops, bytes, peak);

struct TolerancePlan {
  double rtol = 0;
  double atol = 0;
  double relative_norm = 0;  // bound of the relative L2 error of the whole output; 0: none
  double mismatches = 0;     // the share of elements that may be beyond rtol and atol
};
TUNE_FIELDS(TolerancePlan, rtol, atol, relative_norm, mismatches);

// A launch of a program, and the zeroing before it.
struct StepPlan {
  LaunchPlan launch;
  std::vector<ArgPlan> args;     // in the order of the entry's parameters
  std::vector<BufferPlan> zero;  // scratch buffers that are set to zero first
};
TUNE_FIELDS(StepPlan, launch, args, zero);

// A variable of the artifact that is set before every launch.
struct SymbolPlan {
  std::string variable;  // as the plan names it, until the program is bound
  int unit = 0;          // of the artifact
  BufferPlan buffer;     // of the problem, which has its bytes
};
TUNE_FIELDS(SymbolPlan, variable, unit, buffer);

// The program of a config: one compilation, and steps that run back to back. Timed from the first
// start, be it of a launch or of a zeroing, to the last end.
struct ProgramPlan {
  CompilePlan compile;
  std::vector<StepPlan> steps;  // at least one
  std::vector<SymbolPlan> symbols;
};

// A compiled program, ready to run.
struct Program {
  std::vector<StepPlan> steps;
  std::string binary;  // of the artifact that the steps launch entries of
  std::vector<SymbolPlan> symbols;
};
TUNE_FIELDS(Program, steps, binary, symbols);

// The parts of a problem on one device that all variants share: buffers, reference, work.
struct ProblemPlan {
  std::vector<BufferPlan> buffers;
  // Has one step, whose output buffers have the reference's dtype. Without steps if files hold all
  // expected results.
  ProgramPlan reference;
  // The host-side reference, used instead of `reference`. Empty if the spec has none, or once its
  // results were added to `files`.
  CompilePlan host_reference;
  // Judges a launch instead of comparing elements. Has one step; without steps, elements are
  // compared.
  ProgramPlan checker;
  std::string checker_binary;  // once it is compiled
  // Indexed by the dtype of the tuned kernel's buffer.
  std::vector<std::pair<DType, TolerancePlan>> tolerances;
  std::vector<std::pair<std::string, TolerancePlan>> buffer_tolerances;  // these go first
  std::vector<BufferFile> files;
  WorkPlan work;
  std::string origin;  // as CompilePlan::origin
};

// The name that a checker's steps use for the reference's buffer of an output, and the buffer to
// which they report faults.
std::string ReferenceBufferName(const std::string& output);
inline constexpr char kFaultsBuffer[] = "tune.faults";

// Returns a unit of a compilation as a compilation of its own; 0 is the source, others are those of
// `more`.
CompilePlan PlanOfUnit(const CompilePlan& plan, size_t unit);

// Returns the compiled program of a plan and its binary.
Program WithBinary(const ProgramPlan& plan, std::string binary);

// The problem's buffer of a name; null: it has none such.
const BufferPlan* FindBuffer(const ProblemPlan& plan, const std::string& name);

// Bytes of the buffers that the kernel writes.
double WrittenBytes(const ProblemPlan& plan);

// The largest of all steps.
int64_t DynamicSharedBytes(const std::vector<StepPlan>& steps);

}  // namespace tune
