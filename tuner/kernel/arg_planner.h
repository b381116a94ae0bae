// SPDX-License-Identifier: Apache-2.0
// The args of a spec for one problem and, once it is set, one config: buffers with what they hold,
// scalars, tensor maps. Internal to tuner/kernel.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tuner/kernel/evaluation.h"
#include "tuner/kernel/kernel.h"
#include "tuner/kernel/parsed_spec.h"
#include "tuner/plan.h"

namespace tune {

// The name of an element in error messages: "args[2]".
std::string Indexed(const std::string& field, size_t index);

class ArgPlanner {
 public:
  // All of them must outlive this.
  ArgPlanner(const ParsedSpec& parsed, const Problem& problem, const TargetTraits& traits,
             const Evaluation& evaluation)
      : parsed_(parsed),
        spec_(parsed.spec),
        problem_(problem),
        traits_(traits),
        evaluation_(evaluation) {}

  // Plans arg `i` of the spec, a buffer or a symbol.
  absl::StatusOr<BufferPlan> Buffer(size_t i) const;
  // Every buffer of the spec, and what symbols are filled from, once.
  absl::StatusOr<std::vector<BufferPlan>> Buffers() const;
  // Contents of the buffers that have files.
  absl::StatusOr<std::vector<BufferFile>> Files() const;
  // Args of a step, without those that the target lacks.
  absl::StatusOr<std::vector<ArgPlan>> Args(const std::vector<size_t>& indices) const;

 private:
  absl::StatusOr<std::vector<int64_t>> Shape(size_t i) const;
  absl::StatusOr<Fill> FillOf(size_t i, const BufferPlan& buffer,
                              const std::vector<int64_t>& shape) const;
  absl::StatusOr<Fill> SparseFill(size_t i, const BufferPlan& buffer, Fill plan) const;
  absl::StatusOr<Fill> OffsetsFill(size_t i, const BufferPlan& buffer, Fill plan) const;
  // A buffer as an entry takes it: a descriptor has the config's block shape.
  absl::StatusOr<BufferPlan> BufferArg(size_t i) const;
  absl::StatusOr<ScalarPlan> Scalar(size_t i) const;
  absl::StatusOr<TensorMapPlan> TensorMap(size_t i) const;
  absl::StatusOr<std::vector<int64_t>> Sizes(const std::string& field,
                                             const std::vector<Expression>& expressions) const;

  const ParsedSpec& parsed_;
  const KernelSpec& spec_;
  const Problem& problem_;
  const TargetTraits& traits_;
  const Evaluation& evaluation_;
};

}  // namespace tune
