// SPDX-License-Identifier: Apache-2.0
#include "tuner/kernel/launch_sizes_of.h"

#include <utility>

namespace tune {

LaunchSizes LaunchSizesOf(const Kernel& kernel, const Problem& problem, const std::string& target) {
  Scope scope;
  for (const auto& [name, value] : problem.dims) scope.Set(name, value);
  scope.Set("dtype", ToText(problem.dtype));
  scope.Set("dtype_bytes", SizeInBytes(problem.dtype));
  scope.Set("target", target);
  const absl::StatusOr<TargetTraits> traits = TargetTraitsFor(target);
  scope.Set("sm", int64_t{traits.ok() ? traits->sm : 0});
  return LaunchSizes(kernel.launch_form(), std::move(scope));
}

}  // namespace tune
