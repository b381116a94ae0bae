// SPDX-License-Identifier: Apache-2.0
#include "tuner/plan.h"

#include <algorithm>
#include <utility>

namespace tune {

CompilePlan PlanOfUnit(const CompilePlan& plan, size_t unit) {
  CompilePlan one = plan;
  one.more.clear();
  if (unit == 0) return one;
  const CompileUnit& wanted = plan.more.at(unit - 1);
  std::erase_if(one.headers,
                [&](const SourceFile& file) { return file.name == wanted.source_name; });
  one.headers.push_back({plan.source_name, plan.source_text});
  one.source_name = wanted.source_name;
  one.source_text = wanted.source_text;
  one.entries = wanted.entries;
  one.symbols = wanted.symbols;
  return one;
}

Program WithBinary(const ProgramPlan& plan, std::string binary) {
  return {.steps = plan.steps, .binary = std::move(binary), .symbols = plan.symbols};
}

int64_t DynamicSharedBytes(const std::vector<StepPlan>& steps) {
  int64_t bytes = 0;
  for (const StepPlan& step : steps) bytes = std::max(bytes, step.launch.shared_bytes);
  return bytes;
}

}  // namespace tune
