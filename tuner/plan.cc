// SPDX-License-Identifier: Apache-2.0
#include "tuner/plan.h"

#include <algorithm>

namespace tune {

int64_t DynamicSharedBytes(const std::vector<StepPlan>& steps) {
  int64_t bytes = 0;
  for (const StepPlan& step : steps) bytes = std::max(bytes, step.launch.shared_bytes);
  return bytes;
}

}  // namespace tune
