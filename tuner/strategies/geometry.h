// SPDX-License-Identifier: Apache-2.0
// How far configs are from each other, for models. Each param that varies is an axis of length 1.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "tuner/space/space.h"

namespace tune {

class Geometry {
 public:
  explicit Geometry(const Space& space);

  size_t axes() const { return axes_.size(); }
  // The param that an axis is.
  size_t param(size_t axis) const { return axes_[axis].param; }
  size_t radix(size_t axis) const { return axes_[axis].radix; }

  // The distance of two digits of an axis, 0 to 1: the difference of their ranks. People make the
  // lists of values, in steps or in powers of two. They put values as far apart as they expect a
  // difference. Strings have no order: any two are 1 apart.
  double Between(size_t axis, size_t a, size_t b) const {
    const Axis& of = axes_[axis];
    if (of.nominal) return a == b ? 0 : 1;
    return static_cast<double>(a < b ? b - a : a - b) * of.scale;
  }
  // The sum of the distances over the axes, given the digits of two configs.
  double Distance(absl::Span<const uint16_t> a, absl::Span<const uint16_t> b) const;

 private:
  struct Axis {
    size_t param = 0;
    size_t radix = 0;
    double scale = 0;  // 1 / (radix - 1)
    bool nominal = false;
  };
  std::vector<Axis> axes_;
};

}  // namespace tune
