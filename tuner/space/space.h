// SPDX-License-Identifier: Apache-2.0
// A space: all valid configs of a kernel for one problem and target, by index.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tuner/config.h"
#include "tuner/expression/expression.h"
#include "tuner/space/diagram.h"
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

// A constraint over params and lets. Every other name in it is a constant.
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

// The time and memory that finding the configs may take.
struct SpaceEffort {
  enum class Size {
    kAny,    // a second or two of work, and some 100 MiB while it lasts
    kSmall,  // some milliseconds and 2 MiB; ABORTED if that is not enough
  };
  Size size = Size::kAny;
  // Called every few milliseconds; once it returns true, the call ends with CANCELLED. May be
  // empty.
  std::function<bool()> stopped;
};

// Which configs are neighbours: those that differ in exactly one param. That param has any other
// value of its list (kHamming), or the next value up or down the list (kAdjacent).
enum class Neighbourhood { kHamming, kAdjacent };

// Immutable and thread-safe. Only the definition decides the order of the configs, which is not
// that of the value lists. A space holds a diagram of its configs, not a list of them (see
// docs/spaces.md), so it may have billions of them.
class Space {
 public:
  // Finds the valid configs without enumerating the product. A constraint is applied as soon as its
  // params are fixed. Params that share no constraint are kept apart. Assignments that go on alike
  // are followed once. A config is valid if every constraint is true. If some constraint is false
  // for it, it is not valid, even if another cannot be evaluated there.
  //
  // INVALID_ARGUMENT if a constraint cannot be evaluated for a config that the others allow, or if
  // no config is left (names the constraint, or the few that conflict). RESOURCE_EXHAUSTED if there
  // are more than 2^62 configs, or if valid ones are too rare to be found.
  static absl::StatusOr<Space> Build(const SpaceDefinition& definition,
                                     const SpaceEffort& effort = {});
  // A space whose configs are listed. A row has params.size() digits, positions in the params'
  // values. Index i is row i. INVALID_ARGUMENT if the rows are not sorted, or one is there twice.
  static absl::StatusOr<Space> FromRows(std::vector<SpaceParam> params, std::vector<uint16_t> rows);

  // Every index is below this.
  uint64_t size() const { return size_; }
  // Whether every index below size() is a valid config. If not, the space is too large to be known.
  // Then some constraints are checked config by config. Contains() says for which index they hold,
  // and strategies pass over the others.
  bool exact() const { return lazy_ == nullptr; }
  // REQUIRES: index < size().
  bool Contains(uint64_t index) const;
  // The index of a valid config, the same one each time. 0 if the space is exact.
  uint64_t SomeValid() const;
  // How many valid configs there are: size(), or an estimate with this relative standard error.
  double valid_count() const { return valid_count_; }
  double valid_count_error() const { return valid_count_error_; }

  const std::vector<SpaceParam>& params() const { return params_; }
  // How many values param `i` has, whether valid configs take them all or not.
  size_t radix(size_t i) const { return params_[i].values.size(); }

  // REQUIRES: index < size().
  Config At(uint64_t index) const;
  // Digits: the position of each param's value in its list.
  // REQUIRES: index < size() and digits.size() == params().size().
  void DigitsAt(uint64_t index, absl::Span<uint16_t> digits) const;
  std::vector<uint16_t> DigitsAt(uint64_t index) const;
  // The digits of `count` indices from `first` on, one row of params().size() after the other.
  // REQUIRES: first + count <= size() and rows.size() == count * params().size().
  void DigitsOf(uint64_t first, uint64_t count, absl::Span<uint16_t> rows) const;

  // nullopt if the config is not valid or not one of this space.
  std::optional<uint64_t> IndexOf(const Config& config) const;
  std::optional<uint64_t> IndexOfDigits(absl::Span<const uint16_t> digits) const;

  // Replaces `out` by the valid neighbours of a config, ordered by param, and within a param by
  // digit.
  // REQUIRES: index < size().
  void Neighbours(uint64_t index, Neighbourhood neighbourhood, std::vector<uint64_t>& out) const;

  // A valid config. All are equally likely. `random` gives 64 random bits at a time.
  uint64_t Sample(absl::FunctionRef<uint64_t()> random) const;

  // How many valid configs have each value of param `i`. In an inexact space it counts indices
  // instead.
  std::vector<uint64_t> ValueCounts(size_t i) const;
  // The groups of params that share constraints, each with how many valid assignments it has. Their
  // product is size().
  struct Component {
    std::vector<size_t> params;
    uint64_t count = 0;
  };
  std::vector<Component> components() const;
  // Memory held for the configs.
  size_t bytes() const;

 private:
  struct Lazy;
  struct Place {
    size_t component = 0;
    size_t level = 0;
  };
  Space() = default;
  // Keeps both and computes the size from them. RESOURCE_EXHAUSTED if there are too many configs.
  absl::Status Hold(std::vector<SpaceParam> params, std::vector<Diagram> components);
  absl::Status CountLazily(Lazy* lazy, const SpaceEffort& effort);
  bool Holds(absl::Span<const uint16_t> digits) const;

  uint64_t size_ = 0;
  double valid_count_ = 0;
  double valid_count_error_ = 0;
  std::vector<SpaceParam> params_;
  std::vector<Diagram> components_;  // the first is the slowest
  std::vector<uint64_t> strides_;    // of each component
  std::vector<Place> places_;        // of each param
  std::shared_ptr<const Lazy> lazy_;
};

}  // namespace tune
