// SPDX-License-Identifier: Apache-2.0
#include "tuner/kernel/kernel_spec.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "tuner/expression/expression.h"

namespace tune {

std::optional<size_t> FindArg(const KernelSpec& spec, const std::string& name) {
  const auto arg = std::find_if(spec.args.begin(), spec.args.end(),
                                [&](const ArgSpec& one) { return one.name == name; });
  if (arg == spec.args.end()) return std::nullopt;
  return static_cast<size_t>(arg - spec.args.begin());
}

std::string StrideName(const std::string& buffer, size_t axis) {
  return absl::StrCat(buffer, "_stride_", axis);
}

bool UsesStrides(const KernelSpec& spec, const std::string& expression) {
  const absl::StatusOr<Expression> parsed = Expression::Parse(expression);
  if (!parsed.ok()) return false;
  std::set<std::string> strides;
  for (const ArgSpec& arg : spec.args) {
    if (!arg.buffer.has_value() || !arg.buffer->strided) continue;
    for (size_t axis = 0; axis + 1 < arg.buffer->shape.size(); ++axis) {
      strides.insert(StrideName(arg.name, axis));
    }
  }
  const std::vector<std::string>& names = parsed->names();
  return std::any_of(names.begin(), names.end(),
                     [&](const std::string& name) { return strides.contains(name); });
}

}  // namespace tune
