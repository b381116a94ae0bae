// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "tuner/kernel/kernel.h"
#include "tuner/problem.h"
#include "tuner/transfer/launch_sizes.h"

namespace tune {

LaunchSizes LaunchSizesOf(const Kernel& kernel, const Problem& problem, const std::string& target);

}  // namespace tune
