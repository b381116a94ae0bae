// SPDX-License-Identifier: Apache-2.0
#include "tuner/plan.h"

#include <algorithm>

namespace tune {

const BufferPlan* FindBuffer(const ProblemPlan& plan, const std::string& name) {
  const auto found = std::find_if(plan.buffers.begin(), plan.buffers.end(),
                                  [&](const BufferPlan& buffer) { return buffer.name == name; });
  return found == plan.buffers.end() ? nullptr : &*found;
}

double WrittenBytes(const ProblemPlan& plan) {
  double bytes = 0;
  for (const BufferPlan& buffer : plan.buffers) {
    if (buffer.role != Role::kOutput && buffer.role != Role::kInOut) continue;
    bytes += static_cast<double>(buffer.count) * static_cast<double>(SizeInBytes(buffer.dtype));
  }
  return bytes;
}

int64_t DynamicSharedBytes(const std::vector<StepPlan>& steps) {
  int64_t bytes = 0;
  for (const StepPlan& step : steps) bytes = std::max(bytes, step.launch.shared_bytes);
  return bytes;
}

}  // namespace tune
