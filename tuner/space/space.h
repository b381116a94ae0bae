// SPDX-License-Identifier: Apache-2.0
// A space: all valid configs of a kernel for one problem and target, by index.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tuner/config.h"
#include "tuner/expression/expression.h"
#include "tuner/value.h"

namespace tune {

// A param with the values it takes here.
struct SpaceParam {
  std::string name;
  std::vector<Value> values;
};

// A value derived from params, constants and the lets before it.
struct SpaceLet {
  std::string name;
  Expression expression;
};

// A constraint over params and lets; every other name in it is a constant.
struct SpaceConstraint {
  Expression expression;
  std::string text;  // as people know it, for messages: "'A * B <= 1024' (why)"
};

struct SpaceDefinition {
  std::vector<SpaceParam> params;
  std::vector<SpaceLet> lets;
  std::vector<SpaceConstraint> constraints;
  Scope constants;
};

// Which configs are neighbours: those that differ in exactly one param, by any value of its list
// (kHamming) or by the next value up or down the list (kAdjacent).
enum class Neighbourhood { kHamming, kAdjacent };

// Immutable; configs in the enumeration order of the params (last param fastest). Thread-safe.
class Space {
 public:
  // Builds the valid configs without enumerating the product: a constraint is applied as soon as
  // its params are fixed, and params that share no constraint are enumerated apart. A config is
  // valid if every constraint is true; one that is false for some constraint is not valid even if
  // another cannot be evaluated there.
  //
  // INVALID_ARGUMENT if a constraint cannot be evaluated for a config that the others allow, or if
  // no config is left (names the constraint that removed the last). RESOURCE_EXHAUSTED over `limit`
  // configs, or if finding them takes too many steps.
  static absl::StatusOr<Space> Build(const SpaceDefinition& definition,
                                     uint64_t limit = 10'000'000);
  // A space whose configs are listed: rows of params.size() digits, positions in the params' values.
  // Rows must be sorted and each there once: index i is row i. INVALID_ARGUMENT otherwise.
  static absl::StatusOr<Space> FromRows(std::vector<SpaceParam> params, std::vector<uint16_t> rows);

  uint64_t size() const { return size_; }
  const std::vector<SpaceParam>& params() const { return params_; }
  // How many values param `i` has, whether valid configs take them all or not.
  size_t radix(size_t i) const { return params_[i].values.size(); }

  // REQUIRES: index < size().
  Config At(uint64_t index) const;
  // Digits: the position of each param's value in its list.
  // REQUIRES: index < size() and digits.size() == params().size().
  void DigitsAt(uint64_t index, absl::Span<uint16_t> digits) const;
  std::vector<uint16_t> DigitsAt(uint64_t index) const;

  // Nothing if the config is not valid or not one of this space.
  std::optional<uint64_t> IndexOf(const Config& config) const;
  std::optional<uint64_t> IndexOfDigits(absl::Span<const uint16_t> digits) const;

  // Replaces `out` by the valid neighbours of a config: by param, and by digit within a param.
  // REQUIRES: index < size().
  void Neighbours(uint64_t index, Neighbourhood neighbourhood, std::vector<uint64_t>& out) const;

 private:
  Space() = default;

  uint64_t size_ = 0;
  std::vector<SpaceParam> params_;
  std::vector<uint16_t> rows_;  // params_.size() digits a config, sorted
};

}  // namespace tune
