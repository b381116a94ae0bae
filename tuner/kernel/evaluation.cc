// SPDX-License-Identifier: Apache-2.0
#include "tuner/kernel/evaluation.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace tune {

Evaluation::Evaluation(const ParsedSpec& parsed, const Problem& problem, const TargetTraits& traits)
    : parsed_(parsed) {
  for (const auto& [name, value] : problem.dims) scope_.Set(name, value);
  scope_.Set("dtype", ToText(problem.dtype));
  scope_.Set("dtype_bytes", SizeInBytes(problem.dtype));
  scope_.Set("target", traits.target);
  scope_.Set("sm", int64_t{traits.sm});
  scope_.Set("sm_count", traits.sm_count);
  for (const ParsedLet& let : parsed_.lets) {
    if (!let.uses_params) SetLet(let);
  }
  for (size_t i = 0; i < parsed_.args.size(); ++i) {
    if (parsed_.args[i].buffer.strided) SetStrides(parsed_.spec.args[i].name, parsed_.args[i]);
  }
}

void Evaluation::SetStrides(const std::string& name, const ParsedArg& arg) {
  int64_t stride = 1;
  for (size_t axis = arg.shape.size(); axis-- > 1;) {
    const absl::StatusOr<int64_t> extent = arg.shape[axis].EvaluateInteger(scope_);
    if (!extent.ok() || *extent < 1 || *extent > kMaxElements / stride) return;  // told by the plan
    stride *= *extent;
    scope_.Set(StrideName(name, axis - 1), stride);
  }
}

void Evaluation::SetConfig(const Config& config) {
  for (const auto& [name, value] : config.entries) scope_.Set(name, value);
  for (const ParsedLet& let : parsed_.lets) {
    if (let.uses_params) SetLet(let);
  }
}

void Evaluation::SetLet(const ParsedLet& let) {
  const absl::StatusOr<Value> value = let.value.Evaluate(scope_);
  if (value.ok()) {
    scope_.Set(let.name, *value);
  } else {
    failed_lets_[let.name] = std::string(Explain(let.name, value.status()).message());
  }
}

absl::Status Evaluation::Explain(const std::string& field, const absl::Status& status) const {
  for (const auto& [name, why] : failed_lets_) {
    if (absl::StartsWith(status.message(), absl::StrCat("unknown name '", name, "'"))) {
      return absl::InvalidArgumentError(why);
    }
  }
  return Error(field, std::string(status.message()));
}

absl::Status Evaluation::Error(const std::string& field, const std::string& message) const {
  return absl::InvalidArgumentError(
      absl::StrCat("kernel '", parsed_.spec.name, "': ", field, ": ", message));
}

}  // namespace tune
