// SPDX-License-Identifier: Apache-2.0
#include "tuner/plan.h"

#include <algorithm>
#include <utility>

namespace tune {

const BufferPlan* FindBuffer(const ProblemPlan& plan, const std::string& name) {
  const auto found = std::find_if(plan.buffers.begin(), plan.buffers.end(),
                                  [&](const BufferPlan& buffer) { return buffer.name == name; });
  return found == plan.buffers.end() ? nullptr : &*found;
}

BufferPlan* BufferOf(ArgPlan& arg) {
  if (auto* map = std::get_if<TensorMapPlan>(&arg)) return &map->buffer;
  return std::get_if<BufferPlan>(&arg);
}

double WrittenBytes(const ProblemPlan& plan) {
  double bytes = 0;
  for (const BufferPlan& buffer : plan.buffers) {
    if (buffer.role != Role::kOutput && buffer.role != Role::kInOut) continue;
    bytes += static_cast<double>(buffer.count) * static_cast<double>(SizeInBytes(buffer.dtype));
  }
  return bytes;
}

std::string ReferenceBufferName(const std::string& output) { return "reference." + output; }

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
  one.arguments = wanted.arguments;
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
