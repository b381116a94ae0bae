// SPDX-License-Identifier: Apache-2.0
#include "tuner/strategies/geometry.h"

#include <string>
#include <variant>

namespace tune {

Geometry::Geometry(const Space& space) {
  for (size_t param = 0; param < space.params().size(); ++param) {
    const size_t radix = space.radix(param);
    if (radix < 2) continue;
    axes_.push_back(
        {.param = param,
         .radix = radix,
         .scale = 1.0 / static_cast<double>(radix - 1),
         .nominal = std::holds_alternative<std::string>(space.params()[param].values.front())});
  }
}

double Geometry::Distance(absl::Span<const uint16_t> a, absl::Span<const uint16_t> b) const {
  double sum = 0;
  for (size_t axis = 0; axis < axes_.size(); ++axis) {
    sum += Between(axis, a[param(axis)], b[param(axis)]);
  }
  return sum;
}

}  // namespace tune
