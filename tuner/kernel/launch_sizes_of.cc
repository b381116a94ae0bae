// SPDX-License-Identifier: Apache-2.0
#include "tuner/kernel/launch_sizes_of.h"

#include <utility>
#include <vector>

namespace tune {
namespace {

LaunchText TextOf(const v1::Launch& launch, const std::string& when) {
  return {.when = when,
          .grid = {launch.grid().begin(), launch.grid().end()},
          .block = {launch.block().begin(), launch.block().end()},
          .shared_bytes = launch.shared_bytes()};
}

}  // namespace

LaunchSizes LaunchSizesOf(const Kernel& kernel, const Problem& problem, const std::string& target) {
  const v1::KernelSpec& spec = kernel.spec();
  Scope scope;
  for (const auto& [name, value] : problem.dims) scope.Set(name, value);
  scope.Set("dtype", ToText(problem.dtype));
  scope.Set("dtype_bytes", SizeInBytes(problem.dtype));
  scope.Set("target", target);
  const absl::StatusOr<TargetTraits> traits = TargetTraitsFor(target);
  scope.Set("sm", int64_t{traits.ok() ? traits->sm : 0});
  std::vector<std::pair<std::string, std::string>> lets;
  for (const v1::Let& let : spec.lets()) lets.emplace_back(let.name(), let.value());
  std::vector<LaunchText> steps;
  if (spec.steps().empty()) steps.push_back(TextOf(spec.launch(), ""));
  for (const v1::Step& step : spec.steps()) steps.push_back(TextOf(step.launch(), step.when()));
  return LaunchSizes(lets, steps, std::move(scope));
}

}  // namespace tune
