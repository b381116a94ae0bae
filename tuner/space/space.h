// SPDX-License-Identifier: Apache-2.0
// A space: all valid configs of a kernel for one problem and target, by index.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tuner/config.h"
#include "tuner/expression/expression.h"
#include "tuner/value.h"

namespace tune {

// A param with the values it takes here.
struct SpaceParam {
  std::string name;
  std::vector<Value> values;
};

// A constraint over the params; every other name in it is already bound.
struct SpaceConstraint {
  Expression expression;
  std::string text;  // as the spec has it, for messages
};

// Immutable; configs in the enumeration order of the params (last param fastest). Thread-safe.
class Space {
 public:
  // Builds the valid configs without enumerating the product: a constraint is applied as soon as
  // its params are fixed. INVALID_ARGUMENT if a constraint cannot be evaluated, or if no config is
  // left (names the constraint that removed the last). RESOURCE_EXHAUSTED over `limit` configs.
  static absl::StatusOr<Space> Build(std::vector<SpaceParam> params,
                                     std::vector<SpaceConstraint> constraints,
                                     const Scope& constants, uint64_t limit = 10'000'000);

  uint64_t size() const { return rows_.size() / stride(); }
  const std::vector<SpaceParam>& params() const { return params_; }

  // REQUIRES: index < size().
  Config At(uint64_t index) const;
  // Position of each param's value in its list.
  std::vector<uint16_t> DigitsAt(uint64_t index) const;
  std::optional<uint64_t> IndexOf(const Config& config) const;

 private:
  Space() = default;
  size_t stride() const { return params_.empty() ? 1 : params_.size(); }

  std::vector<SpaceParam> params_;
  std::vector<uint16_t> rows_;  // params_.size() digits a config, sorted
};

}  // namespace tune
