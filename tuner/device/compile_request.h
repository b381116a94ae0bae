// SPDX-License-Identifier: Apache-2.0
// What every compiler does alike: refusing a request before it is compiled, describing what came
// of it.
#pragma once

#include <string>

#include "tuner/device/compiler.h"
#include "tuner/plan.h"

namespace tune {

// Names and values of macros, names of entries and symbols, options, and what the sources include;
// empty if nothing is wrong.
std::string WhyNotAllowed(const CompilePlan& plan);

// Empty without symbols. What follows a source of CUDA C++, so that its compiler finds those that
// are not as large as the spec says.
std::string SymbolChecks(const CompilePlan& plan);

Artifact Refused(Outcome outcome, std::string log);

// What a front end is asked for the plan: without the options that no source speaks of, such as
// num_stages, since those are for the compiler behind it. Configs that differ in nothing else are
// one to the front end and its cache.
CompilePlan ForFrontEnd(CompilePlan plan);

// What goes on from a front end, which made `front` of the plan, to the compiler of the language
// that it makes. INTERNAL: it made something else of it.
absl::StatusOr<CompilePlan> Lowered(CompilePlan plan, Language language, const Artifact& front);

// Sets the size and the hash of the binary that is there.
void DescribeBinary(Artifact& artifact);

}  // namespace tune
