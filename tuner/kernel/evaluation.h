// SPDX-License-Identifier: Apache-2.0
// Evaluates the expressions of a spec for one problem and, once set, one config. Internal to
// tuner/kernel.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tuner/config.h"
#include "tuner/kernel/kernel.h"
#include "tuner/kernel/parsed_spec.h"
#include "tuner/problem.h"

namespace tune {

inline constexpr int64_t kMaxElements = int64_t{1} << 40;  // of a buffer

class Evaluation {
 public:
  // `parsed` must outlive this.
  Evaluation(const ParsedSpec& parsed, const Problem& problem, const TargetTraits& traits);

  // Params, and the lets that depend on them.
  void SetConfig(const Config& config);

  const Scope& scope() const { return scope_; }

  // INVALID_ARGUMENT: "kernel 'softmax': launch.grid[0]: division by zero at column 3 of 'a / b'".
  absl::StatusOr<int64_t> Integer(const std::string& field, const Expression& expression) const {
    return Named(field, expression.EvaluateInteger(scope_));
  }
  absl::StatusOr<double> Number(const std::string& field, const Expression& expression) const {
    return Named(field, expression.EvaluateNumber(scope_));
  }
  absl::StatusOr<bool> Boolean(const std::string& field, const Expression& expression) const {
    return Named(field, expression.EvaluateBoolean(scope_));
  }
  absl::StatusOr<std::string> Text(const std::string& field, const Expression& expression) const {
    return Named(field, expression.EvaluateText(scope_));
  }
  absl::StatusOr<Value> Any(const std::string& field, const Expression& expression) const {
    return Named(field, expression.Evaluate(scope_));
  }
  absl::StatusOr<std::vector<Value>> List(const std::string& field,
                                          const Expression& expression) const {
    return Named(field, expression.EvaluateList(scope_));
  }
  absl::Status Error(const std::string& field, const std::string& message) const;
  // An expression's error, as the above tell it.
  absl::Status Explain(const std::string& field, const absl::Status& status) const;

 private:
  template <typename T>
  absl::StatusOr<T> Named(const std::string& field, absl::StatusOr<T> result) const {
    if (result.ok()) return result;
    return Explain(field, result.status());
  }
  void SetLet(const ParsedLet& let);
  // Sets the strides of a buffer to those of contiguous elements.
  void SetStrides(const std::string& name, const ParsedArg& arg);

  const ParsedSpec& parsed_;
  Scope scope_;
  // A let that cannot be evaluated is an error only where it is used.
  std::map<std::string, std::string> failed_lets_;
};

// Defines the space of a kernel; see Kernel::MakeSpace.
absl::StatusOr<SpaceDefinition> DefineSpace(const ParsedSpec& parsed, const Problem& problem,
                                            const TargetTraits& traits);

// The values and the default of each param on a target, in the spec's order.
struct ParamChoice {
  std::vector<Value> values;
  Value default_value;
};
absl::StatusOr<std::vector<ParamChoice>> ParamChoices(const ParsedSpec& parsed,
                                                      const Evaluation& evaluation,
                                                      const std::string& target);

// The default config, whether or not it is valid.
absl::StatusOr<Config> UncheckedDefault(const ParsedSpec& parsed, const Problem& problem,
                                        const TargetTraits& traits);

}  // namespace tune
