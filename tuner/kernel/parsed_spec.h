// SPDX-License-Identifier: Apache-2.0
// A checked spec with its expressions parsed. Internal to tuner/kernel.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tuner/expression/expression.h"
#include "tuner/kernel/entry_text.h"
#include "tuner/kernel/kernel_spec.h"
#include "tuner/language.h"
#include "tuner/space/space.h"
#include "tuner/transfer/launch_sizes.h"

namespace tune {

struct ParsedParam {
  struct Choice {
    std::string pattern;  // of targets
    Expression values;
    Expression default_value;
  };
  std::vector<Choice> choices;  // the first that matches wins; the last matches every target
};

struct ParsedLet {
  std::string name;
  Expression value;
  bool uses_params = false;  // itself or through other lets
};

struct ParsedLaunch {
  std::vector<Expression> grid;
  std::vector<Expression> block;
  std::vector<Expression> cluster;
  std::optional<Expression> shared_bytes;
  bool cooperative = false;
  bool programmatic_dependent_launch = false;
  bool resident = false;
};

// A launch with what it takes: a step of the spec, the only one of a spec without steps, or the
// reference's.
struct ParsedStep {
  std::string field;  // where its launch stands: "launch", "steps[1].launch"
  EntryText entry;
  std::string source;  // empty: the kernel's
  std::optional<Expression> when;
  ParsedLaunch launch;
  std::vector<size_t> args;  // indices of the spec's, in the order of the entry's parameters
  std::vector<size_t> zero;
};

// The expressions of one arg; which are set depends on its kind.
struct ParsedArg {
  BufferSpec buffer;                // also of a symbol
  std::string variable;             // of a symbol, as C++ names it
  std::optional<Expression> dtype;  // not set where the spec has a type's name, or "dtype"
  std::vector<Expression> shape;
  std::vector<Expression> block_shape;  // of a buffer's tensor descriptor
  std::optional<Expression> fill_low;
  std::optional<Expression> fill_high;
  std::optional<Expression> fill_columns;
  std::optional<Expression> fill_lengths;
  std::optional<Expression> value;
  bool uses_strides = false;  // the value does
  std::vector<Expression> dims;
  std::vector<Expression> strides;
  std::vector<Expression> box;
};

struct ParsedChecker {
  struct Arg {
    size_t index = 0;           // of the spec's
    bool of_reference = false;  // what the reference wrote
  };
  std::string source;
  ParsedStep step;  // without its args
  std::vector<Arg> args;
};

// The conditions under which a target can launch the steps: lets, whose names no spec can take, and
// constraints over them.
struct ParsedFit {
  // A limit of the target. In expressions it is a constant of this name.
  enum class Limit { kNone, kThreads, kSharedBytes, kClusterBlocks };
  struct Constraint {
    Expression expression;
    std::string text;  // for messages; without the limit
    Limit limit = Limit::kNone;
  };
  std::vector<SpaceLet> lets;
  std::vector<Constraint> constraints;
};
ParsedFit FitOf(const std::vector<ParsedStep>& steps);

// Vectors are parallel to the spec's repeated fields of the same name.
struct ParsedSpec {
  KernelSpec spec;
  std::string spec_text;
  std::map<std::string, std::string> files;
  std::set<std::string> data_files;  // those of them that buffers are filled or compared with
  std::string hash;
  std::string origin;  // Kernel::origin
  std::vector<ParsedParam> params;
  std::vector<ParsedLet> lets;
  std::vector<SpaceConstraint> constraints;
  std::vector<Expression> defines;
  std::vector<ParsedArg> args;
  std::vector<std::optional<Expression>> tolerances;  // when they hold; not set: always
  Language language = Language::kCuda;
  std::optional<Expression> source_choice;
  std::vector<ParsedStep> steps;  // at least one
  ParsedFit fit;
  std::shared_ptr<const LaunchForm> launch_form;
  // Not set where files, a checker or a function on the host tell what is right.
  std::optional<ParsedStep> reference;
  std::string reference_source;
  Language reference_language = Language::kCuda;
  std::string host_reference;  // the function of reference_source; empty: there is none
  std::optional<ParsedChecker> checker;
  std::optional<Expression> flops;
  std::optional<Expression> bytes;
  std::optional<Expression> peak;  // not set if the spec names a peak itself
};

// Peaks that a spec may hold its FLOPs against.
bool IsPeakName(const std::string& name);
std::string PeakNames();  // "f64, f32, ..."

// See Kernel::Create.
absl::StatusOr<std::unique_ptr<ParsedSpec>> ParseSpec(
    KernelSpec spec, const SpecText& text, const std::map<std::string, std::string>& files);
// See Kernel::CreateRules.
absl::StatusOr<std::unique_ptr<ParsedSpec>> ParseRules(KernelSpec spec, const std::string& hash);

}  // namespace tune
