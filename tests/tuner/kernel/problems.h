// SPDX-License-Identifier: Apache-2.0
// How tests of kernels make problems and read their arguments.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "tuner/kernel/kernel.h"

namespace tune {

inline TargetTraits Traits(const std::string& target) { return TargetTraitsFor(target).value(); }

inline Problem MakeProblem(const Kernel& kernel, const std::map<std::string, int64_t>& dims,
                    const std::string& dtype, const std::string& target) {
  return kernel.MakeProblem(dims, dtype, target).value();
}

template <typename T>
const T& Arg(const std::vector<ArgPlan>& args, size_t i) {
  return std::get<T>(args.at(i));
}

}  // namespace tune
