// SPDX-License-Identifier: Apache-2.0
#include "tuner/kernel/kernel_spec.h"

#include <algorithm>

namespace tune {

std::optional<size_t> FindArg(const KernelSpec& spec, const std::string& name) {
  const auto arg = std::find_if(spec.args.begin(), spec.args.end(),
                                [&](const ArgSpec& one) { return one.name == name; });
  if (arg == spec.args.end()) return std::nullopt;
  return static_cast<size_t>(arg - spec.args.begin());
}

}  // namespace tune
