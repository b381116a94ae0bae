// SPDX-License-Identifier: Apache-2.0
#include "server/worker/compile_units.h"

#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "tuner/bundle.h"
#include "tuner/device/compile_request.h"

namespace tune::server {
namespace {

void Add(Artifact unit, int index, Artifact& all) {
  for (EntryFacts& entry : unit.entries) entry.unit = index;
  for (SymbolFacts& symbol : unit.symbols) symbol.unit = index;
  std::move(unit.entries.begin(), unit.entries.end(), std::back_inserter(all.entries));
  std::move(unit.symbols.begin(), unit.symbols.end(), std::back_inserter(all.symbols));
  absl::StrAppend(&all.log, unit.log);
  AddResources(unit.resources, all.resources);
  all.seconds += unit.seconds;
}

}  // namespace

absl::StatusOr<Artifact> CompileUnits(Compiler& compiler, const CompilePlan& plan) {
  if (plan.more.empty()) return compiler.Compile(plan);
  Artifact all;
  std::vector<std::string> binaries;
  for (size_t i = 0; i <= plan.more.size(); ++i) {
    ASSIGN_OR_RETURN(Artifact unit, compiler.Compile(PlanOfUnit(plan, i)));
    if (unit.outcome != Outcome::kOk) return unit;
    binaries.push_back(std::move(unit.binary));
    Add(std::move(unit), static_cast<int>(i), all);
  }
  all.binary = Bundle(binaries);
  DescribeBinary(all);
  return all;
}

}  // namespace tune::server
